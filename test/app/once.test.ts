import { expect, test } from "vitest";
import { createLoops } from "../../src/app/loops.ts";
import { type OnceParts, pullAndDrain } from "../../src/app/once.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createWake } from "../../src/core/wake.ts";

function partsOf(over: {
  readonly pull?: (() => Promise<void>)[];
  readonly drain?: ((signal: AbortSignal) => Promise<void>)[];
}): OnceParts {
  const wake = createWake(systemClock);
  let draining = false;
  return {
    accounts: (over.pull ?? []).map((once) => ({ name: "a", poller: { once } })) as never,
    deliveries: (over.drain ?? []).map((drain) => ({ drain })),
    followers: [],
    archives: [],
    loops: createLoops(systemClock, wake),
    wake,
    startDraining: () => {
      draining = true;
    },
    isDraining: () => draining,
    upkeep: () => [],
  };
}

const never = new AbortController().signal;

test("R39 a sink that cannot go on stops neither the others nor the reading, and is named at the end", async () => {
  const done: string[] = [];
  let pull = () => {};
  const pulling = new Promise<void>((resolve) => {
    pull = resolve;
  });
  const parts = partsOf({
    pull: [() => pulling.then(() => void done.push("pulled"))],
    drain: [
      () => Promise.reject(new Error('The sink "dead" is paused: wrong token')),
      async () => {
        await pulling;
        done.push("delivered");
      },
    ],
  });
  const once = pullAndDrain(parts, never);
  await new Promise((resolve) => setImmediate(resolve));
  pull();
  await expect(once).rejects.toThrow('The sink "dead" is paused: wrong token');
  expect(done.toSorted()).toEqual(["delivered", "pulled"]);
});

test("R39 everything that failed is named: two sinks, and an account whose key is refused", async () => {
  const fail = (message: string) => () => Promise.reject(new Error(message));
  const parts = partsOf({ pull: [fail("refused key")], drain: [fail("one"), fail("two")] });
  await expect(pullAndDrain(parts, never)).rejects.toThrow(
    /(?=.*one two)(?=.*account "a" could not be read: refused key)/,
  );
  expect(parts.isDraining()).toBe(true);
});

test("R39 an end by a signal is a failure", async () => {
  const stop = new AbortController();
  const parts = partsOf({
    drain: [
      (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    ],
  });
  const once = pullAndDrain(parts, stop.signal);
  stop.abort(new Error("stopped by SIGTERM"));
  await expect(once).rejects.toThrow("stopped by SIGTERM");
});

test("R39 a full disk ends the run: a reader of the program itself gives up like a sink", async () => {
  let nowMs = 0;
  const sleep = async (ms: number) => {
    nowMs += ms;
    await new Promise((resolve) => setImmediate(resolve));
  };
  const clock = { now: () => nowMs, sleep };
  const wake = createWake(clock);
  const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
  const follower = { step: () => Promise.reject(full), isSettled: false } as never;
  const parts = { ...partsOf({}), followers: [follower], wake, loops: createLoops(clock, wake) };
  await expect(pullAndDrain(parts, never)).rejects.toThrow("could not store its place");
  expect(nowMs).toBeGreaterThanOrEqual(60_000);
});
