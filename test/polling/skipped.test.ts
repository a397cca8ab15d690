import { afterEach, describe, expect, test } from "vitest";
import { silentMetrics } from "../../src/core/metrics.ts";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

async function reconcile(it: World): Promise<void> {
  await it.account.poller.reconcile({ fromMs: 0, toMs: it.clock.now() }, it.signal);
  await it.drain();
}

async function correct(it: World): Promise<void> {
  proxy!.change = undefined;
  await reconcile(it);
}

/** The events of all windows: those that the service counts, and those that are held. */
async function counted(it: World): Promise<number[]> {
  const windows = (await it.windows()).filter(({ apiCount }) => apiCount !== null);
  const sum = (name: "apiCount" | "heldCount") => windows.reduce((all, one) => all + one[name]!, 0);
  return [sum("apiCount"), sum("heldCount")];
}

const refuse = (exchange: Exchange) =>
  Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"search_after has expired"}') });

test("R8 an event that gets its name only with a later pass is counted once", async () => {
  ({ world, proxy } = await openProxied({
    simulator: { organizations: 1, events: 60, gzip: false },
    account: { bodyMax: "20KB" },
  }));
  const it = world;
  const [organization] = it.organizations as [string];
  const timestamp = new Date(START_MS - 2 * DAY).toISOString();
  it.simulator.control.append(organization, [
    { id: "cccccccccccccccccccccccc", timestamp, filler: "x".repeat(30_000) },
  ]);
  // The request for the name of the event is refused.
  proxy.change = (exchange) => {
    const { fields, limit } = exchange.query;
    if (fields !== undefined && limit === 1) refuse(exchange);
  };
  await it.drain();
  // The pass left a gap without a name. The comparison that follows shows the name, and the gap gets it.
  expect(await it.journal.gaps()).toMatchObject([
    { events: 1, detail: expect.stringContaining("larger than") },
  ]);
  proxy.change = undefined;
  await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
  await it.drain();
  const gaps = await it.journal.gaps();
  expect(gaps).toMatchObject([
    {
      organization,
      reason: "unreadable",
      events: 1,
      detail: expect.stringMatching(/ccccc.*larger than the limit/),
    },
  ]);
  // Another comparison finds the same gap.
  await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
  await it.drain();
  expect(await it.journal.gaps()).toEqual(gaps);
});

describe("an event that was passed over", () => {
  /** In each answer, those about the identity fields alone included. */
  const WHOLE = /\{[^{}]*"id":"bad0"[^{}]*\}/;
  const spoil = (text: string | RegExp) => (exchange: Exchange) => {
    exchange.body = Buffer.from(exchange.body.toString("latin1").replace(text, "NaN"), "latin1");
  };
  const kinds = (it: World) => it.alarms().map(({ kind }) => kind);

  async function openWithBad(spoiled: string | RegExp): Promise<World> {
    ({ world, proxy } = await openProxied({ simulator: { organizations: 1, events: 60 } }));
    const timestamp = new Date(START_MS - 2 * DAY).toISOString();
    const event = `{"id":"bad0","service":"directory","event_type":"x","marker":"BAD","timestamp":"${timestamp}","organization":"${world.organizations[0]}"}`;
    world.simulator.control.append(world.organizations[0]!, [event]);
    proxy.change = spoil(spoiled);
    await world.drain();
    return world;
  }

  test.each([
    ["with a name", '"BAD"'],
    ["without a name", WHOLE],
  ])("R32 %s is no gap and no alarm once it is corrected and fetched", async (_, spoiled) => {
    const it = await openWithBad(spoiled);
    const detail = expect.stringContaining(spoiled === WHOLE ? "one event" : "bad0");
    expect(await it.journal.gaps()).toMatchObject([{ reason: "unreadable", events: 1, detail }]);
    expect(kinds(it)).toEqual(["unreadable_event"]);
    await correct(it);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });

  test("R32 stays a gap when the service deletes it", async () => {
    const it = await openWithBad(WHOLE);
    proxy!.change = (exchange) => {
      if (!exchange.path.endsWith("/events")) return;
      const events = JSON.parse(exchange.body.toString()) as { id: string }[];
      const left = events.filter(({ id }) => id !== "bad0");
      if (left.length === events.length) return;
      exchange.body = Buffer.from(JSON.stringify(left));
      exchange.headers["x-result-count"] = String(left.length);
    };
    await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
    await it.drain();
    expect(await it.journal.gaps()).toMatchObject([{ reason: "unreadable", events: 1 }]);
  });

  test("R32 is an alarm again after a restart, and a gap without one after a week", async () => {
    const it = await openWithBad('"BAD"');
    const alarms = it.alarms();
    expect(alarms).toMatchObject([{ kind: "unreadable_event", message: expect.stringContaining("bad0") }]);
    it.forgetAlarms();
    await it.restart({ account: { insightsUrl: proxy!.url } });
    await it.drain();
    expect(it.alarms()).toMatchObject(
      alarms.map(({ kind, subject, message }) => ({ kind, subject, message })),
    );
    await it.pass(8 * DAY, 12 * HOUR);
    expect(kinds(it)).toEqual([]);
    expect(await it.journal.gaps()).toMatchObject([{ reason: "unreadable" }]);
  });
});

