import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { JournalEvent } from "../../src/core/event.ts";
import type { JournalReader } from "../../src/core/journal.ts";
import type { Position } from "../../src/core/position.ts";
import { type Batch, type BatchLimits, totalsOf } from "../../src/core/sink.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { createChunks } from "../../src/delivery/encoded-lines.ts";
import { createEncodedMemory } from "../../src/delivery/encoded-memory.ts";
import { everything } from "../../src/delivery/filter.ts";
import type { Formed, Forming } from "../../src/delivery/forming.ts";
import { isMisfit } from "../../src/delivery/misfits.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { eventTexts, FETCHED_MS, pageOf } from "../support/pages.ts";
import { runs } from "../support/runs.ts";

/** Every body has exactly so many bytes. */
const BODY = 100;

const broken = (): never => {
  throw new Error("a defect");
};

describe("forming a batch", () => {
  let fixture: JournalFixture;
  let reader: JournalReader;

  beforeEach(async () => {
    fixture = openFixture();
    reader = await fixture.journal.reader("r");
  });
  afterEach(() => fixture.close());

  const append = (from: number, count: number, fetchedAtMs = FETCHED_MS) =>
    fixture.journal.append(pageOf(eventTexts(from, count), { fetchedAtMs }));

  const form = (limits: Partial<BatchLimits>, over: Partial<Forming> = {}) =>
    formBatch({
      reader,
      from: reader.position,
      limits: { recordsMax: 1000, bytesMax: 1_000_000, ageMsMax: 0, ...limits },
      recordsMax: limits.recordsMax ?? 1000,
      bound: undefined,
      wants: () => true,
      encode: () => "x".repeat(BODY),
      keepsBytes: false,
      ...over,
    });

  test("encoding never holds up the event loop for more than 250 events, however large the page is", async () => {
    await append(0, 3000);
    let [inTurn, longest, turns] = [0, 0, 0];
    let isDone = false;
    const turn = () => {
      inTurn = 0;
      turns++;
      if (!isDone) setImmediate(turn);
    };
    setImmediate(turn);
    const { batch } = await form(
      { recordsMax: 5000 },
      {
        encode: ({ bytes }) => {
          longest = Math.max(longest, ++inTurn);
          return bytes;
        },
      },
    );
    isDone = true;
    expect(batch!.records).toHaveLength(3000);
    expect(longest).toBeLessThanOrEqual(250);
    expect(turns).toBeGreaterThanOrEqual(11);
  });

  test("encoding that takes long holds up the event loop for 8 ms and a slice of 25 events", async () => {
    await append(0, 120);
    let [inTurn, longest] = [0, 0];
    let isDone = false;
    const turn = () => {
      inTurn = 0;
      if (!isDone) setImmediate(turn);
    };
    setImmediate(turn);
    const { batch } = await form(
      {},
      {
        encode: ({ bytes }) => {
          for (const startedMs = performance.now(); performance.now() < startedMs + 1; );
          longest = Math.max(longest, ++inTurn);
          return bytes;
        },
      },
    );
    isDone = true;
    expect(batch!.records).toHaveLength(120);
    expect(longest).toBeLessThanOrEqual(8 + 25);
  });

  test("lines of a page that fits into a batch of its own begin a new one instead of being split", async () => {
    const texts = (from: number) => eventTexts(from, 40).map((text) => text.replaceAll("\n", ""));
    for (const from of [0, 40, 80]) await fixture.journal.append(pageOf(texts(from)));
    const pageBytes = texts(0).reduce((bytes, { length }) => bytes + length, 0);
    const lines = { keepsBytes: true, wants: everything, encode: ({ bytes }: JournalEvent) => bytes };
    const { batch, full } = await form({ bytesMax: Math.floor(pageBytes * 1.5) }, lines);
    expect(full).toBe(true);
    expect(batch!.stretches).toHaveLength(1);
    expect(totalsOf(batch!).count).toBe(40);
    const larger = await form({ bytesMax: Math.floor(pageBytes * 2.5) }, lines);
    expect(totalsOf(larger.batch!).count).toBe(80);
  });

  test("a few events do not wait for the write of a large page behind them, where events go out at once", async () => {
    await append(0, 3);
    await append(3, 5000);
    const limits = { recordsMax: 10_000, bytesMax: 10_000_000 };
    const countOf = async (ageMsMax: number, over: Partial<Forming> = {}) => {
      const { batch, full } = await form({ ...limits, ageMsMax }, over);
      return [totalsOf(batch!).count, full];
    };
    expect(await countOf(100)).toEqual([3, true]);
    expect(await countOf(101)).toEqual([5003, false]);
    // A batch whose end is durable stays as it is (R19).
    expect(await countOf(100, { bound: fixture.journal.end() })).toEqual([5003, true]);
  });

  test("where bytes are kept they go out as they are, and only what is not one line is encoded", async () => {
    const plain = ['{"id":"é1"}', '{ "id":"x2" }'];
    for (const texts of [plain, ['{"id":"x3",\n"service":"sso"}', '{"id":"x4"}']])
      await fixture.journal.append(pageOf(texts, { fetchedAtMs: FETCHED_MS }));
    const { batch } = await form({}, { keepsBytes: true });
    const bodies = batch!.records.map(({ body }) => Buffer.from(body).toString());
    expect(bodies).toEqual([...plain, "x".repeat(BODY), "x".repeat(BODY)]);
    expect(batch!.records.map(({ size }) => size)).toEqual(bodies.map((body) => Buffer.byteLength(body)));
  });

  test("by number: as many as allowed and not one more, over page edges where whole pages fit", async () => {
    await append(0, 3);
    await append(3, 3);
    for (const [recordsMax, records, full] of [
      [1, 1, true],
      [2, 2, true],
      [3, 3, true],
      // The second page does not fit whole: it begins the next batch.
      [4, 3, true],
      [6, 6, true],
      [7, 6, false],
    ] as const) {
      const formed = await form({ recordsMax });
      expect(formed.batch?.records).toHaveLength(records);
      expect(formed.full, `${recordsMax}`).toBe(full);
    }
  });

  test("a page that no batch can hold whole is not waited for", async () => {
    await append(0, 2);
    await append(2, 9);
    expect((await form({ recordsMax: 5 })).batch?.records).toHaveLength(5);
  });

  test.each([
    ["one byte below", 3 * BODY - 1, 2],
    ["exactly", 3 * BODY, 3],
    ["one byte above", 3 * BODY + 1, 3],
  ])("by bytes, %s what three need", async (_, bytesMax, count) => {
    await append(0, 5);
    expect((await form({ bytesMax })).batch?.records).toHaveLength(count);
  });

  test.each([
    ["one byte below", 50 + 3 * (BODY + 7) - 1, 2],
    ["exactly", 50 + 3 * (BODY + 7), 3],
    ["one byte above", 50 + 3 * (BODY + 7) + 1, 3],
  ])("by bytes with what the framing adds, %s what three need", async (_, bytesMax, count) => {
    await append(0, 5);
    const formed = await form({ bytesMax, batchOverheadBytes: 50, recordOverheadBytes: 7 });
    expect(formed.batch?.records).toHaveLength(count);
  });

  test.each([
    ["one byte below", BODY - 1, 0],
    ["exactly", BODY, 5],
  ])(
    "a record that alone exceeds the limit of records is a misfit: %s what it needs",
    async (_, recordBytesMax, count) => {
      await append(0, 5);
      const formed = await form({ recordBytesMax });
      expect(formed.batch?.records.length ?? 0).toBe(count);
      expect(formed.misfits).toHaveLength(5 - count);
      if (count === 0)
        expect(formed.misfits[0]!.reason).toBe(
          `its ${BODY} bytes are more than the ${BODY - 1} that the destination takes`,
        );
      expect(formed.to).toEqual(fixture.journal.end());
    },
  );

  test.each([
    [undefined, "the destination takes"],
    ["batchBytesMax", "batchBytesMax allows. If the destination takes more, raise it and replay the event"],
    [
      "Tidemark",
      "Tidemark writes at once with a sink of this type. An http or s3 sink with larger limits can deliver them",
    ],
  ] as const)("the reason of a misfit says whose limit it is: %s", async (limitedBy, whose) => {
    await append(0, 1);
    const formed = await form({ recordBytesMax: BODY - 1, ...(limitedBy && { limitedBy }) });
    const { reason } = formed.misfits[0]!;
    expect(reason).toBe(`its ${BODY} bytes are more than the ${BODY - 1} that ${whose}`);
    expect(isMisfit(reason)).toBe(true);
  });

  test("a record that fits no batch, with the framing, is a misfit; the others go on around it", async () => {
    await append(0, 5);
    const formed = await form(
      { bytesMax: 30 + BODY + 5, batchOverheadBytes: 30, recordOverheadBytes: 5 },
      { encode: ({ index }) => "x".repeat(index === 0 ? BODY + 1 : BODY) },
    );
    expect(formed.misfits.map(({ event }) => event.index)).toEqual([0]);
    expect(formed.batch?.records.map(({ event }) => event.index)).toEqual([1]);
  });

  test("bytes are measured after encoding, in UTF-8", async () => {
    await append(0, 4);
    const formed = await form({ bytesMax: 400 }, { encode: () => "é".repeat(100) });
    expect(formed.batch?.records).toHaveLength(2);
  });

  test("what a filter leaves out lies inside the bounds: before, between and after", async () => {
    await append(0, 10);
    const formed = await form({}, { wants: ({ index }) => index === 3 || index === 5 });
    expect(formed.batch?.records.map(({ event }) => event.index)).toEqual([3, 5]);
    expect(formed.batch?.from).toEqual(reader.position);
    expect(formed.batch?.to).toEqual(fixture.journal.end());
  });

  test("where a filter leaves out everything there is no batch, and the position moves", async () => {
    await append(0, 10);
    const formed = await form({}, { wants: () => false });
    expect([formed.batch, formed.to]).toEqual([null, fixture.journal.end()]);
  });

  test("passing over very many events ends in bounded turns, each going on where the last one stopped", async () => {
    for (let page = 0; page < 3; page++) await append(page * 20_000, 20_000);
    const first = await form({}, { wants: () => false });
    expect(first).toMatchObject({ batch: null, full: true, to: { page: 3, event: 10_000 } });
    const second = await form({}, { wants: () => false, from: first.to });
    expect(second.to).toEqual(fixture.journal.end());
  });

  test("very many misfits are given back in bounded turns", async () => {
    await append(0, 2500);
    const first = await form({ recordBytesMax: 1 });
    expect(first.misfits).toHaveLength(1000);
    expect(first.to.event).toBe(1000);
  });

  test("the oldest fetching time is that of the records alone", async () => {
    await append(0, 1, FETCHED_MS - 5000);
    await append(1, 2, FETCHED_MS + 1000);
    await append(3, 1, FETCHED_MS + 500);
    expect((await form({}, { wants: ({ page }) => page > 1 })).oldestMs).toBe(FETCHED_MS + 500);
  });

  test("R19 a bound is kept to exactly, whatever the limits say now", async () => {
    await append(0, 4);
    await append(4, 4);
    const second = (await reader.read({ ...(await reader.read(reader.position))!.after(3) }))!;
    const bound = second.after(5 - 4);
    const formed = await form({ recordsMax: 2, bytesMax: 150 }, { bound });
    expect(formed.batch?.records).toHaveLength(6);
    expect(formed.batch?.to).toEqual(bound);
    expect(formed.full).toBe(true);
  });

  test("R19 a bound is kept to exactly, however many events are passed over or fit into no batch", async () => {
    for (let page = 0; page < 3; page++) await append(page * 20_000, 20_000);
    const isLate = ({ page, index }: JournalEvent) => page === 3 && index === 10_500;
    const first = (await reader.read(reader.position))!;
    const passed = await form({}, { wants: isLate, bound: fixture.journal.end() });
    expect(passed.batch?.records).toHaveLength(1);
    expect(passed.to).toEqual(fixture.journal.end());
    const bound = first.after(2000);
    const misfits = await form({}, { bound, encode: broken });
    expect([misfits.misfits.length, misfits.to]).toEqual([2001, bound]);
  });

  test("the memory of encoded events is used again when the batch is released, not before", async () => {
    await append(0, 3);
    const chunks = createChunks();
    const first = (await form({}, { chunks })).batch!;
    const memoryOf = ({ records }: Batch) => records[0]!.body.buffer;
    const second = (await form({}, { chunks })).batch!;
    expect(memoryOf(second)).not.toBe(memoryOf(first));
    const memory = memoryOf(first);
    for (const lease of first.leases) lease.release();
    const third = (await form({}, { chunks })).batch!;
    expect(memoryOf(third)).toBe(memory);
    expect(third.records.map(({ body }) => Buffer.from(body).toString())).toEqual(
      Array.from({ length: 3 }, () => "x".repeat(BODY)),
    );
  });

  test("a batch with enough bytes ends while all sinks together hold much memory", async () => {
    await append(0, 300);
    const bytesEnough = 100 * BODY;
    const memory = createEncodedMemory(1000);
    const scarce = (limits: Partial<BatchLimits>, over: Partial<Forming> = {}) =>
      form(limits, { ...over, chunks: createChunks({ chunkBytes: 2000, memory }) });
    memory.take(1000);
    const first = await scarce({ bytesEnough });
    expect(first.batch?.records.length).toBeGreaterThanOrEqual(100);
    expect(first.batch?.records.length).toBeLessThan(200);
    expect(first.full).toBe(true);
    expect((await scarce({})).batch?.records).toHaveLength(300);
    // A batch that was begun ends where it did.
    const bound = (await form({})).batch!.to;
    expect((await scarce({ bytesEnough }, { bound })).batch?.records).toHaveLength(300);
  });

  test("all sinks together keep a bounded amount of memory for their next batches", () => {
    const memory = createEncodedMemory(1000);
    const sinks = Array.from({ length: 8 }, () => createChunks({ chunkBytes: 1000, memory }));
    const use = () => sinks.map((chunks) => chunks.take(1000));
    const taken = use();
    const first = new Set(taken.map(({ bytes }) => bytes.buffer));
    for (const { lease } of taken) lease.release();
    const again = use().filter(({ bytes }) => first.has(bytes.buffer)).length;
    expect(again).toBe(3);
  });

  test("stretches of lines are the records that would have been made one by one", async () => {
    // Hundreds of commits: on a busy disk their syncs alone took minutes, and nothing here is about durability.
    fixture.db.exec("PRAGMA synchronous = OFF");
    const size = fc.nat(40);
    const page = fc.record({ sizes: fc.array(size, { minLength: 1, maxLength: 8 }), blank: fc.boolean() });
    const scene = fc.record({
      pages: fc.array(page, { minLength: 1, maxLength: 5 }),
      recordsMax: fc.integer({ min: 1, max: 20 }),
      bytesMax: fc.integer({ min: 80, max: 900 }),
      recordBytesMax: fc.integer({ min: 50, max: 90 }),
      unwanted: fc.oneof(fc.constant<number[]>([]), fc.array(fc.nat(8), { maxLength: 4 })),
      boundAt: fc.option(fc.nat(20), { nil: undefined, freq: 1 }),
    });
    const seen = { lines: 0, records: 0, misfits: 0, chunks: 0 };
    let number = 0;
    await fc.assert(
      fc.asyncProperty(scene, async ({ pages, unwanted, boundAt, ...limits }) => {
        const from = fixture.journal.end();
        for (const { sizes, blank } of pages) {
          const texts = sizes.map((length) => `{"id":"n${number++}","text":"${"y".repeat(length)}"}`);
          await fixture.journal.append(pageOf(blank ? texts.map((text) => ` ${text}`) : texts));
        }
        const ends = await positionsAfter(reader, from);
        const bound = boundAt === undefined ? undefined : ends[boundAt % ends.length];
        const wants = ({ index }: JournalEvent) => !unwanted.includes(index);
        const over = { from, bound, wants: unwanted.length === 0 ? everything : wants };
        const byOne = await form(limits, { ...over, encode: (event) => event.bytes });
        const asLines = await form(limits, { ...over, encode: (event) => event.bytes, keepsBytes: true });
        // Lines leave a page that fits whole into the next batch to that batch; single records do not.
        const isShorter = !isDeepStrictEqual(asLines.to, byOne.to);
        const asLong = isShorter
          ? await form(limits, { ...over, bound: asLines.to, isCut: true, encode: (event) => event.bytes })
          : byOne;
        if (isShorter) {
          expect([bound, unwanted]).toEqual([undefined, []]);
          const next = (await reader.read(asLines.to))!;
          const sizes = Array.from({ length: next.count }, (_, index) => next.event(index).size);
          expect(next.first).toBe(0);
          expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(limits.bytesMax);
        }
        const { stretches } = asLines.batch ?? {};
        const lines = stretches?.flatMap(({ lines, from, to }) => lines.bytes(from, to)) ?? [];
        if (asLines.batch !== null) {
          expect(totalsOf(asLines.batch)).toEqual(totalsOf(asLong.batch!));
          if (stretches === undefined) seen.records++;
          else {
            seen.lines++;
            expect(Buffer.concat(lines).toString()).toBe(linesOf(asLong).join(""));
          }
        }
        const encode = ({ index, bytes }: JournalEvent) =>
          index % 2 ? bytes : Buffer.from(bytes).toString();
        const encoded = await form(limits, { ...over, encode, chunks: createChunks({ chunkBytes: 200 }) });
        expect(linesOf(encoded)).toEqual(linesOf(byOne));
        expect(placesOf(encoded)).toEqual(placesOf(byOne));
        if (encoded.batch !== null) {
          expect(totalsOf(encoded.batch)).toEqual(totalsOf(byOne.batch!));
          const parts = encoded.batch.stretches!.map(({ lines, from, to }) => lines.bytes(from, to));
          expect(Buffer.concat(parts).toString()).toBe(linesOf(byOne).join(""));
          seen.chunks += encoded.batch.leases.length;
        }
        seen.misfits += asLines.misfits.length;
        expect(linesOf(asLines)).toEqual(linesOf(asLong));
        expect(placesOf(asLines)).toEqual(placesOf(asLong));
      }),
      { numRuns: runs(80) },
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(10);
  });
});

/** Every position at which a batch could end. */
async function positionsAfter(reader: JournalReader, from: Position): Promise<Position[]> {
  const positions: Position[] = [];
  for (let page = await reader.read(from); page !== null; page = await reader.read(positions.at(-1)!))
    for (let index = page.first; index < page.first + page.count; index++) positions.push(page.after(index));
  return positions;
}

function linesOf({ batch }: Formed): string[] {
  return batch?.records.map(({ body }) => `${Buffer.from(body).toString()}\n`) ?? [];
}

function placesOf({ batch, misfits, to, full, oldestMs }: Formed) {
  const placeOf = ({ event }: { readonly event: JournalEvent }) => `${event.page}:${event.index}`;
  return {
    records: batch?.records.map(placeOf),
    from: batch?.from,
    end: batch?.to,
    misfits: misfits.map((misfit) => `${placeOf(misfit)} ${misfit.reason}`),
    to,
    full,
    oldestMs,
  };
}
