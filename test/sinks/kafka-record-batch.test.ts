import fc from "fast-check";
import kafkajs from "kafkajs";
import { describe, expect, test } from "vitest";
import { decodeProduced, encodeProduce } from "../../src/sinks/kafka/client/produce-request.ts";
import { crc32c } from "../../src/sinks/kafka/crc32c.ts";
import { keyPartition } from "../../src/sinks/kafka/partition-of.ts";
import {
  BATCH_HEADER_BYTES,
  encodeHeader,
  frameBatch,
  RecordBuffer,
  recordBytes,
  sequenceAfter,
} from "../../src/sinks/kafka/record-batch.ts";
import { runs } from "../support/runs.ts";

/** kafkajs's own encoder and decoder, which have no types. */
const theirs = "kafkajs/src";
const { default: Decoder } = (await import(`${theirs}/protocol/decoder.js`)) as {
  default: new (bytes: Buffer) => object;
};
const { default: decodeBatch } = (await import(`${theirs}/protocol/recordBatch/v0/decoder.js`)) as {
  default: (decoder: object) => Promise<Decoded>;
};
const { default: produceV7 } = (await import(`${theirs}/protocol/requests/produce/v7/request.js`)) as {
  default: (request: object) => { encode(): Promise<{ readonly buffer: Buffer }> };
};
const { default: Long } = (await import(`${theirs}/utils/long.js`)) as {
  default: { fromValue(value: string): object };
};

interface Decoded {
  readonly records: readonly {
    readonly offset: string;
    readonly timestamp: string;
    readonly key: Buffer | null;
    readonly value: Buffer | null;
    readonly headers: Readonly<Record<string, Buffer>>;
  }[];
}

interface Message {
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
}

const message: fc.Arbitrary<Message> = fc.record({
  key: fc.option(fc.string({ unit: "binary", maxLength: 80 })),
  value: fc.oneof(
    fc.constant(null),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.integer({ min: 8_180, max: 8_200 }).map((length) => Buffer.alloc(length, length)),
  ),
  // Names that are numbers would change places in kafkajs's object.
  headers: fc.dictionary(fc.stringMatching(/^h[a-z_]{1,20}$/), fc.string({ unit: "binary", maxLength: 70 })),
});

const facts = fc.record({
  timestampMs: fc.integer({ min: 1, max: 4_102_444_800_000 }),
  producerId: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
  producerEpoch: fc.integer({ min: 0, max: 32_767 }),
  firstSequence: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
});

function recordsOf(messages: readonly Message[]): RecordBuffer {
  const records = new RecordBuffer(16);
  for (const { key, value, headers } of messages) {
    const encoded = Object.entries(headers).map(([name, text]) => encodeHeader(name, text));
    const bytes = recordBytes(records.count, key === null ? null : Buffer.from(key), value, encoded);
    const before = records.size;
    records.append(key === null ? null : Buffer.from(key), value, encoded);
    expect(records.size - before).toBe(bytes);
  }
  return records;
}

