import { afterEach, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import { type AnswerProxy, type Exchange, startProxy } from "./proxy.ts";
import { COMPLETE, HOUR, MINUTE, SECOND, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
let list: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
  await list?.close();
  list = undefined;
});

async function open(isBad: (exchange: Exchange, bad: string) => boolean): Promise<World> {
  const simulator = { organizations: 3, events: 120, days: 1 };
  ({ world, proxy } = await openProxied({
    simulator,
    polling: { discovery: "1m" },
  }));
  proxy.change = (exchange) => {
    if (isBad(exchange, world!.organizations[1]!))
      Object.assign(exchange, { status: 500, body: Buffer.from("{}") });
  };
  return world;
}

const failing = (it: World) => it.alarms().filter(({ kind }) => kind === "window_failing");

function startOf({ query }: Exchange): number {
  return Date.parse((query as { start_time?: string }).start_time ?? "");
}

test("the alarm about a stretch that fails is not cleared by polls that work, and ends when the stretch is read", async () => {
  const it = await open(
    (exchange, bad) => exchange.organizations.includes(bad) && startOf(exchange) < START_MS - HOUR,
  );
  await it.drain();
  await it.pass(5 * MINUTE, 5 * SECOND);
  expect(failing(it)).toMatchObject([{ subject: `acme/${it.organizations[1]}` }]);
  const { sinceMs } = failing(it)[0]!;
  for (let samples = 0; samples < 60; samples++) {
    await it.pass(10 * SECOND);
    expect(failing(it)).toMatchObject([{ sinceMs }]);
  }
  proxy!.change = undefined;
  // Waits between tries are random.
  for (let minutes = 0; minutes < 60 && failing(it).length > 0; minutes++) await it.pass(MINUTE, 10 * SECOND);
  expect(failing(it)).toEqual([]);
  expect(await it.compare()).toMatchObject(COMPLETE);
});

test("the alarm about an organization that fails ends when the service no longer lists it", async () => {
  const it = await open((exchange, bad) => exchange.organizations.includes(bad));
  list = await startProxy(it.simulator.managementUrl);
  const managementUrl = list.url + new URL(it.simulator.managementUrl).pathname;
  await it.restart({ account: { insightsUrl: proxy!.url, managementUrl } });
  await it.drain();
  await it.pass(5 * MINUTE, 5 * SECOND);
  expect(failing(it)).toMatchObject([{ subject: `acme/${it.organizations[1]}` }]);
  list.change = (exchange) => {
    const { results } = JSON.parse(exchange.body.toString()) as { results: { _id: string }[] };
    const left = results.filter(({ _id }) => _id !== it.organizations[1]);
    exchange.body = Buffer.from(JSON.stringify({ results: left, totalCount: left.length }));
  };
  await it.pass(2 * MINUTE, 10 * SECOND);
  expect(failing(it)).toEqual([]);
});
