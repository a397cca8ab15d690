import { afterEach, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import { eventTexts } from "../support/pages.ts";
import { createHarness, type Harness, never, stepUntilIdle } from "./support.ts";

let harness: Harness;
afterEach(() => harness.close());

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
