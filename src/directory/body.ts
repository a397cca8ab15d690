import { createGunzip } from "node:zlib";
import type { PageMemory } from "../core/buffer-pool.ts";
import type { LeasedBytes } from "../core/page-lease.ts";
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
  /** The lease becomes the receiver's. */
  whole(body: LeasedBytes): void;
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
  memory: PageMemory,
  outcome: BodyOutcome,
): BodyReceiver {
  switch (encoding?.trim().toLowerCase()) {
    case undefined:
    case "":
    case "identity":
      return contentLength === undefined
        ? receiveGuessed(where, guess, bytesMax, memory, outcome)
        : receiveSized(contentLength, memory, outcome);
    case "gzip":
    case "x-gzip":
      return receiveGzip(where, guess, bytesMax, memory, outcome);
    default:
      throw new NonsenseError(`${where}: a body in the encoding "${encoding}", which was not asked for`);
  }
}

export function tooLarge(where: string, bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`${where}: the body is larger than ${bytesMax} bytes`);
}

/** The length is known: every piece is copied once, to its place. */
function receiveSized(length: number, memory: PageMemory, outcome: BodyOutcome): BodyReceiver {
  const { bytes: body, lease } = memory.take(length);
  let at = 0;
  return {
    write(piece) {
      // The HTTP parser holds the sender to its content-length, so a piece always fits.
      at += piece.copy(body, at);
      return true;
    },
    end: () => outcome.whole({ bytes: at === body.length ? body : body.subarray(0, at), lease }),
    abandon: () => lease.release(),
  };
}

/** The length is not known: room for a guess, more when it is wrong, and the excess given back at the end. */
function receiveGuessed(
  where: string,
  guess: number,
  bytesMax: number,
  memory: PageMemory,
  outcome: BodyOutcome,
): BodyReceiver {
  let body = memory.take(Math.min(Math.max(guess, GUESS_BYTES_MIN), bytesMax));
  let at = 0;
  let isAbandoned = false;
  return {
    write(piece) {
      if (isAbandoned) return true;
      const needed = at + piece.length;
      if (needed > bytesMax) {
        outcome.failed(tooLarge(where, bytesMax));
        return true;
      }
      const { length } = body.bytes;
      if (needed > length) body = grown(memory, body, at, Math.min(Math.max(needed, length * 2), bytesMax));
      at += piece.copy(body.bytes, at);
      return true;
    },
    end() {
      // Slices of the body keep all of its memory, so little of that may be idle.
      const isWasteful = body.bytes.length - at > MEGABYTE + at / 2;
      const { bytes, lease } = isWasteful ? grown(memory, body, at, at) : body;
      outcome.whole({ bytes: bytes.subarray(0, at), lease });
    },
    abandon() {
      isAbandoned = true;
      body.lease.release();
    },
  };
}

/** The same bytes in memory of another size. */
function grown(memory: PageMemory, body: LeasedBytes, used: number, bytes: number): LeasedBytes {
  const other = memory.take(bytes);
  body.bytes.copy(other.bytes, 0, 0, used);
  body.lease.release();
  return other;
}

function receiveGzip(
  where: string,
  guess: number,
  bytesMax: number,
  memory: PageMemory,
  outcome: BodyOutcome,
): BodyReceiver {
  const gunzip = createGunzip({ chunkSize: 256 * 1024 });
  const plain = receiveGuessed(where, guess, bytesMax, memory, outcome);
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
