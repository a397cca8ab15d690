import { afterEach, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy } from "./proxy.ts";
import { DAY, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

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
    if (fields !== undefined && limit === 1)
      Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"search_after has expired"}') });
  };
  await it.drain();
  // The pass left a gap without a name. The comparison that follows shows the name, and the gap gets it.
  expect(await it.journal.gaps()).toMatchObject([{ events: 1, detail: expect.stringContaining("listed") }]);
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