test("R36 an event that a comparison passes over is in the count of its organization", async () => {
  ({ world, proxy } = await openProxied({ simulator: { organizations: 3, events: 0 } }));
  const it = world;
  await it.drain();
  await it.pass(3 * HOUR, HOUR);
  const [, owner] = it.organizations as [string, string, string];
  const at = (minutes: number, more = {}) => ({
    timestamp: new Date(START_MS + minutes * MINUTE).toISOString(),
    ...more,
  });
  it.simulator.control.append(owner, [at(20), at(21, { id: "bad0", marker: "BAD" }), at(22)]);
  proxy.change = (exchange) => {
    if (!exchange.path.endsWith("/events") || exchange.query.fields !== undefined) return;
    exchange.body = Buffer.from(exchange.body.toString("latin1").replaceAll('"BAD"', "NaN"), "latin1");
  };
  await it.pass(3 * DAY, 6 * HOUR);
  const windows = (await it.windows()).filter(({ counts }) => counts?.[owner] !== undefined);
  const sum = (side: 0 | 1) => windows.reduce((all, { counts }) => all + counts![owner]![side], 0);
  expect(await counted(it)).toEqual([3, 2]);
  expect([sum(0), sum(1)]).toEqual([3, 2]);
});

describe("R32 an unreadable event among others of its second", () => {
  const SECOND_MS = START_MS - 2 * DAY;
  const at = (ms: number, more = {}) => ({ timestamp: new Date(SECOND_MS + ms).toISOString(), ...more });
  const spoil = (exchange: Exchange) => {
    exchange.body = Buffer.from(exchange.body.toString("latin1").replaceAll('"BAD"', "NaN"), "latin1");
  };
  let repeated = 0;

  async function openSecond(
    pageSize: number,
    events: readonly Readonly<Record<string, unknown>>[],
  ): Promise<World> {
    repeated = 0;
    const metrics = {
      ...silentMetrics,
      add(name: string, value: number) {
        if (name === "tidemark_journal_repeated_events_total") repeated += value;
      },
    };
    const simulator = { organizations: 1, events: 0 };
    ({ world, proxy } = await openProxied({ simulator, metrics, polling: { pageSize } }));
    world.simulator.control.append(world.organizations[0]!, events);
    proxy.change = spoil;
    await world.drain();
    return world;
  }

  test.each([10_000, 20, 7])(
    "with pages of %i, what is asked for again is no repeat of the service's own",
    async (size) => {
      const burst = Array.from({ length: 60 }, (_, index) => at(0, index === 31 ? { marker: "BAD" } : {}));
      const it = await openSecond(size, burst);
      await it.pass(2 * HOUR, HOUR);
      expect(await it.compare()).toMatchObject({ held: 59, lost: 1 });
      expect(it.alarms().map(({ kind }) => kind)).not.toContain("unordered_answers");
      expect(repeated).toBe(0);
    },
  );

  test("counts in the window of its own time alone", async () => {
    const it = await openSecond(100, [at(0)]);
    // Windows that end in the middle of a second: a request for their time shows the whole second.
    await it.pass(12 * HOUR + 400, 12 * HOUR + 400);
    const edges = (await it.windows()).filter(({ live }) => live).map(({ fromMs }) => fromMs);
    expect(edges.map((ms) => ms % 1000)).toEqual([400]);
    const events = [100, 450, 700].map((ms) =>
      at(edges[0]! - 400 + ms - SECOND_MS, ms === 450 ? { marker: "BAD" } : {}),
    );
    it.simulator.control.append(it.organizations[0]!, events);
    await it.pass(3 * DAY, 6 * HOUR);
    expect(await counted(it)).toEqual([4, 3]);
    await correct(it);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 4 });
    expect(await counted(it)).toEqual([4, 4]);
    expect((await it.windows()).map(({ reason }) => reason).filter((reason) => reason !== null)).toEqual([]);
  });

  describe("whose name is not always told", () => {
    const BAD = { id: "bad0", marker: "BAD" };
    const NAMED = [{ events: 1, detail: expect.stringMatching(/^the event bad0 .*kept apart as \w+$/) }];
    const isForName = ({ query }: Exchange) => query.fields !== undefined && query.limit === 1;

    /** A service whose tokens are not bound to the fields, so that it can tell the name wherever the event is. */
    async function openNaming(
      events: readonly Readonly<Record<string, unknown>>[],
      isRefused: (exchange: Exchange) => boolean = () => false,
    ): Promise<World> {
      ({ world, proxy } = await openProxied({ simulator: { organizations: 1, events: 0 } }));
      world.simulator.control.append(world.organizations[0]!, events);
      proxy.ask = ({ fields, ...query }: Record<string, unknown> & { limit?: number }) =>
        query.limit === 1 || fields === undefined ? query : { ...query, fields };
      answer(isRefused);
      await world.drain();
      return world;
    }

    function answer(isRefused: (exchange: Exchange) => boolean): void {
      proxy!.change = (exchange) => {
        if (!exchange.path.endsWith("/events")) return;
        if (!isForName(exchange)) spoil(exchange);
        if (isRefused(exchange)) refuse(exchange);
      };
    }

    async function expectOne(it: World, events: number): Promise<void> {
      expect(await it.journal.gaps()).toMatchObject(NAMED);
      expect(await counted(it)).toEqual([events, events - 1]);
      await correct(it);
      expect(await it.compare()).toMatchObject({ ...COMPLETE, held: events });
      expect(await it.journal.gaps()).toEqual([]);
      expect(it.alarms()).toEqual([]);
      expect(await counted(it)).toEqual([events, events]);
    }

    test("is one gap when a later comparison cannot ask for the name", async () => {
      const it = await openNaming([at(0), at(100, BAD), at(200)]);
      expect(await it.journal.gaps()).toMatchObject(NAMED);
      answer(isForName);
      await reconcile(it);
      await expectOne(it, 3);
    });

    test("is one gap when a poll of the window behind its own cannot ask for the name", async () => {
      const it = await openNaming([]);
      const live = async () => (await it.windows()).find((window) => window.live)!;
      const { fromMs } = await live();
      let refuses = false;
      const isRefused = (exchange: Exchange) => refuses && isForName(exchange);
      answer(isRefused);
      // At the end of its window, so that polls of the next one show it again.
      do await it.pass(MINUTE);
      while ((await live()).toMs < fromMs + 58 * MINUTE);
      const { toMs } = await live();
      const events = [1000, 2000, 3000].map((ms) => at(toMs + ms - SECOND_MS, ms === 2000 ? BAD : {}));
      it.simulator.control.append(it.organizations[0]!, events);
      await it.pass(MINUTE);
      expect(await it.journal.gaps()).toMatchObject(NAMED);
      refuses = true;
      await it.pass(3 * MINUTE, MINUTE);
      expect((await live()).fromMs).toBeGreaterThan(toMs);
      refuses = false;
      await it.pass(3 * HOUR, MINUTE);
      await expectOne(it, 3);
    });

    test("is not taken for another event that the service sends as the same bytes", async () => {
      let asked = 0;
      const it = await openNaming([]);
      proxy!.change = (exchange) => {
        const text = exchange.body.toString("latin1");
        if (!exchange.path.endsWith("/events")) return;
        if (exchange.query.fields === undefined)
          exchange.body = Buffer.from(text.replace(/\{[^{}]*"BAD"[^{}]*\}/g, "NaN"), "latin1");
        if (isForName(exchange) && ++asked > 1) refuse(exchange);
      };
      const events = [BAD, {}, { ...BAD, id: "bad1" }, {}].map((more, index) =>
        at(START_MS + 1000 * index - SECOND_MS, more),
      );
      it.simulator.control.append(it.organizations[0]!, events);
      await it.pass(MINUTE);
      const names = (await it.journal.gaps()).map(({ detail }) => /bad\d|one event/.exec(detail)?.[0]);
      expect(names).toEqual(["bad0", "one event"]);
    });

    test("does not hide an event of the same time that the service lists and never returns", async () => {
      const it = await openNaming([at(0), at(100, BAD), at(100, { id: "hidden0" }), at(200)]);
      const change = proxy!.change!;
      proxy!.change = (exchange) => {
        if (exchange.path.endsWith("/events") && exchange.query.fields === undefined) {
          const events = JSON.parse(exchange.body.toString()) as { id: string }[];
          const left = events.filter(({ id }) => id !== "hidden0");
          exchange.body = Buffer.from(JSON.stringify(left));
          exchange.headers["x-result-count"] = String(left.length);
        }
        change(exchange);
      };
      it.simulator.control.append(it.organizations[0]!, [at(DAY, BAD), at(DAY, { id: "hidden0" })]);
      await it.pass(3 * HOUR, HOUR);
      await reconcile(it);
      const names = (await it.journal.gaps()).map(({ detail, fromMs }) => [
        /bad0|hidden0/.exec(detail)?.[0],
        fromMs === SECOND_MS + DAY,
      ]);
      expect(names).toContainEqual(["hidden0", true]);
      expect(names).toContainEqual(["bad0", true]);
    });

    test.each([
      ["first", true],
      ["later", false],
    ])("is counted once where a pass that begins anew has its name %s", async (_, isNamedFirst) => {
      let asked = 0;
      let refused = 0;
      // One token behind the event is refused, and so is one of the first two questions for its name.
      const burst = Array.from({ length: 20 }, (_, index) => at(0, index === 5 ? BAD : {}));
      const it = await openNaming(burst, (exchange) => {
        if (isForName(exchange)) return ++asked === (isNamedFirst ? 2 : 1);
        const { fields, search_after } = exchange.query;
        if (asked !== 1 || refused > 0 || fields !== undefined || search_after === undefined) return false;
        refused++;
        return true;
      });
      await it.pass(10 * MINUTE, MINUTE);
      expect(asked).toBeGreaterThan(1);
      expect(refused).toBe(1);
      await expectOne(it, 20);
    });
  });
});
