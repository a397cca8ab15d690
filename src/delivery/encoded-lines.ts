import { POISON } from "../core/buffer-pool.ts";
import type { JournalEvent } from "../core/event.ts";
import type { JournalPage, Lines } from "../core/journal.ts";
import { type LeasedBytes, leaseOf, type PageLease } from "../core/page-lease.ts";
import type { SharedLines } from "../core/page-slice.ts";
import { createEncodedMemory, type EncodedMemory } from "./encoded-memory.ts";

/** A large batch needs several, so a small one does not hold much memory. */
const CHUNK_BYTES = 2 << 20;
/** Chunks that are kept for the next batch, in bytes. */
const FREE_BYTES_MAX = 12 << 20;
const LINE_BREAK = 0x0a;

/** Memory for encoded events. It is used again after the write of its batch. */
export interface Chunks {
  /** At least so many bytes. */
  take(bytes: number): LeasedBytes;
  /** False: all sinks together hold as much as they should. */
  hasRoom(): boolean;
}

export interface ChunksOptions {
  readonly chunkBytes?: number;
  readonly poison?: boolean;
  readonly memory?: EncodedMemory;
}

export function createChunks({
  chunkBytes = CHUNK_BYTES,
  poison = false,
  memory = createEncodedMemory(),
}: ChunksOptions = {}): Chunks {
  const free: Buffer[] = [];
  return {
    take(needed) {
      const used = needed <= chunkBytes ? free.pop() : undefined;
      if (used !== undefined) memory.use(chunkBytes);
      const bytes = used ?? Buffer.allocUnsafeSlow(Math.max(needed, chunkBytes));
      const { length } = bytes;
      memory.take(length);
      const lease = leaseOf(bytes, (freed) => {
        memory.free(length);
        if (poison) freed.fill(POISON);
        const isKept = length === chunkBytes && (free.length + 1) * chunkBytes <= FREE_BYTES_MAX;
        if (isKept && memory.keep(chunkBytes)) free.push(freed);
      });
      return { bytes, lease };
    },
    hasRoom: memory.hasRoom,
  };
}

/** Room for line breaks that the sink's own limit does not count. */
const SLACK_BYTES = 64 << 10;

/** The chunk for batches of at most so many bytes. */
export function chunkBytesFor(batchBytesMax: number): number {
  return Math.min(CHUNK_BYTES, batchBytesMax + SLACK_BYTES);
}

/** Encoded neighbours of a page, each its own line, one behind the other in a chunk. */
export class EncodedLines implements Lines {
  readonly page: JournalPage;
  readonly #bytes: Buffer;
  readonly #first: number;
  /** Of the lines from `first` on, in the chunk; one more than there are lines. */
  readonly #starts: number[];
  #pageLines: Lines | undefined | null = null;

  constructor(page: JournalPage, bytes: Buffer, first: number, start: number) {
    this.page = page;
    this.#bytes = bytes;
    this.#first = first;
    this.#starts = [start];
  }

  push(end: number): void {
    this.#starts.push(end);
  }
  event(index: number): JournalEvent {
    return this.page.event(index);
  }
  get fetchedAtMs(): number {
    return this.page.event(this.#first).fetchedAtMs;
  }
  bytes(from: number, to: number): Uint8Array {
    return this.#bytes.subarray(this.#starts[from - this.#first], this.#starts[to - this.#first]);
  }
  size(from: number, to: number): number {
    return this.#starts[to - this.#first]! - this.#starts[from - this.#first]!;
  }
  alikeFrom(from: number, to: number): number {
    if (this.#pageLines === null) this.#pageLines = this.page.lines;
    return this.#pageLines?.alikeFrom(from, to) ?? from + 1;
  }
}

/** Writes encoded events into chunks and adds them to the stretches of a batch. */
export function createEncodedOutput(chunks: Chunks, stretches: { lines: Lines; from: number; to: number }[]) {
  const leases: PageLease[] = [];
  let chunk: Buffer = Buffer.alloc(0);
  let filled = 0;
  let lines: EncodedLines | undefined;

  /** Room for so many bytes in one chunk. */
  function reserve(bytes: number): void {
    if (filled + bytes <= chunk.length) return;
    const taken = chunks.take(bytes);
    leases.push(taken.lease);
    chunk = taken.bytes;
    filled = 0;
    lines = undefined;
  }

  /** The stretch that goes on with this event; a new one where it is no neighbour of the one before. */
  function stretchFor(page: JournalPage, index: number) {
    const last = stretches.at(-1);
    if (lines?.page === page && last?.lines === lines && last.to === index) return { lines, stretch: last };
    lines = new EncodedLines(page, chunk, index, filled);
    const stretch = { lines, from: index, to: index };
    stretches.push(stretch);
    return { lines, stretch };
  }

  return {
    /** One for each chunk. */
    leases: leases as readonly PageLease[],
    /** Lines of neighbours from `first` on. */
    addLines(page: JournalPage, first: number, { bytes, ends }: SharedLines): void {
      reserve(bytes.length);
      const { lines: own, stretch } = stretchFor(page, first);
      chunk.set(bytes, filled);
      for (let at = 0; at < ends.length; at++) own.push(filled + ends[at]!);
      filled += bytes.length;
      stretch.to += ends.length;
    },
    /** `size` is the body's, without its line break. */
    add(page: JournalPage, index: number, body: Uint8Array | string, size: number): void {
      reserve(size + 1);
      const { lines: own, stretch } = stretchFor(page, index);
      if (typeof body === "string") chunk.write(body, filled, "utf8");
      else chunk.set(body, filled);
      filled += size;
      chunk[filled++] = LINE_BREAK;
      own.push(filled);
      stretch.to++;
    },
  };
}

export type EncodedOutput = ReturnType<typeof createEncodedOutput>;
