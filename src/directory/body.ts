import { createGunzip } from "node:zlib";
import { takeRoom } from "../core/buffer-pool.ts";
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

const GUESS_BYTES_MIN = 4096;
const MEGABYTE = 1_048_576;

/** `where` names the request in errors; `guess` is the likely and `bytesMax` the largest decompressed size. */
export function receiverOf(
  where: string,
  encoding: string | undefined,
  contentLength: number | undefined,
  guess: number,
  bytesMax: number,
  outcome: BodyOutcome,
): BodyReceiver {
  switch (encoding?.trim().toLowerCase()) {
    case undefined:
    case "":
    case "identity":
      return contentLength === undefined
        ? receiveGuessed(where, guess, bytesMax, outcome)
        : receiveSized(contentLength, outcome);
    case "gzip":
    case "x-gzip":
      return receiveGzip(where, guess, bytesMax, outcome);
    default:
      throw new NonsenseError(`${where}: a body in the encoding "${encoding}", which was not asked for`);
  }
}

export function tooLarge(where: string, bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`${where}: the body is larger than ${bytesMax} bytes`);
}

/** The length is known: every piece is copied once, to its place. */
function receiveSized(length: number, outcome: BodyOutcome): BodyReceiver {
  const body = takeRoom(length);
  let at = 0;
  return {
    write(piece) {
      // The HTTP parser holds the sender to its content-length, so a piece always fits.
      at += piece.copy(body, at);
      return true;
    },
    end: () => outcome.whole(at === body.length ? body : body.subarray(0, at)),
    abandon() {},
  };
}

/** The length is not known: room for a guess, more when it is wrong, and the excess given back at the end. */
function receiveGuessed(where: string, guess: number, bytesMax: number, outcome: BodyOutcome): BodyReceiver {
  let body = takeRoom(Math.min(Math.max(guess, GUESS_BYTES_MIN), bytesMax));
  let at = 0;
  return {
    write(piece) {
      const needed = at + piece.length;
      if (needed > bytesMax) {
        outcome.failed(tooLarge(where, bytesMax));
        return true;
      }
      if (needed > body.length) body = grown(body, at, Math.min(Math.max(needed, body.length * 2), bytesMax));
      at += piece.copy(body, at);
      return true;
    },
    end() {
      // Slices of the body keep all of its memory, so little of that may be idle.
      const whole = body.subarray(0, at);
      outcome.whole(body.length - at > MEGABYTE + at / 2 ? Buffer.from(whole) : whole);
    },
    abandon() {
      body = Buffer.alloc(0);
    },
  };
}

function grown(body: Buffer, used: number, bytes: number): Buffer {
  const larger = takeRoom(bytes);
  body.copy(larger, 0, 0, used);
  return larger;
}

function receiveGzip(where: string, guess: number, bytesMax: number, outcome: BodyOutcome): BodyReceiver {
  const gunzip = createGunzip({ chunkSize: 256 * 1024 });
  const plain = receiveGuessed(where, guess, bytesMax, outcome);
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
