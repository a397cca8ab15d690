import { createGunzip } from "node:zlib";
import { BodyTooLargeError, CutOffError, NonsenseError } from "./errors.ts";

/** Takes the pieces of a body as they come. */
export interface BodyReceiver {
  /** False: no more until `drained` is called. */
  write(piece: Buffer): boolean;
  end(): void;
  /** Gives the body up; nothing is called afterwards. */
  abandon(): void;
}

export interface BodyOutcome {
  whole(body: Buffer): void;
  failed(error: Error): void;
  drained(): void;
}

/** `where` names the request in errors; `bytesMax` bounds the decompressed size. */
export function receiverOf(
  where: string,
  encoding: string | undefined,
  contentLength: number | undefined,
  bytesMax: number,
  outcome: BodyOutcome,
): BodyReceiver {
  switch (encoding?.trim().toLowerCase()) {
    case undefined:
    case "":
    case "identity":
      return contentLength === undefined
        ? receivePieces(where, bytesMax, outcome)
        : receiveSized(contentLength, outcome);
    case "gzip":
    case "x-gzip":
      return receiveGzip(where, bytesMax, outcome);
    default:
      throw new NonsenseError(`${where}: a body in the encoding "${encoding}", which was not asked for`);
  }
}

export function tooLarge(where: string, bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`${where}: the body is larger than ${bytesMax} bytes`);
}

/** The length is known: every piece is copied once, to its place. */
function receiveSized(length: number, outcome: BodyOutcome): BodyReceiver {
  const body = Buffer.allocUnsafeSlow(length);
  let at = 0;
  return {
    write(piece) {
      // The HTTP parser holds the sender to its content-length, so a piece always fits.
      at += piece.copy(body, at);
      return true;
    },
    end: () => outcome.whole(at === length ? body : body.subarray(0, at)),
    abandon() {},
  };
}

function receivePieces(where: string, bytesMax: number, outcome: BodyOutcome): BodyReceiver {
  let pieces: Buffer[] = [];
  let bytes = 0;
  return {
    write(piece) {
      bytes += piece.length;
      if (bytes > bytesMax) {
        pieces = [];
        outcome.failed(tooLarge(where, bytesMax));
      } else {
        pieces.push(piece);
      }
      return true;
    },
    end: () => outcome.whole(Buffer.concat(pieces, bytes)),
    abandon() {
      pieces = [];
    },
  };
}

function receiveGzip(where: string, bytesMax: number, outcome: BodyOutcome): BodyReceiver {
  const gunzip = createGunzip({ chunkSize: 256 * 1024 });
  const plain = receivePieces(where, bytesMax, outcome);
  gunzip.on("data", (piece: Buffer) => plain.write(piece));
  gunzip.on("end", () => plain.end());
  gunzip.on("drain", () => outcome.drained());
  gunzip.on("error", (cause) => {
    outcome.failed(new CutOffError(`${where}: the compressed body is damaged or incomplete`, { cause }));
  });
  return {
    write: (piece) => gunzip.write(piece),
    end: () => gunzip.end(),
    abandon() {
      gunzip.removeAllListeners("end").removeAllListeners("drain");
      plain.abandon();
      gunzip.destroy();
    },
  };
}
