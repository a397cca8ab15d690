import { afterEach, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import { eventTexts } from "../support/pages.ts";
import { createHarness, type Harness, never, stepUntilIdle } from "./support.ts";

let harness: Harness;
let endWrites = () => {};
afterEach(() => {
  endWrites();
  return harness.close();
});

/** A sink that opens when the test says so. */
function slowSink() {
  harness = createHarness({ guarantee: "exactly_once" });
  let [opened, failed] = [() => {}, (_: Error) => {}];
  const opening = new Promise<void>((resolve, reject) => {
    [opened, failed] = [resolve, reject];
  });
  harness.destination.openScript.push(() => opening);
  const lines = () => harness.log.filter(({ sentence }) => sentence.startsWith("A sink takes long"));
  return { ...harness, opened, failed, lines };
}

test("an opening that takes long is reported after ten seconds, with what it waits for", async () => {
  const { clock, destination, append, start, opened, lines } = slowSink();
  await append(eventTexts(0, 2));
  const delivery = await start();
  const step = delivery.step(never);
  await clock.settle();
  destination.opened[0]!.waitsFor!("the brokers");
  clock.advance(9_999);
  await clock.settle();
  expect(lines()).toEqual([]);
  expect(delivery.status().reason).toBeNull();
  clock.advance(1);
  await clock.settle();
  expect(lines()).toMatchObject([{ level: "warn", fields: { waitingFor: "the brokers", tookMs: 10_000 } }]);
  expect(delivery.status()).toMatchObject({
    state: "opening",
    reason: "It has been opening for more than 10s and waits for the brokers.",
  });
  for (let second = 0; second < 35; second++) {
    clock.advance(1000);
    await clock.settle();
  }
  expect(lines().map(({ fields }) => fields.tookMs)).toEqual([10_000, 20_000, 40_000]);
  opened();
  await step;
  expect(delivery.status().reason).toBeNull();
  await stepUntilIdle(delivery);
  expect(destination.held).toHaveLength(2);
  clock.advance(600_000);
  await clock.settle();
  expect(lines()).toHaveLength(3);
});

test("the reason of a failure stays while the sink is opened again", async () => {
  const { clock, destination, append, start, failed, lines } = slowSink();
  let openAgain = () => {};
  const again = new Promise<void>((resolve) => {
    openAgain = resolve;
  });
  destination.openScript.push(() => again);
  await append(eventTexts(0, 1));
  const delivery = await start();
  const first = delivery.step(never);
  failed(new RetryableError("The broker is gone."));
  await first;
  clock.advance(1000);
  const second = delivery.step(never);
  await clock.settle();
  clock.advance(10_000);
  await clock.settle();
  expect(lines()).toHaveLength(1);
  expect(delivery.status()).toMatchObject({ state: "retrying", reason: "The broker is gone." });
  openAgain();
  await second;
});

/** Writes that end when the test says so, at most three at once. */
async function slowWrites() {
  harness = createHarness({ writesMax: 3, limits: { recordsMax: 1 } });
  const { clock, destination } = harness;
  const writes: ((error?: Error) => void)[] = [];
  destination.otherwise = (_, store) =>
    new Promise<void>((resolve, reject) => {
      writes.push((error) => (error === undefined ? resolve(store()) : reject(error)));
    });
  const lines = () => harness.log.filter(({ sentence }) => sentence.startsWith("A sink takes long to write"));
  const delivery = await harness.start();
  const loop = new AbortController();
  delivery.run(loop.signal).catch(() => {});
  endWrites = () => {
    loop.abort();
    for (const end of writes.splice(0)) end();
  };
  const pass = async (ms: number) => {
    for (let leftMs = ms; leftMs > 0; leftMs -= 1000) {
      clock.advance(Math.min(1000, leftMs));
      await clock.settle();
    }
  };
  return { ...harness, delivery, writes, lines, pass };
}

test("a write of a sink that does not say what it waits for waits for the destination", async () => {
  const { append, delivery, writes, pass } = await slowWrites();
  await append(eventTexts(0, 1));
  await pass(35_000);
  expect(delivery.status().reason).toBe(
    "It has been writing for more than 30s and waits for the destination.",
  );
  while (writes.length > 0) writes.shift()!();
  await pass(1_000);
});

test("a write that takes long is reported once for all that are in flight, until one of them ends", async () => {
  const { destination, append, delivery, writes, lines, pass } = await slowWrites();
  await append(eventTexts(0, 4));
  await pass(2_000);
  expect(writes).toHaveLength(3);
  destination.opened[0]!.waitsFor!("the brokers");
  await pass(26_000);
  expect(lines()).toEqual([]);
  await pass(5_000);
  expect(lines()).toMatchObject([{ level: "warn", fields: { waitingFor: "the brokers", tookMs: 30_000 } }]);
  expect(delivery.status()).toMatchObject({
    reason: "It has been writing for more than 30s and waits for the brokers.",
    remedy: expect.stringContaining("Nothing is lost."),
  });
  await pass(30_000);
  expect(lines().map(({ fields }) => fields.tookMs)).toEqual([30_000, 60_000]);
  writes.shift()!();
  await pass(1_000);
  expect(delivery.status()).toMatchObject({ state: "running", reason: null });
  while (destination.held.length < 4) {
    writes.shift()?.();
    await pass(1_000);
  }
  await pass(600_000);
  expect(lines()).toHaveLength(2);
});

test("a destination that is slow but goes on is reported once", async () => {
  const { append, delivery, writes, lines, pass } = await slowWrites();
  await append(eventTexts(0, 9));
  await pass(2_000);
  for (let write = 0; write < 4; write++) {
    await pass(14_000);
    writes.shift()!();
  }
  expect(lines()).toEqual([]);
  for (let write = 0; write < 4; write++) {
    await pass(45_000);
    writes.shift()!();
  }
  expect(lines().map(({ fields }) => fields.tookMs)).toEqual([30_000]);
  expect(delivery.status().reason).toBeNull();
});

test("the reason of a failure stays while the batch is written again", async () => {
  const { append, delivery, writes, lines, pass } = await slowWrites();
  await append(eventTexts(0, 1));
  await pass(2_000);
  writes.shift()!(new RetryableError("The broker is gone."));
  await pass(40_000);
  expect([writes.length, lines().length]).toEqual([1, 1]);
  expect(delivery.status()).toMatchObject({ state: "retrying", reason: "The broker is gone." });
});
