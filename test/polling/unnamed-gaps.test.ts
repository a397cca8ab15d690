import { afterEach, describe, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, START_MS, type World, type WorldOptions } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

const at = (ms: number, more = {}) => ({ timestamp: new Date(ms).toISOString(), ...more });
/** Five events; the second and the fourth, and one between them, are to be unreadable. */
const withThree = (ms: number) =>
  [{}, { id: "bad0" }, { id: "bad1" }, {}, { id: "bad2" }, {}].map((more, index) =>
    at(ms + 300 * index, more),
  );

/** No answer says which events these are. */
const spoil =
  (bytes: (id: string, isWhole: boolean) => string = () => "null", ids = /\{[^{}]*"id":"(bad\d)"[^{}]*\}/g) =>
  (exchange: Exchange) => {
    if (!exchange.path.endsWith("/events")) return;
    const isWhole = exchange.query.fields === undefined;
    const text = exchange.body.toString("latin1").replace(ids, (_, id: string) => bytes(id, isWhole));
    exchange.body = Buffer.from(text, "latin1");
  };

const unlist = (id: string) => (exchange: Exchange) => {
  if (!exchange.path.endsWith("/events")) return;
  const events = JSON.parse(exchange.body.toString()) as { id: string }[];
  const left = events.filter((event) => event.id !== id);
  exchange.body = Buffer.from(JSON.stringify(left));
  exchange.headers["x-result-count"] = String(left.length);
};

async function open(options: WorldOptions = {}): Promise<World> {
  ({ world, proxy } = await openProxied({ simulator: { organizations: 1, events: 0 }, ...options }));
  proxy.change = spoil();
  return world;
}

function append(it: World, events: readonly Readonly<Record<string, unknown>>[], owner = 0): void {
  it.simulator.control.append(it.organizations[owner]!, events);
}

async function reconcile(it: World): Promise<void> {
  await it.account.poller.reconcile({ fromMs: 0, toMs: it.clock.now() }, it.signal);
  await it.drain();
}

async function counted(it: World): Promise<number[]> {
  const windows = (await it.windows()).filter(({ apiCount }) => apiCount !== null);
  const sum = (name: "apiCount" | "heldCount") => windows.reduce((all, one) => all + one[name]!, 0);
  return [sum("apiCount"), sum("heldCount")];
}

const names = async (it: World) =>
  (await it.journal.gaps()).map(({ detail }) => /bad\d|one event/.exec(detail)?.[0]);

async function expectMissing(it: World, missing: number, events: number): Promise<void> {
  expect(await it.journal.gaps()).toHaveLength(missing);
  expect(await it.journal.gapTotals()).toMatchObject({ gaps: missing, events: missing });
  expect(await counted(it)).toEqual([events, events - missing]);
}

async function expectCorrected(it: World, events: number): Promise<void> {
  proxy!.change = undefined;
  await reconcile(it);
  expect(await it.compare()).toMatchObject({ ...COMPLETE, held: events });
  expect(await it.journal.gaps()).toEqual([]);
  expect(it.alarms()).toEqual([]);
  expect(await counted(it)).toEqual([events, events]);
}

describe("R32 unreadable events that look the same and have no name", () => {
  test.each([10_000, 4, 2])(
    "are as many gaps, however often they are read, with pages of %i",
    async (pageSize) => {
      const it = await open({ polling: { pageSize } });
      append(it, withThree(START_MS - 2 * DAY));
      await it.drain();
      await expectMissing(it, 3, 6);
      for (let times = 0; times < 2; times++) await reconcile(it);
      await expectMissing(it, 3, 6);
      await it.pass(3 * DAY, 6 * HOUR);
      await expectMissing(it, 3, 6);
      await expectCorrected(it, 6);
    },
  );

  test.each([
    ["when polls show them", -MINUTE],
    ["when comparisons find them", -2 * HOUR],
  ])("are as many gaps %s", async (_, sinceMs) => {
    const it = await open();
    await it.drain();
    await it.pass(6 * HOUR, HOUR);
    append(it, withThree(it.clock.now() + sinceMs));
    await it.pass(10 * MINUTE, MINUTE);
    await it.pass(DAY, HOUR);
    await expectMissing(it, 3, 6);
    await expectCorrected(it, 6);
  });

  test("are as many gaps where tokens are refused on the way", async () => {
    let refused = 0;
    const it = await open();
    const change = proxy!.change!;
    proxy!.change = (exchange) => {
      change(exchange);
      const { search_after, limit } = exchange.query;
      if (search_after === undefined || limit !== 1 || refused >= 3) return;
      refused++;
      Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"search_after has expired"}') });
    };
    append(it, withThree(START_MS - 2 * DAY));
    await it.drain();
    await it.pass(DAY, 6 * HOUR);
    expect(refused).toBe(3);
    await expectMissing(it, 3, 6);
    await expectCorrected(it, 6);
  });

  test("stay where the service deletes one and corrects the others", async () => {
    const it = await open();
    append(it, withThree(START_MS - 2 * DAY));
    await it.drain();
    proxy!.change = unlist("bad2");
    await reconcile(it);
    expect(await it.journal.gapTotals()).toMatchObject({ gaps: 1, events: 1 });
  });
});

test("R32 an event whose identity fields have other unreadable bytes than the whole of it is one gap", async () => {
  const it = await open();
  proxy!.change = spoil((id, isWhole) => `{"${id}":${isWhole},}`);
  append(it, withThree(START_MS - 2 * DAY));
  await it.drain();
  await it.pass(DAY, 6 * HOUR);
  await reconcile(it);
  await expectMissing(it, 3, 6);
  await expectCorrected(it, 6);
});

