import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createAlarms } from "../../src/core/alarms.ts";
import { PausedError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format, FormatSettings } from "../../src/core/format.ts";
import type { JournalReader } from "../../src/core/journal.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { formatPosition } from "../../src/core/position.ts";
import type { Batch, SinkContext, SinkState } from "../../src/core/sink.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery, type Delivery } from "../../src/delivery/deliver.ts";
import { filterOf, type SinkRoute } from "../../src/delivery/filter.ts";
import { resolutionOf } from "../../src/delivery/position.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { rawFormat } from "../support/events.ts";
import { eventText, FETCHED_MS, pageOf } from "../support/pages.ts";
import { never, stepUntilIdle } from "./support.ts";

/** What a destination does with its batches. Answers are lost when as many batches are there as the sink sends at once. */
type Fate = "takes" | "loses" | "loses the first and refuses" | "refuses" | "finds too large";

interface Life {
  readonly type: string;
  readonly fate: Fate;
  readonly route?: SinkRoute;
  readonly layout?: SinkState;
  readonly recordsMax?: number;
  readonly lostAt?: number;
  readonly format?: string;
  readonly config?: Record<string, string>;
  /** The destination takes a request whole or not at all. */
  readonly refusesWhole?: boolean;
}

const FEW: SinkRoute = { only: { eventTypes: ["logout"] } };
const MOST: SinkRoute = { except: { eventTypes: ["logout"] } };

