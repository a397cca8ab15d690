import type { JournalEvent } from "../../core/event.ts";
import type { Batch, SinkRecord, Stretch } from "../../core/sink.ts";
import { type OpenFile, writeAll } from "./system.ts";

/** A file that takes events, with the part of the current batch that goes to it. */
export interface ActiveFile {
  number: number;
  /** Relative to the directory, with number and extension. */
  name: string;
  readonly createdMs: number;
  /** By the last commit. */
  length: number;
  /** Bytes of the pending records, line ends included, before compression. */
  pendingBytes: number;
  pending: Piece[];
  /** Bytes that the pending records have added to the file. */
  addedBytes: number;
  /** The sequence of the last commit that wrote to it. */
  usedAt: number;
}

/** A part of a batch; indexes count from `from` to before `to`. */
export interface Part {
  readonly from: number;
  readonly to: number;
  event(index: number): JournalEvent;
  /** The end of the neighbours from an index on that share organization and day; the next index will do. */
  alikeFrom(index: number): number;
  /** The bytes of the records from one index up to another, line ends included. */
  size(from: number, to: number): number;
  body(index: number): Uint8Array;
  /** Many with their line ends, where they are side by side in memory. */
  lines?(from: number, to: number): Uint8Array;
  /** The same as zstd frames, where the journal has such. */
  frames?(from: number, to: number): Uint8Array | undefined;
}

/** Those neighbours in a part that go to one file. */
export interface Piece {
  readonly part: Part;
  readonly from: number;
  to: number;
}

export function partsOf(batch: Batch): readonly Part[] {
  return batch.stretches === undefined
    ? [new RecordsPart(batch.records)]
    : batch.stretches.map((stretch) => new LinesPart(stretch));
}

class LinesPart implements Part {
  readonly from: number;
  readonly to: number;
  readonly #lines: Stretch["lines"];

  constructor({ lines, from, to }: Stretch) {
    this.#lines = lines;
    this.from = from;
    this.to = to;
  }

  event(index: number): JournalEvent {
    return this.#lines.event(index);
  }
  alikeFrom(index: number): number {
    return this.#lines.alikeFrom(index, this.to);
  }
  size(from: number, to: number): number {
    return this.#lines.size(from, to);
  }
  body(index: number): Uint8Array {
    return this.#lines.bytes(index, index + 1).subarray(0, -1);
  }
  lines(from: number, to: number): Uint8Array {
    return this.#lines.bytes(from, to);
  }
  frames(from: number, to: number): Uint8Array | undefined {
    return this.#lines.frames?.(from, to);
  }
}

class RecordsPart implements Part {
  readonly from = 0;
  readonly to: number;
  readonly #records: readonly SinkRecord[];

  constructor(records: readonly SinkRecord[]) {
    this.#records = records;
    this.to = records.length;
  }

  event(index: number): JournalEvent {
    return this.#records[index]!.event;
  }
  alikeFrom(index: number): number {
    return index + 1;
  }
  size(from: number, to: number): number {
    let bytes = 0;
    for (let index = from; index < to; index++) bytes += this.#records[index]!.size + 1;
    return bytes;
  }
  body(index: number): Uint8Array {
    return this.#records[index]!.body;
  }
}

/** Adds neighbours to what a file is to take. */
export function addTo(target: ActiveFile, part: Part, from: number, to: number): void {
  const last = target.pending.at(-1);
  if (last?.part === part && last.to === from) last.to = to;
  else target.pending.push({ part, from, to });
  target.pendingBytes += part.size(from, to);
}

/** Copying into one large buffer beats handing thousands of small ones to the system. */
const BUFFER_BYTES = 262_144;
const LINE_END = 0x0a;

export interface Appender {
  /** Writes a file's pending records after its committed length, one a line. Gives the bytes added; the caller syncs them. */
  append(file: OpenFile, target: ActiveFile, signal: AbortSignal): Promise<number>;
  /** The bytes that `append` would write. */
  content(target: ActiveFile): Promise<readonly Uint8Array[]>;
}

const LINE_BREAK = Buffer.from("\n");

/** The records of a piece with their line ends. */
export function recordsOf({ part, from, to }: Piece): Uint8Array[] {
  if (part.lines !== undefined) return [part.lines(from, to)];
  const records: Uint8Array[] = [];
  for (let index = from; index < to; index++) records.push(part.body(index), LINE_BREAK);
  return records;
}

/** Appends records as they are. */
export function createAppender(): Appender {
  // As many as appends run side by side.
  const free: Buffer[] = [];

  async function append(file: OpenFile, target: ActiveFile, signal: AbortSignal): Promise<number> {
    const buffer = free.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES);
    let filled = 0;
    let position = target.length;

    async function write(bytes: Uint8Array): Promise<void> {
      signal.throwIfAborted();
      if (bytes.length === 0) return;
      await writeAll(file, bytes, position);
      position += bytes.length;
    }
    async function flush(): Promise<void> {
      await write(buffer.subarray(0, filled));
      filled = 0;
    }
    /** Bytes that do not fit into the buffer are written directly, and so are those that are alone. */
    async function add(bytes: Uint8Array): Promise<void> {
      if (filled + bytes.length > BUFFER_BYTES) await flush();
      if (bytes.length > BUFFER_BYTES || target.pending.length === 1) return write(bytes);
      buffer.set(bytes, filled);
      filled += bytes.length;
    }
    /** Bodies with their line ends for as long as they fit; gives the index of the one that does not. */
    function fill({ part, to }: Piece, from: number): number {
      let index = from;
      for (; index < to; index++) {
        const size = part.size(index, index + 1);
        if (filled + size > BUFFER_BYTES) break;
        buffer.set(part.body(index), filled);
        filled += size;
        buffer[filled - 1] = LINE_END;
      }
      return index;
    }
    async function addEach(piece: Piece): Promise<void> {
      for (let index = fill(piece, piece.from); index < piece.to; index = fill(piece, index)) {
        await flush();
        if (piece.part.size(index, index + 1) <= BUFFER_BYTES) continue;
        await write(piece.part.body(index++));
        buffer[filled++] = LINE_END;
      }
    }

    try {
      for (const piece of target.pending) {
        const { part, from, to } = piece;
        if (part.lines === undefined) await addEach(piece);
        else await add(part.lines(from, to));
      }
      await flush();
      return position - target.length;
    } finally {
      free.push(buffer);
    }
  }

  return { append, content: async ({ pending }) => pending.flatMap(recordsOf) };
}