describe("R32 the gap of an event without a name stays when another event of its time is named", () => {
  const named = (exchange: Exchange) => {
    // The first event has no name; the second one is unreadable only as a whole.
    spoil((id, isWhole) => `{"x":"${id}",${isWhole},}`, /\{[^{}]*"id":"(bad0)"[^{}]*\}/g)(exchange);
    if (exchange.path.endsWith("/events") && exchange.query.fields === undefined)
      exchange.body = Buffer.from(exchange.body.toString("latin1").replaceAll('"BAD"', "NaN"), "latin1");
  };

  async function openBoth(): Promise<World> {
    const it = await open();
    // A service whose tokens are not bound to the fields, so that it can tell the name wherever the event is.
    proxy!.ask = ({ fields, ...query }: Record<string, unknown> & { limit?: number }) =>
      query.limit === 1 || fields === undefined ? query : { ...query, fields };
    proxy!.change = named;
    await it.drain();
    await it.pass(HOUR, HOUR);
    const beginMs = it.clock.now();
    append(it, [at(beginMs - 3000, { id: "bad0" })]);
    await it.pass(MINUTE);
    expect(await names(it)).toEqual(["one event"]);
    append(it, [at(beginMs - 2000, { id: "bad1", marker: "BAD" })]);
    await it.pass(MINUTE);
    return it;
  }

  test("and both end when they are corrected", async () => {
    const it = await openBoth();
    expect((await names(it)).sort()).toEqual(["bad1", "one event"]);
    await it.pass(DAY, HOUR);
    expect((await names(it)).sort()).toEqual(["bad1", "one event"]);
    expect(await counted(it)).toEqual([2, 0]);
    await expectCorrected(it, 2);
  });

  test("also where the service has deleted it", async () => {
    const it = await openBoth();
    proxy!.change = (exchange) => {
      named(exchange);
      exchange.body = Buffer.from(
        exchange.body.toString("latin1").replace(/\{"x":"bad0"[^}]*\},?/, ""),
        "latin1",
      );
      delete exchange.headers["x-result-count"];
    };
    await it.pass(2 * HOUR, HOUR);
    await reconcile(it);
    expect((await names(it)).sort()).toEqual(["bad1", "one event"]);
  });
});

test("R32 an event without a name that a poll fetches after its correction is no gap after a comparison", async () => {
  const it = await open();
  proxy!.change = spoil((id) => `"a string ${id}"`);
  await it.drain();
  await it.pass(HOUR, MINUTE);
  append(it, [at(it.clock.now() - 1000, { id: "bad0" })]);
  await it.pass(2 * MINUTE, MINUTE);
  expect(await names(it)).toEqual(["one event"]);
  proxy!.change = undefined;
  await it.pass(MINUTE);
  expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 1 });
  await expectCorrected(it, 1);
});

test("R32 an event without a name, met by the comparison of a group, is one gap of its organization", async () => {
  const it = await open({ simulator: { organizations: 3, events: 0 } });
  await it.drain();
  await it.pass(3 * HOUR, HOUR);
  for (const owner of [0, 1, 2]) append(it, [at(START_MS + 20 * MINUTE), at(START_MS + 22 * MINUTE)], owner);
  append(it, [at(START_MS + 21 * MINUTE, { id: "bad0" })], 1);
  await it.pass(3 * DAY, 6 * HOUR);
  expect(await it.journal.gaps()).toMatchObject([{ organization: it.organizations[1], events: 1 }]);
  expect(it.alarms()).toMatchObject([{ kind: "unreadable_event" }]);
  await expectMissing(it, 1, 7);
  await expectCorrected(it, 7);
});

test("R32 an event whose name a comparison lists stays an alarm, and one gap", async () => {
  const it = await open();
  // The name is told where it is asked for among others.
  proxy!.change = (exchange) => {
    const { fields, limit } = exchange.query;
    if (fields === undefined) spoil()(exchange);
    else if (limit === 1) Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"no"}') });
  };
  await it.drain();
  await it.pass(HOUR, MINUTE);
  const beginMs = it.clock.now();
  append(it, [at(beginMs - 3000), at(beginMs - 2000, { id: "bad0" }), at(beginMs - 1000)]);
  await it.pass(MINUTE);
  expect(await names(it)).toEqual(["one event"]);
  for (let times = 0; times < 2; times++) {
    await reconcile(it);
    await it.pass(2 * HOUR, HOUR);
    expect(await names(it)).toEqual(["bad0"]);
    expect(it.alarms()).toMatchObject([{ kind: "unreadable_event" }]);
  }
  await expectCorrected(it, 3);
});

test("R32 the gap of an event that came while a poll was under way ends with its correction", async () => {
  const it = await open({ polling: { pageSize: 1 } });
  await it.drain();
  await it.pass(HOUR, MINUTE);
  const beginMs = it.clock.now();
  append(it, [at(beginMs + MINUTE - 1000)]);
  let isUnderWay = false;
  proxy!.change = (exchange) => {
    if (!isUnderWay && exchange.body.includes('"id"')) {
      isUnderWay = true;
      it.simulator.control.clock.advance(5000);
      append(it, [at(beginMs + MINUTE + 2000, { id: "bad0" })]);
    }
    spoil()(exchange);
  };
  await it.pass(MINUTE);
  expect(isUnderWay).toBe(true);
  expect(await it.journal.gaps()).toMatchObject([{ detail: expect.stringContaining("one event") }]);
  proxy!.change = undefined;
  await it.pass(MINUTE);
  expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 2 });
  await it.pass(2 * HOUR, HOUR);
  await expectCorrected(it, 2);
});
