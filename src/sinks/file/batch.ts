import type { JournalEvent } from "../../core/event.ts";
import type { Batch } from "../../core/sink.ts";
import { type OpenFile, writeAll } from "./system.ts";

/** A file that takes events, with what the batch in hand adds to it. */
export interface ActiveFile {
  readonly number: number;
  /** Relative to the directory, with number and extension. */
  readonly name: string;
  readonly createdMs: number;
  /** By the last commit. */
  length: number;
  /** Bytes of the records in hand, line ends included. */
  pendingBytes: number;
  pending: Piece[];
  /** The sequence of the last commit that wrote to it. */
  usedAt: number;
}

/** A part of a batch; indexes count from `from` to before `to`. */
export interface Part {
  readonly from: number;
  readonly to: number;
  /** Good until the next call. */
  event(index: number): JournalEvent;
  body(index: number): Uint8Array;
  /** Of the body. */
  size(index: number): number;
  /** Many at once with their line ends, where they stand together in memory. */
  lines?(from: number, to: number): Uint8Array;
}

/** Those neighbours in a part that go to one file. */
export interface Piece {
  readonly part: Part;
  readonly from: number;
  to: number;
}

export function partsOf(batch: Batch): readonly Part[] {
  if (batch.stretches === undefined) return [recordsPart(batch)];
  return batch.stretches.map(({ lines, from, to }) => ({
    from,
    to,
    event: lines.look,
    body: (index) => lines.look(index).bytes,
    size: (index) => lines.look(index).size,
    lines: lines.bytes,
  }));
}

function recordsPart({ records }: Batch): Part {
  return {
    from: 0,
    to: records.length,
    event: (index) => records[index]!.event,
    body: (index) => records[index]!.body,
    size: (index) => records[index]!.size,
  };
}

/** Adds a record to what a file is to take. */
export function addTo(target: ActiveFile, part: Part, index: number): void {
  const last = target.pending.at(-1);
  if (last?.part === part && last.to === index) last.to++;
  else target.pending.push({ part, from: index, to: index + 1 });
  target.pendingBytes += part.size(index) + 1;
}

/** Copying into one large buffer beats handing thousands of small ones to the system. */
const BUFFER_BYTES = 1 << 20;
const LINE_END = 0x0a;

export interface Appender {
  /** Writes a file's pending records after its committed length, one a line, and syncs them. */
  append(file: OpenFile, target: ActiveFile, signal: AbortSignal): Promise<void>;
}

export function createAppender(): Appender {
  // As many as appends run side by side.
  const free: Buffer[] = [];

  async function append(file: OpenFile, target: ActiveFile, signal: AbortSignal): Promise<void> {
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
    /** What no buffer holds goes by itself. */
    async function add(bytes: Uint8Array): Promise<void> {
      if (filled + bytes.length > BUFFER_BYTES) await flush();
      if (bytes.length > BUFFER_BYTES) return write(bytes);
      buffer.set(bytes, filled);
      filled += bytes.length;
    }
    /** Bodies with their line ends for as long as they fit; gives the index of the one that does not. */
    function fill({ part, to }: Piece, from: number): number {
      let index = from;
      for (; index < to; index++) {
        const size = part.size(index);
        if (filled + size + 1 > BUFFER_BYTES) break;
        buffer.set(part.body(index), filled);
        filled += size;
        buffer[filled++] = LINE_END;
      }
      return index;
    }
    async function addEach(piece: Piece): Promise<void> {
      for (let index = fill(piece, piece.from); index < piece.to; index = fill(piece, index)) {
        await flush();
        if (piece.part.size(index) < BUFFER_BYTES) continue;
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
      await file.sync();
    } finally {
      free.push(buffer);
    }
  }

  return { append };
}
