import type { SinkRecord } from "../../core/sink.ts";
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
  pending: SinkRecord[];
  /** The sequence of the last commit that wrote to it. */
  usedAt: number;
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
    /** Lines for as long as they fit; gives the index of the one that does not. */
    function fill(records: readonly SinkRecord[], from: number): number {
      let index = from;
      for (; index < records.length; index++) {
        const record = records[index]!;
        const { size } = record;
        if (filled + size + 1 > BUFFER_BYTES) break;
        buffer.set(record.body, filled);
        filled += size;
        buffer[filled++] = LINE_END;
      }
      return index;
    }
    async function flush(): Promise<void> {
      signal.throwIfAborted();
      if (filled === 0) return;
      await writeAll(file, buffer.subarray(0, filled), position);
      position += filled;
      filled = 0;
    }
    try {
      for (let index = 0; index < target.pending.length; ) {
        index = fill(target.pending, index);
        await flush();
        const record = target.pending[index];
        // One that no buffer holds goes by itself.
        if (record === undefined || record.size < BUFFER_BYTES) continue;
        await writeAll(file, record.body, position);
        position += record.size;
        buffer[filled++] = LINE_END;
        index++;
      }
      await flush();
      await file.sync();
    } finally {
      free.push(buffer);
    }
  }

  return { append };
}
