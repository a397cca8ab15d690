import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { Batch } from "../../src/core/sink.ts";
import { createEncodedMemory } from "../../src/delivery/encoded-memory.ts";
import { eventText, eventTexts } from "../support/pages.ts";
import { runs } from "../support/runs.ts";
import {
  createHarness,
  deliverAll,
  type Harness,
  type HarnessOptions,
  never,
  stepUntilIdle,
} from "./support.ts";

/** Several writes in flight: begun in order, ended in any order, committed in order. */
describe("a sink that takes several writes at once", () => {
  let harness: Harness;
  afterEach(() => harness.close());

  function make(options: HarnessOptions = {}): Harness {
    harness = createHarness({ writesMax: 3, limits: { recordsMax: 2 }, ...options });
    return harness;
  }

  const textsOf = (batch: Batch) => batch.records.map(({ body }) => Buffer.from(body).toString());

  /** Writes that end when the test says so. */
  function gates() {
    const open: ((error?: Error) => void)[] = [];
    harness.destination.otherwise = (_, store) => {
      return new Promise<void>((resolve, reject) => {
        open.push((error) => {
          if (error !== undefined) return reject(error);
          store();
          resolve();
        });
      });
    };
    return open;
  }

  /** Steps until three writes are in flight. The last of these steps waits for the oldest write. */
  async function threeInFlight(delivery: { step(signal: AbortSignal): Promise<unknown> }) {
    await delivery.step(never);
    await delivery.step(never);
    const waiting = delivery.step(never);
    await expect.poll(() => harness.destination.inside).toBe(3);
    return { waiting };
  }

  test("gets as many as it takes, and no more", async () => {
    const { destination, append, start } = make();
    await append(eventTexts(0, 20));
    harness.fixture.reopen();
    const delivery = await start();
    destination.otherwise = async (_, store) => {
      await new Promise((resolve) => setImmediate(resolve));
      store();
    };
    await deliverAll(harness, delivery);
    expect(destination.held).toEqual(eventTexts(0, 20));
    expect(destination.insideMax).toBe(3);
    expect(harness.fixture.memory.heldBytes()).toBe(0);
  });

  test("gets one at a time while all sinks together have no room for encoded events, and goes on", async () => {
    const encodedMemory = { ...createEncodedMemory(), hasRoom: () => false };
    const { destination, append, start } = make({ encodedMemory });
    await append(eventTexts(0, 20));
    await deliverAll(harness, await start());
    expect(destination.held).toEqual(eventTexts(0, 20));
    expect(destination.insideMax).toBe(1);
  });

  test("one that says nothing gets one at a time", async () => {
    const { destination, append, start } = make({ writesMax: undefined });
    await append(eventTexts(0, 10));
    await deliverAll(harness, await start());
    expect([destination.held, destination.insideMax]).toEqual([eventTexts(0, 10), 1]);
  });

  test("R19 the bounds of all writes in flight are durable, each before its write begins", async () => {
    const { destination, append, start, fixture } = make({ boundsFirst: true });
    await append(eventTexts(0, 10));
    const seen: unknown[] = [];
    destination.otherwise = async (batch, store) => {
      seen.push(
        (await fixture.journal.reader("sink")).bounds.map(({ event }) => event).includes(batch.to.event),
      );
      await expect.poll(() => destination.insideMax).toBe(3);
      store();
    };
    const delivery = await start();
    await deliverAll(harness, delivery);
    expect([destination.held.toSorted(), destination.insideMax]).toEqual([eventTexts(0, 10).toSorted(), 3]);
    expect(seen).toEqual([true, true, true, true, true]);
    expect((await fixture.journal.reader("sink")).bounds).toEqual([]);
  });

  test("R19 after a kill all writes in flight are repeated with their own bounds, though more events have come", async () => {
    const { destination, append, start, fixture } = make({ boundsFirst: true });
    await append(eventTexts(0, 5));
    const open = gates();
    await threeInFlight(await start());
    const killed = destination.batches.map(({ from, to }) => ({ from, to }));
    await append(eventTexts(5, 7));
    fixture.reopen();
    destination.otherwise = undefined;
    await deliverAll(harness, await start());
    const repeated = destination.batches.slice(3).map(({ from, to }) => ({ from, to }));
    expect(repeated.slice(0, 3)).toEqual(killed);
    expect(destination.held).toEqual(eventTexts(0, 12));
    for (const end of open) end(new RetryableError("cut"));
  });

  test("R19 a batch behind events for others begins there after a kill too", async () => {
    const { destination, append, start, fixture } = make({
      boundsFirst: true,
      wants: (event) => event.page > 1,
    });
    await append(eventTexts(0, 3));
    const delivery = await start();
    await delivery.step(never);
    await append(eventTexts(3, 2));
    const open = gates();
    void delivery.step(never);
    await expect.poll(() => destination.inside).toBe(1);
    fixture.reopen();
    destination.otherwise = undefined;
    await deliverAll(harness, await start());
    for (const end of open) end(new RetryableError("cut"));
    const [killed, repeated] = destination.batches;
    expect(repeated).toMatchObject({ from: killed!.from, to: killed!.to });
  });

  test("while a batch is cut, the refused ones behind it are not sent again and again", async () => {
    const { destination, append, start } = make({ boundsFirst: true, limits: { recordsMax: 8 } });
    await append(eventTexts(0, 24));
    destination.otherwise = async (batch, store) => {
      const bad = [eventText(5), eventText(13), eventText(21)];
      for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (!textsOf(batch).some((text) => bad.includes(text))) return store();
      const rejected = batch.records.map((_, index) => ({ index, reason: "422" }));
      throw new RejectedEventsError("422", rejected, { isUnnamed: true });
    };
    const delivery = await start();
    await deliverAll(harness, delivery);
    expect(destination.held).toHaveLength(21);
    expect(delivery.status()).toMatchObject({ sentEvents: 21, deadLetters: 3 });
    // All three, then the second and the third, then the third.
    expect(destination.batches.filter((batch) => batch.records.length === 8)).toHaveLength(6);
  });

  test("R19 a receiver that drops repeats has every event once, whatever fails and whenever the process is killed", async () => {
    const outcome = fc.constantFrom(
      "ok",
      "ok",
      "ok",
      "lost answer",
      "retry",
      "large",
      "hang",
      "stored and hang",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(outcome, { maxLength: 30 }),
        fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 1, max: 4 }),
        async (outcomes, delays, writesMax) => {
          const tried = createHarness({
            ...{ writesMax, boundsFirst: true, limits: { recordsMax: 4 } },
            wants: (event) => event.index % 7 < 5,
          });
          const keys = new Set<string>();
          const hanging: (() => void)[] = [];
          let writes = 0;
          tried.destination.otherwise = async (batch, store) => {
            const at = writes++;
            for (let turn = delays[at % delays.length]!; turn > 0; turn--)
              await new Promise((resolve) => setImmediate(resolve));
            const key = JSON.stringify([batch.from, batch.to, textsOf(batch)]);
            const take = () => {
              if (!keys.has(key)) store();
              keys.add(key);
            };
            const hang = () =>
              new Promise((_, reject) => {
                hanging.push(() => reject(new RetryableError("killed")));
              });
            switch (outcomes[at] ?? "ok") {
              case "ok":
                return take();
              case "lost answer":
                take();
                throw new RetryableError("the answer was lost");
              case "retry":
                throw new RetryableError("later");
              case "large":
                // A receiver that has taken a batch before does not find it too large.
                if (batch.records.length === 1 || keys.has(key)) return take();
                throw new TooLargeError("halve it");
              case "hang":
                return hang();
              case "stored and hang":
                take();
                return hang();
            }
          };
          try {
            await tried.append(eventTexts(0, 30));
            await tried.append(eventTexts(30, 10));
            let delivery = await tried.start();
            for (let round = 0; round < 400; round++) {
              const done = delivery.step(never);
              const turns = (async () => {
                for (let turn = 0; turn < 40; turn++) await new Promise((resolve) => setImmediate(resolve));
                return "stuck" as const;
              })();
              const end = await Promise.race([done.catch(() => "again" as const), turns]);
              if (end === "idle") tried.clock.advance(60_000);
              if (end === "stuck" && hanging.length > 0) {
                // The killed process can commit nothing more: its database is closed.
                tried.fixture.reopen();
                for (const stop of hanging.splice(0)) stop();
                await done.catch(() => {});
                delivery = await tried.start();
              }
              const { page, event } = delivery.status().position;
              if (page === 2 && event === 10) break;
            }
            const wanted = [...eventTexts(0, 30), ...eventTexts(30, 10)].filter(
              (_, index) => (index < 30 ? index : index - 30) % 7 < 5,
            );
            expect(tried.destination.held.toSorted()).toEqual(wanted.toSorted());
          } finally {
            await tried.close();
          }
        },
      ),
      { numRuns: runs(20) },
    );
    make();
  });

  test("the position waits for the oldest write, however many later ones have ended", async () => {
    const { append, start } = make();
    await append(eventTexts(0, 6));
    const delivery = await start();
    const open = gates();
    const { waiting } = await threeInFlight(delivery);
    open[2]!();
    open[1]!();
    await new Promise((resolve) => setImmediate(resolve));
    expect(delivery.status().position).toMatchObject({ page: 0, event: 0 });
    open[0]!();
    await waiting;
    expect(delivery.status().position).toMatchObject({ page: 1, event: 2 });
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ position: { page: 1, event: 6 }, sentEvents: 6 });
  });

  test("after an error the failed batch is written again, and those that succeeded behind it are not", async () => {
    const { destination, append, start } = make();
    await append(eventTexts(0, 8));
    harness.fixture.reopen();
    const delivery = await start();
    destination.script.push(async () => {
      await expect.poll(() => destination.batches.length).toBe(3);
      throw new RetryableError("busy");
    });
    await deliverAll(harness, delivery);
    expect(destination.held).toEqual([...eventTexts(2, 4), ...eventTexts(0, 2), ...eventTexts(6, 2)]);
    expect(destination.batches.map((batch) => textsOf(batch)[0])).toEqual(
      [0, 2, 4, 0, 6].map((index) => eventText(index)),
    );
    expect(delivery.status().sentEvents).toBe(8);
    expect(harness.fixture.memory.heldBytes()).toBe(0);
  });

  test("no write begins after one has failed until all others have ended", async () => {
    const { destination, append, start } = make();
    await append(eventTexts(0, 12));
    const delivery = await start();
    const open = gates();
    const { waiting } = await threeInFlight(delivery);
    open[1]!(new RetryableError("busy"));
    open[0]!();
    await waiting;
    const failing = delivery.step(never);
    await new Promise((resolve) => setImmediate(resolve));
    expect(destination.batches).toHaveLength(3);
    open[2]!();
    await failing;
    expect(delivery.status()).toMatchObject({ state: "retrying", position: { event: 2 } });
  });

  test("a batch that is too large is halved, and a refused event buried, while others are in flight", async () => {
    const { destination, append, start } = make({ limits: { recordsMax: 4 } });
    await append(eventTexts(0, 16));
    const delivery = await start();
    destination.otherwise = (batch, store) => {
      const at = textsOf(batch).indexOf(eventText(5));
      if (at >= 0 && batch.records.length > 1) throw new TooLargeError("halve it");
      if (at >= 0) throw new RejectedEventsError("no", [{ index: at, reason: "refused" }], { remaining: [] });
      store();
    };
    await deliverAll(harness, delivery);
    const rest = eventTexts(0, 16).filter((text) => text !== eventText(5));
    expect(destination.held.toSorted()).toEqual(rest.toSorted());
    expect(delivery.status().deadLetters).toBe(1);
  });

  test("events that come while a write is in flight do not wait for it", async () => {
    const { destination, append, start } = make();
    await append(eventTexts(0, 1));
    const delivery = await start();
    const open = gates();
    const stop = new AbortController();
    const running = delivery.run(stop.signal);
    await expect.poll(() => destination.inside).toBe(1);
    await append(eventTexts(1, 1));
    delivery.tryNow();
    await expect.poll(() => destination.inside).toBe(2);
    for (const end of open) end();
    await expect.poll(() => delivery.status().sentEvents).toBe(2);
    stop.abort();
    await running;
  });

  test("closing lets the writes in flight end and commits those that succeeded first", async () => {
    const { append, start } = make();
    await append(eventTexts(0, 6));
    harness.fixture.reopen();
    const delivery = await start();
    const open = gates();
    const { waiting } = await threeInFlight(delivery);
    const closed = delivery.close();
    open[2]!();
    open[1]!(new RetryableError("cut"));
    open[0]!();
    await waiting;
    await closed;
    expect(delivery.status().position).toMatchObject({ page: 1, event: 2 });
    harness.destination.otherwise = undefined;
    await deliverAll(harness, await start());
    expect(harness.fixture.memory.heldBytes()).toBe(0);
  });

  test("a process that ends with writes in flight repeats those at most, and loses nothing", async () => {
    const { destination, append, start } = make();
    await append(eventTexts(0, 10));
    const first = await start();
    const open = gates();
    const { waiting } = await threeInFlight(first);
    open[0]!();
    await waiting;
    // The second and third batch are stored, but the process ends before it learns that.
    const stored = destination.batches.slice(1, 3).flatMap(textsOf);
    destination.held.push(...stored);
    destination.otherwise = undefined;
    await deliverAll(harness, await start());
    expect(new Set(destination.held)).toEqual(new Set(eventTexts(0, 10)));
    const repeated = destination.held.filter((text, at) => destination.held.indexOf(text) < at);
    expect(repeated.every((text) => stored.includes(text))).toBe(true);
    for (const end of open.slice(1)) end();
  });

  test("whatever fails: nothing is lost, nothing that succeeded is repeated, no position passes an unwritten event", async () => {
    const outcome = fc.constantFrom("ok", "ok", "ok", "retry", "half", "large");
    await fc.assert(
      fc.asyncProperty(
        fc.array(outcome, { maxLength: 25 }),
        fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 1, max: 5 }),
        async (outcomes, delays, writesMax) => {
          const tried = createHarness({
            writesMax,
            limits: { recordsMax: 4 },
            // Some events are for others, so that positions also pass stretches without a write.
            wants: (event) => event.index % 5 !== 3,
          });
          try {
            await tried.append(eventTexts(0, 30));
            await tried.append(eventTexts(30, 10));
            tried.fixture.reopen();
            const delivery = await tried.start();
            let writes = 0;
            tried.destination.otherwise = async (batch, store) => {
              const at = writes++;
              for (let turn = delays[at % delays.length]!; turn > 0; turn--)
                await new Promise((resolve) => setImmediate(resolve));
              const all = batch.records.map((_, index) => index);
              switch (outcomes[at] ?? "ok") {
                case "ok":
                  return store();
                case "retry":
                  throw new RetryableError("later");
                case "half":
                  store(all.slice(0, 1));
                  throw new RetryableError("half", { remaining: all.slice(1) });
                case "large":
                  if (all.length === 1) return store();
                  throw new TooLargeError("halve it");
              }
            };
            const wanted = [...eventTexts(0, 30), ...eventTexts(30, 10)].filter(
              (_, index) => (index < 30 ? index : index - 30) % 5 !== 3,
            );
            for (let round = 0; round < 300; round++) {
              if ((await delivery.step(never)) === "idle") tried.clock.advance(60_000);
              const { page, event } = delivery.status().position;
              const passed = page === 0 ? 0 : page === 1 ? event : 30 + event;
              const held = new Set(tried.destination.held);
              const due = wanted.filter(
                (text) => [...eventTexts(0, 30), ...eventTexts(30, 10)].indexOf(text) < passed,
              );
              expect(due.every((text) => held.has(text))).toBe(true);
              if (passed === 40) break;
            }
            await stepUntilIdle(delivery);
            expect(tried.destination.held.toSorted()).toEqual(wanted.toSorted());
            expect(delivery.status().sentEvents).toBe(wanted.length);
            expect(tried.fixture.memory.heldBytes()).toBe(0);
          } finally {
            await tried.close();
          }
        },
      ),
      { numRuns: runs(4) },
    );
    make();
  });
});
