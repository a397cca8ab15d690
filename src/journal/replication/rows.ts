/*
 * The encoding of a row: the length of a JSON object, the object, then the bytes of its blobs in order. A blob is
 * `{ "blob": length }` in the object. Columns are named, so that a row outlives added columns.
 */

export type ColumnValue = string | number | null | Uint8Array;
export type ReplicatedRow = Readonly<Record<string, ColumnValue>>;

const LENGTH_BYTES = 4;

export function encodeRow(row: ReplicatedRow): Buffer {
  const blobs: Uint8Array[] = [];
  const plain: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(row)) {
    if (value instanceof Uint8Array) {
      blobs.push(value);
      plain[name] = { blob: value.length };
    } else plain[name] = value;
  }
  const json = Buffer.from(JSON.stringify(plain));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(json.length);
  return Buffer.concat([length, json, ...blobs]);
}

export function decodeRow(value: Uint8Array): ReplicatedRow {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.length);
  const jsonEnd = LENGTH_BYTES + bytes.readUInt32BE(0);
  const plain = JSON.parse(bytes.toString("utf8", LENGTH_BYTES, jsonEnd)) as Record<string, unknown>;
  const row: Record<string, ColumnValue> = {};
  let at = jsonEnd;
  for (const [name, column] of Object.entries(plain)) {
    if (column === null || typeof column !== "object") {
      row[name] = column as ColumnValue;
      continue;
    }
    const { blob } = column as { blob: number };
    row[name] = bytes.subarray(at, at + blob);
    at += blob;
  }
  if (at !== bytes.length) throw new Error("A row of the changelog has another length than it says.");
  return row;
}