describe("R19 batches that were begun, when the sink is changed", () => {
  let clock: FakeClock;
  let fixture: JournalFixture;
  /** The batches that came to destinations of each type, as their receivers know them. */
  let came: Map<string, string[]>;
  let opened: SinkContext<unknown>[];
  let bodies: string[];

  beforeEach(async () => {
    clock = createFakeClock(FETCHED_MS);
    fixture = openFixture(clock);
    came = new Map();
    opened = [];
    bodies = [];
    const texts = Array.from({ length: 40 }, (_, n) =>
      eventText(n, n % 3 === 0 ? { event_type: "logout" } : {}),
    );
    await fixture.journal.append(pageOf(texts));
  });
  afterEach(() => fixture.close());

  async function start(life: Life, own?: JournalReader): Promise<Delivery> {
    const { type, fate, route = {}, layout, recordsMax = 10, lostAt = 2, format = "raw" } = life;
    const batches = came.get(type) ?? [];
    came.set(type, batches);
    let inFlight = 0;
    let areAllThere = () => {};
    const allThere = new Promise<void>((resolve) => {
      areAllThere = resolve;
    });
    const write = async (batch: Batch) => {
      batches.push(nameOf(batch));
      bodies.push(batch.records.map(({ body }) => Buffer.from(body).toString()).join(" "));
      if (fate === "loses the first and refuses" && batches.length === 1)
        throw new RetryableError("the answer was lost");
      if (fate === "refuses" || fate === "loses the first and refuses")
        throw new PausedError("no", "Correct it.");
      if (fate === "takes") return undefined;
      if (fate === "finds too large" && batch.records.length > 5) throw new TooLargeError("too large");
      if (++inFlight >= lostAt) areAllThere();
      await allThere;
      throw new RetryableError("the answer was lost");
    };
    const definition = {
      ...{ type, summary: "A destination.", config: z.strictObject({}), defaultFormat: "raw" },
      ...({ guarantee: "at_least_once", promise: "What a test says.", boundsFirst: true } as const),
      batchFields: ["body"],
      refusesWhole: life.refusesWhole ?? false,
      open: async (context: SinkContext<unknown>) => {
        opened.push(context);
        const limits = { recordsMax, bytesMax: 1_000_000, ageMsMax: 0 };
        return { limits, write, writesMax: lostAt, close: async () => {}, ...(layout && { layout }) };
      },
    } as const;
    const journal = own === undefined ? fixture.reopen() : fixture.journal;
    return createDelivery({
      ...{ name: "sink", definition, config: life.config ?? {}, clock, log: silentLog },
      ...{ format: formatOf({ type: format }), formatting: { settings: settingsOf(format), formatOf } },
      ...{
        route,
        wants: filterOf(route),
        reader: own ?? (await journal.reader("sink")),
        journal: journal.id,
      },
      ...{ alarms: createAlarms(clock, silentLog), metrics: silentMetrics, stdout: new PassThrough() },
      ...{ wake: createWake(clock), end: () => journal.end(), draining: () => true },
    });
  }

  /** A process of its own, until there is nothing to do at this time. */
  async function live(life: Life): Promise<void> {
    const delivery = await start(life);
    await stepUntilIdle(delivery);
    await delivery.close();
  }

  const reader = () => fixture.journal.reader("sink");

  test.each([
    ["another filter", { route: FEW }],
    ["a filter that leaves it out", { route: MOST }],
    ["smaller batches", { recordsMax: 3 }],
  ] as const)("a sink of another type in between changes none of them: %s", async (_, change) => {
    await live({ type: "one", fate: "loses" });
    const begun = [...came.get("one")!];
    expect(begun).toHaveLength(2);
    await live({ type: "two", fate: "loses", lostAt: 3, ...change });
    await live({ type: "three", fate: "loses", lostAt: 3, ...change });
    expect((await reader()).bounds).toHaveLength(3);
    await live({ type: "one", fate: "takes", ...change });
    expect(came.get("one")!.slice(2, 4)).toEqual(begun);
    expect((await reader()).bounds).toEqual([]);
    // Events behind them are of the new filter.
    const last = came.get("one")!.slice(4).join();
    const wanted = filterOf(("route" in change && change.route) || {});
    const isLogout = (n: number) => n % 3 === 0;
    const isWanted = (n: number) =>
      wanted({ eventType: isLogout(n) ? "logout" : "login", timestampMs: FETCHED_MS } as JournalEvent);
    const behind = Array.from({ length: 20 }, (_, n) => n + 20).filter(isWanted);
    expect([...last.matchAll(/#(\d+)/g)].map(([, n]) => Number(n))).toEqual(behind);
  });

  test("a sink of another type that cuts them leaves them whole for the former one", async () => {
    await live({ type: "one", fate: "loses" });
    const begun = [...came.get("one")!];
    await live({ type: "two", fate: "finds too large", lostAt: 1 });
    expect((await reader()).bounds).toHaveLength(3);
    await live({ type: "one", fate: "takes" });
    expect(came.get("one")!.slice(2, 4)).toEqual(begun);
    expect((await reader()).bounds).toEqual([]);
  });

  test("each type gets its own layout back", async () => {
    await live({ type: "one", fate: "loses", layout: { prefix: "p" } });
    await live({ type: "two", fate: "loses", layout: { index: "i" } });
    expect(opened.at(-1)!.unfinished).toBeUndefined();
    await live({ type: "one", fate: "loses", layout: { prefix: "q" } });
    expect(opened.at(-1)!.unfinished).toEqual({
      to: (await reader()).bounds.at(-1),
      layout: { prefix: "p" },
    });
    await live({ type: "two", fate: "takes", layout: { index: "j" } });
    expect(opened.at(-1)!.unfinished?.layout).toEqual({ index: "i" });
    expect((await reader()).bounds).toEqual([]);
  });

  test("they are completed in the format of before, and the next ones get the new one", async () => {
    await live({ type: "one", fate: "loses", format: "old" });
    await live({ type: "one", fate: "loses", format: "other" });
    await live({ type: "one", fate: "takes", format: "new" });
    const names = came.get("one")!;
    expect(names.slice(2, 6)).toEqual([...names.slice(0, 2), ...names.slice(0, 2)]);
    expect(bodies.slice(0, 6)).toEqual(Array.from({ length: 6 }, () => Array(10).fill("old").join(" ")));
    expect(bodies.slice(6)).toEqual(Array.from({ length: 2 }, () => Array(10).fill("new").join(" ")));
    expect((await reader()).position).toEqual(fixture.journal.end());
  });

  test("they are completed with the fields of before that decide their bytes", async () => {
    await live({ type: "one", fate: "loses", config: { body: "lines", url: "a" } });
    opened = [];
    await live({ type: "one", fate: "takes", config: { body: "array", url: "b" } });
    expect(opened.map(({ config }) => config)).toEqual([
      { body: "lines", url: "b" },
      { body: "array", url: "b" },
    ]);
  });

  test("a refusal of what an earlier config says names the way out, and the operator can have it as it says now", async () => {
    await live({ type: "one", fate: "loses", format: "old" });
    const refused = await start({ type: "one", fate: "refuses", format: "new" });
    await stepUntilIdle(refused);
    const { state, remedy } = refused.status();
    expect(state).toBe("paused");
    expect(remedy).toMatch(/^Correct it\. The next batch was begun before the config was changed/);
    expect(remedy).toContain("`tidemark sinks resume sink --from state`");
    await refused.resolve(resolutionOf("state"), never);
    await stepUntilIdle(refused);
    expect(refused.status().remedy).toBe("Correct it.");
    expect(bodies.at(-1)).toBe(Array(10).fill("new").join(" "));
    await refused.close();
  });

  test("the operator's choice counts for the size of batches that were begun", async () => {
    await live({ type: "one", fate: "loses" });
    const delivery = await start({ type: "one", fate: "takes", recordsMax: 3 });
    await delivery.resolve(resolutionOf("state"), never);
    expect((await reader()).bounds).toEqual([]);
    bodies = [];
    await stepUntilIdle(delivery);
    expect(bodies[0]!.split(" ")).toHaveLength(3);
    await delivery.close();
  });

  test("R20 the operator's choice and its position are one commit: what comes after it may fail", async () => {
    await live({ type: "one", fate: "loses" });
    const held = await reader();
    const own = new Proxy(held, {
      get: (target, key) =>
        key === "setBounds"
          ? () => Promise.reject(new Error("the process ends here"))
          : Reflect.get(target, key, target),
    });
    const delivery = await start({ type: "one", fate: "takes" }, own);
    await expect(delivery.resolve(resolutionOf("now"), never)).rejects.toThrow("ends here");
    expect(held.position).toEqual(fixture.journal.end());
    expect((await reader()).position).toEqual(fixture.journal.end());
    await delivery.close();
  });

  test("where nothing of a refused batch is stored, the next config decides its size too", async () => {
    await live({ type: "one", fate: "refuses", refusesWhole: true, recordsMax: 20 });
    bodies = [];
    await live({ type: "one", fate: "takes", refusesWhole: true, recordsMax: 3 });
    expect(bodies[0]!.split(" ")).toHaveLength(3);
  });

  test.each([
    ["nothing of them is stored where a request is refused whole", true, [] as const, "new"],
    ["a part of them may be stored otherwise", false, [] as const, "old"],
    ["an answer was lost before", true, ["loses"] as const, "old"],
  ])("refused batches under a corrected config: %s", async (_, refusesWhole, before, format) => {
    for (const fate of before) await live({ type: "one", fate, format: "old", refusesWhole });
    await live({ type: "one", fate: "refuses", format: "old", refusesWhole });
    bodies = [];
    await live({ type: "one", fate: "takes", format: "new", refusesWhole });
    expect(bodies[0]).toBe(Array(10).fill(format).join(" "));
    expect(bodies.at(-1)).toBe(Array(10).fill("new").join(" "));
    expect((await reader()).bounds).toEqual([]);
  });

  test("batches that are refused after an answer was lost keep their format", async () => {
    const delivery = await start({
      ...{ type: "one", fate: "loses the first and refuses", format: "old", refusesWhole: true },
    });
    await stepUntilIdle(delivery);
    clock.advance(60_000);
    await stepUntilIdle(delivery);
    expect(delivery.status().state).toBe("paused");
    await delivery.close();
    await live({ type: "one", fate: "takes", format: "new", refusesWhole: true });
    expect(bodies.at(-4)).toBe(Array(10).fill("old").join(" "));
    expect((await reader()).bounds).toEqual([]);
  });

  test("a format that this version does not know stops the sink until the operator has chosen", async () => {
    await live({ type: "one", fate: "loses" });
    const { bounds, state } = await reader();
    const [begun] = (state as unknown as { begun: object[] }).begun;
    await (await reader()).setBounds(bounds, { begun: [{ ...begun, format: settingsOf("gone") }] });
    const delivery = await start({ type: "one", fate: "takes" });
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "stopped", sentEvents: 0 });
    expect(delivery.status().reason).toContain("begun in the format gone");
    await delivery.resolve(resolutionOf("state"), never);
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "running", sentEvents: 40 });
    await delivery.close();
  });

  test("what is committed is forgotten", async () => {
    await live({ type: "one", fate: "loses" });
    await live({ type: "two", fate: "takes" });
    await fixture.journal.append(pageOf([eventText(40)]));
    await live({ type: "two", fate: "loses", lostAt: 1 });
    const { state } = await reader();
    expect((state as { begun: { type: string; bounds: string[] }[] }).begun).toMatchObject([
      { type: "two", bounds: [formatPosition(fixture.journal.end())] },
    ]);
  });

  test.each([
    ["of this type", { begun: { type: "one", route: FEW }, layout: { prefix: "p" } }, 4, { prefix: "p" }],
    ["of another type", { begun: { type: "two", route: FEW }, layout: { index: "i" } }, 10, undefined],
    ["of no type", { layout: { prefix: "p" } }, 10, { prefix: "p" }],
    ["of no settings", {}, 10, undefined],
  ] as const)("the state of an older version: %s", async (_, state, events, layout) => {
    const before = await reader();
    const page = (await before.read(before.position))!;
    await before.setBounds([page.after(page.first + 9)], state);
    page.lease.release();
    await live({ type: "one", fate: "takes", layout: { prefix: "q" } });
    expect(opened.at(0)!.unfinished?.layout).toEqual(layout);
    expect(came.get("one")![0]!.match(/#/g)).toHaveLength(events);
    expect((await reader()).bounds).toEqual([]);
  });
});

const settingsOf = (type: string): FormatSettings => ({ type, options: {} });

/** Each body names its format. This version knows none that is named "gone". */
function formatOf({ type }: Pick<FormatSettings, "type">): Format {
  if (type === "gone") throw new Error("there is no such format");
  return { ...rawFormat, name: type, keepsBytes: false, encode: () => type };
}

/** A receiver knows a repeat by the ends of its batch and its events. */
function nameOf({ from, to, records }: Batch): string {
  const numbers = records.map(({ event }) => `#${JSON.parse(Buffer.from(event.bytes).toString()).number}`);
  return [formatPosition(from), formatPosition(to), ...numbers].join(" ");
}
