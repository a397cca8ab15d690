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
    async function flush(): Promise<void> {
      signal.throwIfAborted();
      await writeAll(file, buffer.subarray(0, filled), position);
      position += filled;
      filled = 0;
    }
    try {
      for (let index = 0; index < target.pending.length; index++) {
        const record = target.pending[index]!;
        const { size } = record;
        if (filled + size + 1 > BUFFER_BYTES) await flush();
        if (size < BUFFER_BYTES) {
          buffer.set(record.body, filled);
          filled += size;
        } else {
          await writeAll(file, record.body, position);
          position += size;
        }
        buffer[filled++] = LINE_END;
      }
      await flush();
      await file.sync();
    } finally {
      free.push(buffer);
    }
  }

  return { append };
}
