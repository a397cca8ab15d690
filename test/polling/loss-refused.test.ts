import { afterEach, expect, test } from "vitest";
import { createView } from "../../src/journal/view/view.ts";
import { COMPLETE, DAY, HOUR, MINUTE, openWorld, START_MS, type World } from "./support.ts";

let world: World | undefined;
afterEach(() => world?.close());

async function lossInMs(it: World): Promise<number | null> {
  const view = createView(it.db, null, {
    ...{ clock: it.clock, version: "1", file: `${it.folder}/tidemark.db`, budgetBytes: null },
    ...{ sinkBehindMs: HOUR, accounts: [{ name: "acme", retentionMs: 3 * DAY }], sinks: [] },
  });
  return (await view.status()).accounts[0]!.lossInMs;
}

test("while the service refuses the account, the hours until events are lost are counted", async () => {
  world = await openWorld({
    simulator: { organizations: 2, events: 40, days: 1 },
    account: { retention: "3d", since: "2d" },
  });
  const it = world;
  const lossNear = () => it.alarms().find(({ kind }) => kind === "loss_near");
  await it.drain();
  expect(await lossInMs(it)).toBeNull();
  it.simulator.control.faults.add({ kind: "status", status: 401, api: "insights" });
  it.simulator.control.faults.add({ kind: "status", status: 401, api: "management" });
  await it.pass(23 * HOUR, 30 * MINUTE);
  expect(lossNear()).toBeUndefined();
  const leftMs = START_MS + 3 * DAY - it.clock.now();
  expect(Math.abs((await lossInMs(it))! - leftMs)).toBeLessThan(10 * MINUTE);
  await it.pass(2 * HOUR, 30 * MINUTE);
  expect(lossNear()).toMatchObject({ severity: "warning", message: expect.stringContaining("1d 23h") });
  await it.pass(36 * HOUR, 30 * MINUTE);
  expect(lossNear()).toMatchObject({ severity: "critical", message: expect.stringContaining("11h") });
  it.simulator.control.faults.clear();
  await it.pass(2 * HOUR, 5 * MINUTE);
  expect(it.alarms()).toEqual([]);
  expect(await lossInMs(it)).toBeNull();
  expect(await it.compare()).toMatchObject(COMPLETE);
});
