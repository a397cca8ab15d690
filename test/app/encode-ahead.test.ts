// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { encodedAhead } from "../../src/app/encode/ahead.ts";
import { createSliceEncoder } from "../../src/app/encode/encode-slice.ts";
import { createFormat } from "../../src/app/sinks.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import type { JournalReader } from "../../src/core/journal.ts";
import type { EncodeOrder, Encoder } from "../../src/core/page-slice.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { createChunks } from "../../src/delivery/encoded-lines.ts";
import { everything } from "../../src/delivery/filter.ts";
import type { Forming } from "../../src/delivery/forming.ts";
import { fixtureTexts } from "../formats/recipes-support.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { pageOf } from "../support/pages.ts";

const NAMES = ["ocsf", "ecs", "envelope", "cef", "leef"];

describe("encoding ahead", () => {
  let fixture: JournalFixture;
  let reader: JournalReader;
  let orders: EncodeOrder[];
  let mismatched: JournalEvent[];
  let here: number;
  let encodeSlice: ReturnType<typeof createSliceEncoder>;

  beforeEach(async () => {
    fixture = openFixture();
    reader = await fixture.journal.reader("r");
    orders = [];
    mismatched = [];
    here = 0;
    encodeSlice = createSliceEncoder();
  });
  afterEach(() => fixture.close());

  /** Fixture events over and over, each with an id of its own; twins every now and then. */
  async function append(count: number): Promise<void> {
    const texts = fixtureTexts();
    const events = Array.from({ length: count }, (_, index) => {
      const event = JSON.parse(texts[index % texts.length]!);
      const id = (index % 97 === 96 ? index - 1 : index).toString(16).padStart(24, "0");
      return JSON.stringify({ ...event, organization: ORGANIZATIONS[index % 2], id, at: index });
    });
    await fixture.journal.append(pageOf(events, { organizations: ORGANIZATIONS }));
  }

  const inThread: Encoder = {
    encode: async (order) => {
      orders.push(order);
      return encodeSlice(structuredClone(order));
    },
    close: async () => {},
  };

  function ahead(name: string, encoder: Encoder): Format {
    return encodedAhead(createFormat(name, {}), {
      encoder,
      name,
      options: {},
      inline: () => {
        here++;
        return createFormat(name, {});
      },
      onMismatch: (event) => mismatched.push(event),
    });
  }

  /** The lines of all batches; batches end inside slices. */
  async function linesOf(format: Format): Promise<string[]> {
    const lines: string[] = [];
    const limits = { recordsMax: 777, bytesMax: 100_000_000, ageMsMax: 0 };
    for (let from = reader.position; ; ) {
      const { batch, to } = await formBatch(formingOf(format, { from, limits, recordsMax: 777 }));
      if (batch === null) return lines;
      lines.push(...batch.records.map(({ body }) => Buffer.from(body).toString()));
      for (const lease of batch.leases) lease.release();
      from = to;
    }
  }

  const formingOf = (format: Format, over: Pick<Forming, "from" | "limits" | "recordsMax">): Forming => ({
    reader,
    bound: undefined,
    wants: everything,
    encode: format.encodeShared ?? format.encode,
    encodeAhead: format.encodeAhead,
    keepsBytes: false,
    chunks: createChunks({ poison: true }),
    ...over,
  });

  test.each(NAMES)("%s: every event has the bytes that the converter gives", async (name) => {
    await append(1300);
    const expected = await linesOf(createFormat(name, {}));
    expect(await linesOf(ahead(name, inThread))).toEqual(expected);
    expect(expected).toHaveLength(1300);
    expect(new Set(expected).size).toBe(1300);
    expect(here).toBe(0);
  });

  test("a slice is ordered once, though batches end inside it, and two more before they are needed", async () => {
    await append(2100);
    const format = ahead("ocsf", inThread);
    const page = (await reader.read(reader.position))!;
    expect(await format.encodeAhead!(page, 0, 2100)).toBe(500);
    expect(orders.map(({ slice }) => [slice.first, slice.timesMs.length])).toEqual([
      [0, 500],
      [500, 500],
      [1000, 500],
    ]);
    expect(await format.encodeAhead!(page, 250, 2100)).toBe(500);
    expect(orders).toHaveLength(3);
    expect(await format.encodeAhead!(page, 500, 2100)).toBe(1000);
    expect(orders).toHaveLength(4);
    page.lease.release();
  });

  test("a small page is encoded here", async () => {
    await append(100);
    expect(await linesOf(ahead("ocsf", inThread))).toEqual(await linesOf(createFormat("ocsf", {})));
    expect(orders).toHaveLength(0);
    expect(here).toBe(1);
  });

  test.each([
    ["without an answer", async () => undefined],
    [
      "with an error",
      async () => {
        throw new Error("no thread");
      },
    ],
  ])("events of a thread that failed %s are encoded here", async (_name, encode) => {
    await append(1200);
    expect(await linesOf(ahead("ecs", { ...inThread, encode }))).toEqual(
      await linesOf(createFormat("ecs", {})),
    );
  });

  test("an event that the format fails on there is encoded here, and the others are not", async () => {
    await append(600);
    const expected = await linesOf(createFormat("ocsf", {}));
    const broken: Encoder = {
      ...inThread,
      async encode(order) {
        const encoded = (await inThread.encode(order))!;
        const ends = encoded.ends.slice();
        const { bytes } = encoded;
        // The third event has no bytes: the others move up.
        const [from, to] = [ends[1]!, ends[2]!];
        const left = Uint8Array.from([...bytes.subarray(0, from), ...bytes.subarray(to)]);
        for (let at = 3; at < ends.length; at++) ends[at]! -= to - from;
        ends[2] = ~from;
        return { ...encoded, bytes: left, ends };
      },
    };
    expect(await linesOf(ahead("ocsf", broken))).toEqual(expected);
    expect(here).toBe(1);
  });

  test("an event whose recipe was wrong is reported once, although a batch ends inside its slice", async () => {
    await append(1100);
    const wrong: Encoder = {
      ...inThread,
      encode: async (order) => ({
        ...(await inThread.encode(order))!,
        mismatched: order.slice.first === 500 ? [503] : [],
      }),
    };
    await linesOf(ahead("ocsf", wrong));
    expect(mismatched.map(({ index }) => index)).toEqual([503]);
  });

  test("threads give the same bytes, and another one starts when one has failed", async () => {
    await append(1100);
    const { createEncoder } = await import(new URL(THREAD, import.meta.url).href);
    expect(createEncoder(systemClock, 2)).toBeUndefined();
    const encoder = createEncoder(systemClock, 4) as Encoder;
    try {
      expect(await linesOf(ahead("ocsf", encoder))).toEqual(await linesOf(createFormat("ocsf", {})));
      expect(here).toBe(0);
      // There is no such format, so the thread ends with an error.
      const page = (await reader.read(reader.position))!;
      const order = () => ({ options: {}, slice: page.slice!(0, 300) });
      expect(await encoder.encode({ ...order(), format: "none" })).toBeUndefined();
      expect(await encoder.encode({ ...order(), format: "none" })).toBeUndefined();
      expect((await encoder.encode({ ...order(), format: "ecs" }))!.ends).toHaveLength(300);
      page.lease.release();
    } finally {
      await encoder.close();
    }
  });
});

const ORGANIZATIONS = ["5f0c5f0c5f0c5f0c5f0c5f0c", "6a1b6a1b6a1b6a1b6a1b6a1b"];
const THREAD = "../../dist/src/app/encode/thread.js";
