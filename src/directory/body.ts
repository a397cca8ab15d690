import { createGunzip } from "node:zlib";
import { BLOCK_BYTES, type PageMemory } from "../core/buffer-pool.ts";
import { collectShortLived, HUGE_BYTES } from "../core/collect-garbage.ts";
import type { LeasedBytes } from "../core/page-lease.ts";
import { BodyTooLargeError, CutOffError, NonsenseError, NoRoomError } from "./errors.ts";

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
const BLOCK_BYTES_MIN = 16_384;
/** A body that is larger than guessed grows by blocks that are used again: small ones would be garbage. */
const SMALL_BYTES = 65_536;

/** The limits of one body and the memory for it. */
export interface BodyLimits {
  /** Names the request in errors. */
  readonly where: string;
  /** The likely decompressed size; 0 when nothing is known. */
  readonly guess: number;
  /** The largest decompressed size. */
  readonly bytesMax: number;
  readonly memory: PageMemory;
  /** The budget of the memory does not bind this body. */
  readonly mayExceed: boolean;
}

/** Throws NoRoomError or NonsenseError. */
export function receiverOf(
  limits: BodyLimits,
  encoding: string | undefined,
  contentLength: number | undefined,
  outcome: BodyOutcome,
): BodyReceiver {
  switch (encoding?.trim().toLowerCase()) {
    case undefined:
    case "":
    case "identity":
      return contentLength === undefined
        ? receiveGuessed(limits, outcome)
        : receiveSized(limits, contentLength, outcome);
    case "gzip":
    case "x-gzip":
      return receiveGzip(limits, outcome);
    default:
      throw new NonsenseError(
        `${limits.where}: a body in the encoding "${encoding}", which was not asked for`,
      );
  }
}

/** Memory for a body within the budget of all bodies in flight. */
function taken(limits: BodyLimits, bytes: number): LeasedBytes {
  refuseWithoutRoom(limits, bytes);
  return limits.memory.take(bytes);
}

function refuseWithoutRoom({ where, memory, mayExceed }: BodyLimits, bytes: number): void {
  if (!mayExceed && !memory.hasRoom(bytes))
    throw new NoRoomError(`${where}: bodies in flight have used up the memory budget`);
}

export function tooLarge(where: string, bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`${where}: the body is larger than ${bytesMax} bytes`);
}

/** The length is known: every piece is copied once, to its place. */
function receiveSized(limits: BodyLimits, length: number, outcome: BodyOutcome): BodyReceiver {
  const { bytes: body, lease } = taken(limits, length);
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

/**
 * The length is not known: memory for a guess, and blocks behind it when that was too small. They are joined
 * at the end, so that a body which is given up never needed more memory than was received of it.
 */
function receiveGuessed(limits: BodyLimits, outcome: BodyOutcome): BodyReceiver {
  const { where, guess, bytesMax } = limits;
  const blocks = [taken(limits, Math.min(Math.max(guess, GUESS_BYTES_MIN), bytesMax))];
  let received = 0;
  /** In the last block. */
  let at = 0;
  let isAbandoned = false;

  function store(piece: Buffer): void {
    for (let from = 0; from < piece.length; ) {
      let last = blocks.at(-1)!.bytes;
      if (at === last.length) {
        // All of a huge body has to find room twice, as the blocks and joined.
        if (received > HUGE_BYTES) refuseWithoutRoom(limits, received);
        blocks.push(taken(limits, received + from < SMALL_BYTES ? BLOCK_BYTES_MIN : BLOCK_BYTES));
        last = blocks.at(-1)!.bytes;
        at = 0;
      }
      const copied = piece.copy(last, at, from);
      at += copied;
      from += copied;
    }
    received += piece.length;
  }

  return {
    write(piece) {
      if (isAbandoned) return true;
      try {
        if (received + piece.length > bytesMax) throw tooLarge(where, bytesMax);
        store(piece);
      } catch (error) {
        outcome.failed(error as Error);
      }
      return true;
    },
    end() {
      const [first] = blocks as [LeasedBytes];
      // Slices of the body keep all of its memory, so little of that may be idle.
      const isFitting = blocks.length === 1 && first.bytes.length - received <= MEGABYTE + received / 2;
      const { bytes, lease } = isFitting ? first : joined(limits.memory, blocks, received);
      outcome.whole({ bytes: bytes.subarray(0, received), lease });
    },
    abandon() {
      isAbandoned = true;
      for (const { lease } of blocks) lease.release();
    },
  };
}

function joined(memory: PageMemory, blocks: readonly LeasedBytes[], length: number): LeasedBytes {
  const whole = memory.take(length);
  let at = 0;
  for (const { bytes, lease } of blocks) {
    at += bytes.copy(whole.bytes, at, 0, Math.min(bytes.length, length - at));
    lease.release();
  }
  return whole;
}

function receiveGzip(limits: BodyLimits, outcome: BodyOutcome): BodyReceiver {
  const gunzip = createGunzip({ chunkSize: 256 * 1024 });
  const plain = receiveGuessed(limits, outcome);
  gunzip.on("data", (piece: Buffer) => {
    plain.write(piece);
    collectShortLived(piece.length);
  });
  gunzip.on("end", () => plain.end());
  gunzip.on("drain", () => outcome.drained());
  gunzip.on("error", (cause) => {
    outcome.failed(
      new CutOffError(`${limits.where}: the compressed body is damaged or incomplete`, { cause }),
    );
  });
  return {
    write: (piece) => gunzip.write(piece),
    end: () => gunzip.end(),
    abandon() {
      gunzip.removeAllListeners("end").removeAllListeners("drain").removeAllListeners("data");
      plain.abandon();
      gunzip.destroy();
    },
  };
}