describe("a record batch of the kafka sink", () => {
  test("has the checksum that the standard's example has", () => {
    expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
    expect(crc32c(new Uint8Array(0))).toBe(0);
  });

  test("is byte for byte the one that kafkajs encodes, in a request that is too", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(message, { minLength: 1, maxLength: 70 }),
        facts,
        fc.option(fc.string({ maxLength: 20 })),
        async (messages, { timestampMs, producerId, producerEpoch, firstSequence }, transactionalId) => {
          const records = recordsOf(messages);
          const batch = frameBatch(records.bytes, {
            ...{ compression: 0, count: messages.length, timestampMs, producerId, producerEpoch },
            ...{ firstSequence, isTransactional: !!transactionalId },
          });
          const request = produceV7({
            ...{ acks: -1, timeout: 30_000, transactionalId, compression: 0, producerEpoch },
            producerId: Long.fromValue(producerId.toString()),
            topicData: [
              {
                topic: "tópic",
                partitions: [
                  {
                    partition: 3,
                    firstSequence,
                    messages: messages.map((each) => ({ ...each, timestamp: String(timestampMs) })),
                  },
                ],
              },
            ],
          });
          const encoded = await request.encode();
          const ours = encodeProduce(transactionalId, [{ topic: "tópic", partition: 3, batch }]);
          expect(ours.equals(encoded.buffer)).toBe(true);
        },
      ),
      { numRuns: runs(25) },
    );
  });

  test("is decoded by kafkajs to the same records", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(message, { minLength: 1, maxLength: 150 }),
        facts,
        async (messages, given) => {
          const { bytes, count } = recordsOf(messages);
          const batch = frameBatch(bytes, { ...given, compression: 0, count, isTransactional: true });
          const decoded = await decodeBatch(new Decoder(batch));
          expect(decoded).toMatchObject({
            inTransaction: true,
            isControlBatch: false,
            lastOffsetDelta: messages.length - 1,
            firstTimestamp: String(given.timestampMs),
            maxTimestamp: String(given.timestampMs),
            producerId: given.producerId.toString(),
            producerEpoch: given.producerEpoch,
            firstSequence: given.firstSequence,
          });
          expect(batch.readUInt32BE(17)).toBe(crc32c(batch.subarray(21)));
          expect(decoded.records).toHaveLength(messages.length);
          for (const [index, { key, value, headers }] of messages.entries()) {
            const record = decoded.records[index]!;
            expect(record.offset).toBe(String(index));
            expect(record.timestamp).toBe(String(given.timestampMs));
            expect(record.key?.toString() ?? null).toBe(key === null ? null : Buffer.from(key).toString());
            expect(record.value === null || Buffer.from(record.value)).toEqual(value ?? true);
            for (const [name, text] of Object.entries(headers))
              expect(record.headers[name]!.toString()).toBe(Buffer.from(text).toString());
          }
        },
      ),
      { numRuns: runs(12) },
    );
  });

  test("begins again in the same memory after clear", () => {
    const records = recordsOf([{ key: null, value: Buffer.from("first"), headers: {} }]);
    records.clear();
    expect([records.count, records.size, records.bytes.length]).toEqual([0, 0, 0]);
    records.append(Buffer.from("k"), Buffer.from("v"), []);
    const fresh = new RecordBuffer(1);
    fresh.append(Buffer.from("k"), Buffer.from("v"), []);
    expect(records.bytes.equals(fresh.bytes)).toBe(true);
    expect(frameBatch(fresh.bytes, { ...NO_FACTS }).length).toBe(BATCH_HEADER_BYTES + fresh.size);
  });

  test("sequences go on at 0 after the largest number, as the brokers count", () => {
    expect(sequenceAfter(0, 5)).toBe(5);
    expect(sequenceAfter(2 ** 31 - 3, 2)).toBe(2 ** 31 - 1);
    expect(sequenceAfter(2 ** 31 - 1, 1)).toBe(0);
    expect(sequenceAfter(2 ** 31 - 3, 10)).toBe(7);
  });
});

const NO_FACTS = {
  ...{ compression: 0, count: 1, timestampMs: 1, isTransactional: false },
  ...{ producerId: -1n, producerEpoch: -1, firstSequence: -1 },
};

describe("the partition of a key", () => {
  test("is the one that kafkajs and Java's producer choose", () => {
    const theirPartition = kafkajs.Partitioners.DefaultPartitioner();
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 40 }),
        fc.integer({ min: 1, max: 50 }),
        (key, count) => {
          const partitionMetadata = Array.from({ length: count }, (_, partitionId) => ({
            ...{ partitionId, partitionErrorCode: 0, leader: 0, replicas: [], isr: [] },
          }));
          const theirs = theirPartition({ topic: "t", partitionMetadata, message: { key, value: null } });
          expect(keyPartition(key, count)).toBe(theirs);
        },
      ),
      { numRuns: runs(200) },
    );
  });
});

describe("the answer to a produce request", () => {
  test("names each partition and its error, and the wait that the broker asks for", () => {
    const offsets = Buffer.alloc(24);
    offsets.writeBigInt64BE(41n);
    const int16 = (value: number) => Buffer.from([value >> 8, value & 0xff]);
    const int32 = (value: number) => Buffer.concat([int16(value >> 16), int16(value & 0xffff)]);
    const raw = Buffer.concat([
      ...[int32(2), int16(1), Buffer.from("a"), int32(2)],
      ...[int32(0), int16(0), offsets, int32(7), int16(10), offsets],
      ...[int16(2), Buffer.from("bc"), int32(1), int32(1), int16(6), offsets],
      int32(250),
    ]);
    expect(decodeProduced(raw)).toEqual({
      partitions: [
        { topic: "a", partition: 0, code: 0, baseOffset: 41n },
        { topic: "a", partition: 7, code: 10, baseOffset: 41n },
        { topic: "bc", partition: 1, code: 6, baseOffset: 41n },
      ],
      clientSideThrottleTime: 250,
    });
  });
});
