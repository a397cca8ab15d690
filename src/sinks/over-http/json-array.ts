import type { SinkRecord } from "../../core/sink.ts";

const COMMA = Buffer.from(",");

/** The bodies, which are JSON values, as the elements of an array between `head` and `tail`. */
export function joinElements(head: string, records: readonly SinkRecord[], tail: string): Buffer {
  const parts: Uint8Array[] = [Buffer.from(head)];
  for (const [at, record] of records.entries()) {
    if (at > 0) parts.push(COMMA);
    parts.push(record.body);
  }
  parts.push(Buffer.from(tail));
  return Buffer.concat(parts);
}

/** The overhead of the array for delivery: one comma more than elements minus one, which head and tail make up for. */
export function arrayOverheads(head: string, tail: string) {
  return {
    recordOverheadBytes: 1,
    batchOverheadBytes: Buffer.byteLength(head) + Buffer.byteLength(tail) - 1,
  };
}
