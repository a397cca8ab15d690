// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
  world = undefined;
  proxy = undefined;
});

/** History that was read, and then an event in the middle of one of its seconds that appears late. */
async function openWithLateEvent(set: (proxy: AnswerProxy) => void): Promise<World> {
  ({ world, proxy } = await openProxied({ simulator: { organizations: 1, events: 100, days: 5 } }));
  const it = world;
  set(proxy);
  await it.drain();
  await it.pass(10 * MINUTE, MINUTE);
  const timestamp = new Date(START_MS - 30 * HOUR + 17).toISOString();
  it.simulator.control.append(it.organizations[0]!, [{ timestamp }]);
  return it;
}

async function reconcile(it: World): Promise<void> {
  await it.account.poller.reconcile({ fromMs: START_MS - 5 * DAY, toMs: it.clock.now() }, it.signal);
  await it.drain();
}

/** Windows whose counts differ, of the service and of the journal. */
async function differing(it: World) {
  return (await it.windows()).filter(({ apiCount, heldCount }) => apiCount !== heldCount);
}

const wholeSeconds = (query: Record<string, unknown>) => ({
  ...query,
  ...("start_time" in query && { start_time: cut(query.start_time) }),
  ...("end_time" in query && { end_time: cut(query.end_time) }),
});
const cut = (time: unknown) => new Date(Math.floor(Date.parse(time as string) / 1000) * 1000).toISOString();

describe("R9 a service that knows whole seconds only", () => {
  test("R9 gives a late event when a sweep asks for its millisecond", async () => {
    const it = await openWithLateEvent((proxy) => {
      proxy.ask = wholeSeconds;
    });
    await reconcile(it);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await differing(it)).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });

  test("R6 a slice that is refused pauses nothing: the whole window is read again", async () => {
    const isSlice = ({ fields, start_time, end_time }: Record<string, string>) =>
      fields === undefined && Date.parse(end_time!) - Date.parse(start_time!) <= 2000;
    let refused = 0;
    const it = await openWithLateEvent((proxy) => {
      proxy.change = (exchange: Exchange) => {
        if (!isSlice(exchange.query as Record<string, string>)) return;
        refused++;
        const body = Buffer.from('{"message":"Start Time not after End Time"}');
        Object.assign(exchange, { status: 400, body });
      };
    });
    await reconcile(it);
    expect(refused).toBeGreaterThan(0);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await differing(it)).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });

  test("R36 counts an event of a second once when a token inside that second is refused", async () => {
    ({ world, proxy } = await openProxied({
      simulator: { organizations: 1, events: 0 },
      polling: { pageSize: 10 },
    }));
    const it = world;
    const atMs = START_MS - 30 * HOUR;
    const events = Array.from({ length: 35 }, (_, at) => ({
      timestamp: new Date(atMs + at * 20).toISOString(),
    }));
    it.simulator.control.append(it.organizations[0]!, events);
    proxy.ask = wholeSeconds;
    // The second and third tokens of the read, and the same of the comparison.
    const refused = { reads: 0, comparisons: 0 };
    const tokens = { reads: 0, comparisons: 0 };
    proxy.change = (exchange) => {
      if (exchange.query.search_after === undefined) return;
      const kind = exchange.query.fields === undefined ? "reads" : "comparisons";
      if (++tokens[kind] !== 2 && tokens[kind] !== 4) return;
      refused[kind]++;
      Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"Invalid search_after"}') });
    };
    await it.drain();
    await it.pass(10 * MINUTE, MINUTE);
    expect(refused.reads).toBe(2);
    const ofTheSecond = async () => (await it.windows()).find(({ apiCount }) => (apiCount ?? 0) > 0)!;
    expect(await ofTheSecond()).toMatchObject({ apiCount: 35, heldCount: 35, repeated: 0 });
    await reconcile(it);
    expect(refused.comparisons).toBe(2);
    expect(await ofTheSecond()).toMatchObject({ apiCount: 35, heldCount: 35, repeated: 0 });
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 35 });
  });
});

describe("a service that ignores the end of a range", () => {
  test("R6 cannot move the place of a pass behind its end, where every later request would be refused", async () => {
    ({ world, proxy } = await openProxied({
      simulator: { organizations: 1, events: 0 },
      polling: { pageSize: 10 },
    }));
    const it = world;
    const at = (hours: number, count: number) =>
      Array.from({ length: count }, (_, index) => ({
        timestamp: new Date(START_MS - hours * HOUR + index * 1000).toISOString(),
      }));
    // The oldest window ends a day ago.
    it.simulator.control.append(it.organizations[0]!, [...at(30, 15), ...at(20, 30)]);
    proxy.ask = ({ end_time: _, ...query }) => query;
    let tokens = 0;
    proxy.change = (exchange) => {
      const { search_after, end_time, fields } = exchange.query as Record<string, unknown>;
      if (search_after === undefined || end_time === undefined || fields !== undefined) return;
      if (++tokens !== 2) return;
      Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"Invalid search_after"}') });
      // From now on the service is right, and refuses a start behind the end.
      proxy!.ask = undefined;
    };
    await it.drain();
    await it.pass(10 * MINUTE, MINUTE);
    expect(tokens).toBeGreaterThanOrEqual(2);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 45 });
    expect(await differing(it)).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });
});
