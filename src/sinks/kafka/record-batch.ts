import { crc32c } from "./crc32c.ts";

/*
 * Kafka's record batch, version 2. The header has 61 bytes; all numbers are big-endian:
 *
 *   0 base offset 8 · 8 length 4 · 12 leader epoch 4 · 16 magic 1 · 17 CRC-32C 4 · 21 attributes 2
 *   23 last offset delta 4 · 27 first timestamp 8 · 35 largest timestamp 8
 *   43 producer id 8 · 51 producer epoch 2 · 53 first sequence 4 · 57 number of records 4 · 61 records
 *
 * The length counts everything behind itself, the checksum covers everything behind itself. The records may be
 * compressed as one block. A record is its length and then: attributes, timestamp delta, offset delta, key,
 * value, headers; its numbers are zigzag varints, and a missing key or value has the length -1.
 */
export const BATCH_HEADER_BYTES = 61;
const LENGTH_FROM = 12;
const CHECKED_FROM = 21;
const MAGIC = 2;
const TRANSACTIONAL = 0x10;
/** The broker writes its own. */
const LEADER_EPOCH = 0;

/** The memory of a batch in the beginning: a topic for each tenant makes thousands of small ones. */
const BYTES_EXPECTED = 16_384;

/** Collects the records of one batch; all have the batch's timestamp. */
export class RecordBuffer {
  count = 0;
  #bytes: Buffer;
  #size = 0;

  constructor(bytesExpected = BYTES_EXPECTED) {
    this.#bytes = Buffer.allocUnsafeSlow(bytesExpected);
  }

  /** All of its memory. */
  get capacity(): number {
    return this.#bytes.length;
  }

  get size(): number {
    return this.#size;
  }

  /** Valid until the next `append`. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#size);
  }

  /** The headers are as `encodeHeader` gives them. */
  append(key: Uint8Array | null, value: Uint8Array | null, headers: readonly Uint8Array[]): void {
    const bodyBytes = recordBodyBytes(this.count, key, value, headers);
    this.#reserve(varintBytes(bodyBytes) + bodyBytes);
    const bytes = this.#bytes;
    let at = writeVarint(bytes, this.#size, bodyBytes);
    bytes[at++] = 0; // attributes
    bytes[at++] = 0; // timestamp delta
    at = writeVarint(bytes, at, this.count);
    at = writeSized(bytes, at, key);
    at = writeSized(bytes, at, value);
    at = writeVarint(bytes, at, headers.length);
    for (let index = 0; index < headers.length; index++) {
      bytes.set(headers[index]!, at);
      at += headers[index]!.length;
    }
    this.#size = at;
    this.count++;
  }

  /** Begins another batch in the same memory. */
  clear(): void {
    this.#size = 0;
    this.count = 0;
  }

  #reserve(more: number): void {
    const needed = this.#size + more;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#size);
    this.#bytes = larger;
  }
}

/** The bytes that the record number `offsetDelta` of a batch takes. */
export function recordBytes(
  offsetDelta: number,
  key: Uint8Array | null,
  value: Uint8Array | null,
  headers: readonly Uint8Array[],
): number {
  const bodyBytes = recordBodyBytes(offsetDelta, key, value, headers);
  return varintBytes(bodyBytes) + bodyBytes;
}

function recordBodyBytes(
  offsetDelta: number,
  key: Uint8Array | null,
  value: Uint8Array | null,
  headers: readonly Uint8Array[],
): number {
  let bytes = 2 + varintBytes(offsetDelta) + sizedBytes(key) + sizedBytes(value);
  bytes += varintBytes(headers.length);
  for (let index = 0; index < headers.length; index++) bytes += headers[index]!.length;
  return bytes;
}

export function encodeHeader(name: string, value: string): Buffer {
  const nameBytes = Buffer.byteLength(name);
  const valueBytes = Buffer.byteLength(value);
  const encoded = Buffer.allocUnsafe(
    varintBytes(nameBytes) + nameBytes + varintBytes(valueBytes) + valueBytes,
  );
  let at = writeVarint(encoded, 0, nameBytes);
  at += encoded.write(name, at);
  at = writeVarint(encoded, at, valueBytes);
  encoded.write(value, at);
  return encoded;
}

export interface BatchFacts {
  /** Kafka's number of the compression; 0 is none. */
  readonly compression: number;
  readonly count: number;
  readonly timestampMs: number;
  readonly isTransactional: boolean;
  readonly producerId: bigint;
  readonly producerEpoch: number;
  readonly firstSequence: number;
}

/** The whole batch with these records, compressed or not. */
export function frameBatch(records: Uint8Array, facts: BatchFacts): Buffer {
  const batch = Buffer.allocUnsafe(BATCH_HEADER_BYTES + records.length);
  batch.writeBigInt64BE(0n, 0);
  batch.writeInt32BE(batch.length - LENGTH_FROM, 8);
  batch.writeInt32BE(LEADER_EPOCH, 12);
  batch.writeInt8(MAGIC, 16);
  batch.writeInt16BE(facts.compression | (facts.isTransactional ? TRANSACTIONAL : 0), 21);
  batch.writeInt32BE(facts.count - 1, 23);
  batch.writeBigInt64BE(BigInt(facts.timestampMs), 27);
  batch.writeBigInt64BE(BigInt(facts.timestampMs), 35);
  batch.writeBigInt64BE(facts.producerId, 43);
  batch.writeInt16BE(facts.producerEpoch, 51);
  batch.writeInt32BE(facts.firstSequence, 53);
  batch.writeInt32BE(facts.count, 57);
  batch.set(records, BATCH_HEADER_BYTES);
  batch.writeUInt32BE(crc32c(batch.subarray(CHECKED_FROM)), 17);
  return batch;
}

const SEQUENCE_MAX = 0x7fffffff;

/** The sequence after `count` more records: numbers go back to 0 after the largest, as the brokers count. */
export function sequenceAfter(sequence: number, count: number): number {
  const next = sequence + count;
  return next > SEQUENCE_MAX ? next - SEQUENCE_MAX - 1 : next;
}

function varintBytes(value: number): number {
  const zigzag = ((value << 1) ^ (value >> 31)) >>> 0;
  if (zigzag < 0x80) return 1;
  if (zigzag < 0x4000) return 2;
  if (zigzag < 0x200000) return 3;
  return zigzag < 0x10000000 ? 4 : 5;
}

function writeVarint(bytes: Uint8Array, from: number, value: number): number {
  let zigzag = ((value << 1) ^ (value >> 31)) >>> 0;
  let at = from;
  while (zigzag >= 0x80) {
    bytes[at++] = (zigzag & 0x7f) | 0x80;
    zigzag >>>= 7;
  }
  bytes[at++] = zigzag;
  return at;
}

function sizedBytes(value: Uint8Array | null): number {
  return value === null ? 1 : varintBytes(value.length) + value.length;
}

function writeSized(bytes: Uint8Array, from: number, value: Uint8Array | null): number {
  if (value === null) return writeVarint(bytes, from, -1);
  const at = writeVarint(bytes, from, value.length);
  bytes.set(value, at);
  return at + value.length;
}
