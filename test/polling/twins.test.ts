import { afterEach, expect, test } from "vitest";
import { type AnswerProxy, startProxy } from "./proxy.ts";
import { COMPLETE, openWorld, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

const AT = "2025-02-27T00:00:00.000Z";

/** Sixteen events of one moment; a twin of the eleventh is before it, and is hidden at first. */
async function openTwins(): Promise<World> {
  world = await openWorld({ simulator: { organizations: 1, events: 0 } });
  proxy = await startProxy(world.simulator.insightsUrl);
  await world.restart({ account: { insightsUrl: proxy.url } });
  const [organization] = world.organizations as [string];
  const text = (id: string, note: string) =>
    `{"id":"${id}","service":"sso","event_type":"x","timestamp":"${AT}","organization":"${organization}","note":"${note}"}`;
  const before = Array.from({ length: 9 }, (_, at) => text(`a${at}`, ""));
  const after = Array.from({ length: 5 }, (_, at) => text(`z${at}`, ""));
  world.simulator.control.append(organization, [...before, text("m", "late"), text("m", "first"), ...after]);
  proxy.change = (exchange) => {
    if (!exchange.path.endsWith("/events")) return;
    const events = JSON.parse(exchange.body.toString()) as { note?: string }[];
    const left = events.filter(({ note }) => note !== "late");
    exchange.body = Buffer.from(JSON.stringify(left));
    exchange.headers["x-result-count"] = String(left.length);
  };
  await world.drain();
  expect(await world.held()).toHaveLength(15);
  proxy.change = undefined;
  await world.restart({ account: { insightsUrl: proxy.url }, polling: { pageSize: 10 } });
  return world;
}

async function counts(it: World): Promise<[number, number]> {
  const windows = (await it.windows()).filter(({ live }) => !live);
  const sum = (key: "apiCount" | "heldCount") => windows.reduce((total, window) => total + window[key]!, 0);
  return [sum("apiCount"), sum("heldCount")];
}

test("R10 a sweep finds a late twin that is before the held event, at the edge of a page", async () => {
  const it = await openTwins();
  await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
  await it.drain();
  expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 16 });
  expect(await counts(it)).toEqual([16, 16]);
});

test("R10 a whole pass finds it too, and counts every event once", async () => {
  const it = await openTwins();
  const whole = (await it.windows()).filter(({ live }) => !live);
  await it.journal.changeWindows({
    put: whole.map((window) => ({ ...window, state: "unread" as const, pass: null })),
  });
  await it.drain();
  expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 16 });
  expect(await counts(it)).toEqual([16, 16]);
});
