import { expect, test } from "vitest";
import { createWake } from "../../src/core/wake.ts";
import { createFakeClock } from "../support/clock.ts";

const never = new AbortController().signal;

test("a wait ends when it is woken, and not before", async () => {
  const clock = createFakeClock();
  const wake = createWake(clock);
  let ended = false;
  const waiting = wake.wait(1000, never).then(() => {
    ended = true;
  });
  clock.advance(999);
  await clock.settle();
  expect(ended).toBe(false);
  wake.wake();
  await waiting;
  expect(clock.sleepers).toBe(0);
});

test("a wait ends after its time, and when its signal aborts; it never rejects", async () => {
  const clock = createFakeClock();
  const wake = createWake(clock);
  const byTime = wake.wait(1000, never);
  clock.advance(1000);
  await byTime;
  const stop = new AbortController();
  const byAbort = wake.wait(1000, stop.signal);
  stop.abort(new Error("stopped"));
  await byAbort;
  await wake.wait(1000, stop.signal);
  expect(clock.sleepers).toBe(0);
});

test("what happened between looking and waiting is not slept through", async () => {
  const clock = createFakeClock();
  const wake = createWake(clock);
  const mark = wake.mark();
  wake.wake();
  await wake.waitSince(mark, 1_000_000, never);
  expect(clock.sleepers).toBe(0);
});

test("one wake ends every wait", async () => {
  const clock = createFakeClock();
  const wake = createWake(clock);
  const waits = [1000, 2000, 3000].map((ms) => wake.wait(ms, never));
  expect(clock.sleepers).toBe(3);
  wake.wake();
  await Promise.all(waits);
  expect(clock.sleepers).toBe(0);
});
