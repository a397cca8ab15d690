import { expect, test } from "vitest";
import type { JournalEvent } from "../../src/core/event.ts";
import type { SinkRecord } from "../../src/core/sink.ts";
import { createRecordMemory, layOut, type RecordMemory } from "../../src/sinks/kafka/layout.ts";
import type { TopicBook } from "../../src/sinks/kafka/topics.ts";

const topics = {
  place: (topic: string, key: string) => ({ topic, partition: key.length % 3, chunkBytesMax: 20_000 }),
} as unknown as TopicBook;

function batchOf(number: number): SinkRecord[] {
  return Array.from({ length: 300 }, (_, index) => {
    const body = Buffer.from(`${number} ${index} ${"x".repeat((index * 37) % 900)}`);
    const organization = "o".repeat(1 + (index % 3));
    const event = { organization, provider: null, service: "sso", eventType: "login", id: `${index}` };
    return { event: event as unknown as JournalEvent, body, size: body.length };
  });
}

async function laidOut(number: number, compress: boolean, memory?: RecordMemory) {
  const layout = await layOut(batchOf(number), topics, {
    ...{ key: "organization", nowMs: 1, topicOf: () => "events", ...(memory && { memory }) },
    codec: {
      number: 0,
      compress: compress ? async (bytes) => Buffer.from(bytes).reverse() : undefined,
      close() {},
    },
  });
  return layout.flat();
}

test("batches in used memory have the same chunks, whether these are compressed or the memory's own bytes", async () => {
  for (const compress of [true, false]) {
    const memory = createRecordMemory();
    const kept = [await laidOut(1, compress, memory), await laidOut(2, compress, memory)];
    expect(kept).toEqual([await laidOut(1, compress), await laidOut(2, compress)]);
    expect(kept[0]!.length).toBeGreaterThan(6);
  }
});

test("what grew for one batch is there for the next one", async () => {
  const memory = createRecordMemory();
  await laidOut(1, true, memory);
  const buffers = Array.from({ length: 4 }, () => memory.take());
  expect(buffers.map(({ capacity }) => capacity > 16_384)).toEqual([true, true, true, false]);
});
