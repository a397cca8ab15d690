import { afterEach, expect, test } from "vitest";
import { COMPLETE, DAY, HOUR, MINUTE, openWorld, type World } from "./support.ts";

let world: World | undefined;
afterEach(async () => await world?.close());

async function openShort(): Promise<World> {
  world = await openWorld({
    simulator: { organizations: 2, events: 0, liveEventsPerSecond: 0.01 },
    account: { since: "1h", retention: "5d" },
  });
  await world.drain();
  await world.pass(2 * HOUR, 10 * MINUTE);
  return world;
}

test("R29 an account that is renamed goes on where it ended, however short `since` is", async () => {
  const it = await openShort();
  it.simulator.control.clock.advance(DAY);
  await it.restart({ account: { name: "renamed", since: "1h", retention: "5d" } });
  await it.drain();
  expect(await it.compare()).toMatchObject(COMPLETE);
  expect(await it.journal.gaps()).toEqual([]);
  await isCountedOnce(it);
});

/** The windows of an organization share no time, whatever account read them: their counts can be summed. */
async function isCountedOnce(it: World): Promise<void> {
  const windows = (await it.windows()).filter(({ live }) => !live);
  expect(windows.length).toBeGreaterThan(0);
  for (const id of it.organizations) {
    const own = windows.filter(({ stream }) => stream.organizations.includes(id));
    const sorted = own.sort((a, b) => a.fromMs - b.fromMs);
    for (const [at, { fromMs }] of sorted.slice(1).entries())
      expect(fromMs).toBeGreaterThanOrEqual(sorted[at]!.toMs);
  }
}

test("R36 the windows of a stopped program share no time with those of its next run", async () => {
  const it = await openShort();
  for (let run = 0; run < 3; run++) {
    it.simulator.control.clock.advance(2 * HOUR);
    await it.restart();
    await it.drain();
  }
  expect(await it.compare()).toMatchObject(COMPLETE);
  await isCountedOnce(it);
});

test("R29 what the service has forgotten meanwhile is a gap", async () => {
  const it = await openShort();
  const stoppedMs = it.clock.now();
  it.simulator.control.clock.advance(7 * DAY);
  await it.restart({ account: { name: "renamed", since: "1h", retention: "5d" } });
  await it.drain();
  const gaps = await it.journal.gaps({ account: "renamed" });
  expect(gaps).toHaveLength(2);
  for (const gap of gaps) {
    expect(gap).toMatchObject({ reason: "expired" });
    expect(gap.fromMs).toBeLessThan(stoppedMs);
    expect(gap.toMs).toBeGreaterThan(it.clock.now() - 5 * DAY);
  }
});

/** The account has another name for longer than the service keeps events. */
async function openRenamed(): Promise<World> {
  const it = await openShort();
  // Its windows are sealed: the other name does not take them over, and they are there when the first one is back.
  await it.pass(3 * DAY, 6 * HOUR);
  await it.restart({ account: { name: "renamed", since: "1h", retention: "5d" } });
  await it.drain();
  await it.pass(8 * DAY, 6 * HOUR);
  return it;
}

test("R29 an account that gets its former name back has lost nothing that was read under the other one", async () => {
  const it = await openRenamed();
  await it.restart({ account: { since: "1h", retention: "5d" } });
  await it.drain();
  // The last comparison before the service forgot the time of the first name was made under neither.
  expect((await it.journal.gaps()).filter(({ reason }) => reason !== "unchecked")).toEqual([]);
  expect(await it.compare()).toMatchObject(COMPLETE);
});

test("R29 but the time that was read under neither name is a gap", async () => {
  const it = await openRenamed();
  const stoppedMs = it.clock.now();
  it.simulator.control.clock.advance(7 * DAY);
  await it.restart({ account: { since: "1h", retention: "5d" } });
  await it.drain();
  const gaps = await it.journal.gaps({ reasons: ["expired"] });
  expect(gaps).toHaveLength(2);
  for (const gap of gaps) {
    // Time that was not compared for the last time counts as not read.
    expect(gap.fromMs).toBeGreaterThan(stoppedMs - 2 * DAY);
    expect(gap.fromMs).toBeLessThanOrEqual(stoppedMs);
    expect(gap.toMs).toBeGreaterThan(it.clock.now() - 5 * DAY);
  }
});

test("an account that is new beside another one begins at its own `since`", async () => {
  const it = await openShort();
  const nowMs = it.clock.now();
  const two = [
    { name: "acme", since: "1h" },
    { name: "second", since: "1h" },
  ];
  await it.restart({ account: { since: "1h" }, accounts: two });
  await it.drain();
  const own = (await it.windows()).filter(({ stream }) => stream.account === "second");
  expect(Math.min(...own.map(({ fromMs }) => fromMs))).toBeGreaterThanOrEqual(nowMs - HOUR - MINUTE);
});
