// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy } from "./proxy.ts";
import { COMPLETE, HOUR, MINUTE, type World, type WorldOptions } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

interface Listed {
  readonly timestamp: string;
}

/** `left` says what the service shows of the events that it has. */
async function open(
  options: WorldOptions,
  left: (events: readonly Listed[], headers: Record<string, string>) => readonly Listed[],
) {
  ({ world, proxy } = await openProxied(options));
  proxy.change = (exchange) => {
    if (!exchange.path.endsWith("/events") || exchange.status !== 200) return;
    const events = JSON.parse(exchange.body.toString()) as Listed[];
    const shown = left(events, exchange.headers);
    if (shown.length === events.length) return;
    exchange.body = Buffer.from(JSON.stringify(shown));
    exchange.headers["x-result-count"] = String(shown.length);
  };
  return world;
}

test.each(["89d", "90d"])(
  "R31 history since %s that one answer cut short is complete a day later",
  async (since) => {
    let isShort = true;
    const simulator = { organizations: 1, events: 600, days: 89 };
    const it = await open({ simulator, account: { since } }, (events) => {
      if (!isShort || events.length < 100) return events;
      isShort = false;
      return events.slice(0, 50);
    });
    await it.drain();
    expect((await it.held()).length).toBeLessThan(300);
    await it.pass(26 * HOUR, 30 * MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
  },
);

test("R31 a dense history from a replica that was behind for hours is complete a day later, its first page too", async () => {
  let isBehind = true;
  const simulator = { organizations: 1, events: 1500, days: 50 };
  const options = { simulator, account: { since: "55d" }, polling: { pageSize: 100 } };
  const isLacking = ({ timestamp }: Listed) => Math.floor(Date.parse(timestamp) / 1000) % 10 === 0;
  const it = await open(options, (events, headers) => {
    if (!isBehind) return events;
    const shown = events.filter((event) => !isLacking(event));
    // A full page stays full.
    if (headers["x-limit"] === String(events.length)) headers["x-limit"] = String(shown.length);
    return shown;
  });
  await it.drain();
  expect((await it.held()).length).toBeLessThan(it.served().length - 50);
  await it.pass(6 * HOUR, 30 * MINUTE);
  isBehind = false;
  await it.pass(22 * HOUR, 30 * MINUTE);
  // The proxy writes some numbers differently, so the bytes are not compared.
  expect(await it.held()).toHaveLength(it.served().length);
});
