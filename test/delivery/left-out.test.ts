import { afterEach, describe, expect, test } from "vitest";
import { RejectedEventsError, RetryableError } from "../../src/core/errors.ts";
import type { BatchLimits } from "../../src/core/sink.ts";
import { createDeadLetters } from "../../src/journal/dead-letters.ts";
import { eventText, eventTexts } from "../support/pages.ts";
import { createHarness, deliverAll, type Harness, type HarnessOptions, stepUntilIdle } from "./support.ts";

const LARGE = eventText(1, { padding: "x".repeat(5000) });
const TEXTS = [eventText(0), LARGE, eventText(2), eventText(3)];
const OTHERS = TEXTS.filter((text) => text !== LARGE);

const KINDS: readonly HarnessOptions[] = [
  { guarantee: "at_least_once" },
  { guarantee: "at_least_once", boundsFirst: true },
  { guarantee: "exactly_once" },
  { guarantee: "exactly_once", boundsFirst: true },
];

describe.each(KINDS)("R18 events that became dead letters before their batch was committed, %j", (kind) => {
  let harness: Harness;
  afterEach(() => harness.close());
  const letters = () => createDeadLetters(harness.fixture.db);
  const fails = () => {
    throw new RetryableError("down");
  };

  /** Delivers until the destination's error holds the batch up, then ends as a process does. */
  async function runInto(fault: () => void): Promise<void> {
    harness.destination.otherwise = fault;
    const delivery = await harness.start();
    await stepUntilIdle(delivery);
    await delivery.close();
    harness.destination.otherwise = undefined;
    expect(harness.destination.held).toEqual([]);
  }

  test("one that was too large stays out when the limit is raised, and a replay delivers it once", async () => {
    const limits: { -readonly [Key in keyof BatchLimits]?: BatchLimits[Key] } = { bytesMax: 4000 };
    harness = createHarness({ ...kind, limits });
    await harness.append(TEXTS);
    await runInto(fails);
    expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);

    limits.bytesMax = 100_000;
    const delivery = await harness.start();
    await deliverAll(harness, delivery);
    expect(harness.destination.held).toEqual(OTHERS);
    expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);

    expect(await letters().replay({}, harness.fixture.journal.pages)).toBe(1);
    await harness.append(eventTexts(10, 2));
    await deliverAll(harness, delivery);
    expect(harness.destination.held).toEqual([...OTHERS, LARGE, ...eventTexts(10, 2)]);
    expect(letters().counts()).toEqual([]);
  });

  test("a batch that was begun keeps an event that a lower limit would keep out", async () => {
    const limits: { -readonly [Key in keyof BatchLimits]?: BatchLimits[Key] } = { bytesMax: 100_000 };
    harness = createHarness({ ...kind, limits });
    await harness.append(TEXTS);
    await runInto(fails);
    limits.bytesMax = 4000;
    await deliverAll(harness, await harness.start());
    // Without a durable bound the batch was not begun.
    expect(harness.destination.held).toEqual(kind.boundsFirst ? TEXTS : OTHERS);
    expect(letters().counts()).toEqual(kind.boundsFirst ? [] : [{ sink: "sink", count: 1 }]);
  });

  test("one that could not be encoded stays out when its format is repaired", async () => {
    let isBroken = true;
    harness = createHarness({
      ...kind,
      encode(event) {
        if (isBroken && event.index === 1) throw new Error("a defect");
        return Buffer.from(event.bytes).toString();
      },
    });
    await harness.append(TEXTS);
    await runInto(fails);
    isBroken = false;
    await deliverAll(harness, await harness.start());
    expect(harness.destination.held).toEqual(OTHERS);
    expect(letters().list({}, 9)).toMatchObject([{ reason: "it could not be encoded: a defect" }]);
  });

  test("one that the destination refused is sent again with its batch, and is no dead letter once it is taken", async () => {
    harness = createHarness(kind);
    const { db } = harness.fixture;
    await harness.append(TEXTS);
    // The process ends between the dead letter and the position.
    db.exec("CREATE TRIGGER full BEFORE UPDATE OF page ON readers BEGIN SELECT RAISE(ABORT, 'no room'); END");
    await runInto(() => {
      throw new RejectedEventsError("no", [{ index: 1, reason: "no" }]);
    });
    db.exec("DROP TRIGGER full");
    expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);
    await deliverAll(harness, await harness.start());
    expect(harness.destination.held).toEqual(TEXTS);
    expect(letters().counts()).toEqual([]);
  });

  test("one that the destination refuses again stays a dead letter", async () => {
    harness = createHarness(kind);
    const { db } = harness.fixture;
    await harness.append(TEXTS);
    db.exec("CREATE TRIGGER full BEFORE UPDATE OF page ON readers BEGIN SELECT RAISE(ABORT, 'no room'); END");
    const refuses = () => {
      throw new RejectedEventsError("no", [{ index: 1, reason: "no" }]);
    };
    await runInto(refuses);
    db.exec("DROP TRIGGER full");
    harness.destination.otherwise = refuses;
    await deliverAll(harness, await harness.start());
    expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);
  });

  test("a dead letter of another event at the same place leaves nothing out", async () => {
    harness = createHarness({ ...kind, limits: { bytesMax: 4000 } });
    await harness.append([eventText(0), LARGE]);
    await runInto(fails);
    harness.fixture.db.exec("UPDATE dead_letters SET event = 0");
    await deliverAll(harness, await harness.start());
    // The batch was begun, and nothing says any more that the large event was not in it.
    expect(harness.destination.held).toEqual(kind.boundsFirst ? [eventText(0), LARGE] : [eventText(0)]);
  });

  test("one becomes a dead letter with its batch, not while that waits, and once; it can be deleted when that is delivered", async () => {
    harness = createHarness({ ...kind, limits: { bytesMax: 4000, ageMsMax: 60_000 } });
    await harness.append(TEXTS);
    harness.destination.otherwise = fails;
    const delivery = await harness.start();
    await stepUntilIdle(delivery);
    expect(letters().counts()).toEqual([]);
    await harness.clock.advance(60_000);
    await stepUntilIdle(delivery);
    expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);
    expect(await letters().drop({})).toBe(0);
    expect(await letters().replay({}, harness.fixture.journal.pages)).toBe(0);
    await harness.clock.advance(60_000);
    await stepUntilIdle(delivery);
    expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);
    harness.destination.otherwise = undefined;
    await harness.clock.advance(600_000);
    await stepUntilIdle(delivery);
    expect(harness.destination.held).toEqual(OTHERS);
    expect(await letters().drop({})).toBe(1);
    await delivery.close();
  });
});
