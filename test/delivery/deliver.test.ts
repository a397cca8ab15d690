import { afterEach, describe, expect, test } from "vitest";
import {
  DecisionNeededError,
  PausedError,
  RejectedEventsError,
  RetryableError,
  TooLargeError,
  UsageError,
} from "../../src/core/errors.ts";
import type { Batch } from "../../src/core/sink.ts";
import { resolutionOf } from "../../src/delivery/position.ts";
import { raw } from "../../src/formats/raw.ts";
import { createDeadLetters } from "../../src/journal/dead-letters.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { eventText, eventTexts, ORGANIZATION, OTHER_ORGANIZATION, readTexts } from "../support/pages.ts";
import {
  createHarness,
  deliverAll,
  type Harness,
  type HarnessOptions,
  never,
  stepUntilIdle,
} from "./support.ts";

const BOTH = ["at_least_once", "exactly_once"] as const;

describe("delivery", () => {
  let harness: Harness;
  afterEach(() => harness.close());

  function make(options: HarnessOptions = {}): Harness {
    harness = createHarness(options);
    return harness;
  }

  const texts = (batch: Batch) => batch.records.map(({ body }) => Buffer.from(body).toString());
  const letters = () => createDeadLetters(harness.fixture.db);
  const raise = (error: Error) => () => {
    throw error;
  };

  test("a sink that frames records gets the original bytes, line breaks included; another gets one line", async () => {
    const format = raw.create({}, { describe: describeEvent });
    const laidOut = [
      eventText(1),
      JSON.stringify(JSON.parse(eventText(2)), null, 2).replaceAll("\n", "\r\n"),
    ];
    const oneLine = eventText(3).replaceAll("\n", "");
    for (const framed of [true, false]) {
      const { destination, append, start, close } = createHarness({ framed, format });
      await append([...laidOut, oneLine]);
      await stepUntilIdle(await start());
      const expected = framed ? laidOut : laidOut.map((text) => text.replace(/[\r\n]/g, ""));
      expect(destination.held).toEqual([...expected, oneLine]);
      await close();
    }
    make();
  });

  describe.each(BOTH)("%s", (guarantee) => {
    test("delivers everything in journal order and commits each position after its write", async () => {
      const { destination, append, start, fixture } = make({ guarantee });
      for (let page = 0; page < 3; page++) await append(eventTexts(page * 7, 7));
      const delivery = await start();
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 21));
      expect(destination.batches.map(({ records }) => records.length)).toEqual([7, 7, 7]);
      expect(delivery.status()).toMatchObject({
        state: "running",
        sentEvents: 21,
        position: fixture.journal.end(),
      });
      const reader = await fixture.journal.reader("sink");
      expect(reader.state).toMatchObject({ sink: { records: 21 } });
    });

    test("an unavailable destination gets the same events again, with back-off that grows and has a limit", async () => {
      const { destination, append, start, clock, log } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      for (let failure = 0; failure < 15; failure++)
        destination.script.push(raise(new RetryableError("down")));
      const waits: number[] = [];
      for (let failure = 0; failure < 15; failure++) {
        await stepUntilIdle(delivery);
        expect(delivery.status()).toMatchObject({ state: "retrying", reason: "down" });
        const failed = log.findLast(({ sentence }) => sentence === "Delivery failed; trying again.");
        waits.push(failed!.fields.waitMs as number);
        const attempts = destination.batches.length;
        clock.advance(waits.at(-1)! - 1);
        await delivery.step(never);
        expect(destination.batches).toHaveLength(attempts);
        clock.advance(1);
      }
      for (const [index, waitMs] of waits.entries()) {
        const most = Math.min(60_000, 200 * 2 ** index);
        expect(waitMs).toBeGreaterThanOrEqual(most / 2);
        expect(waitMs).toBeLessThanOrEqual(most);
      }
      expect(harness.alarms.list()).toMatchObject([
        { kind: "sink_failing", subject: "sink", severity: "warning" },
      ]);
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 3));
      expect(destination.opened).toHaveLength(guarantee === "exactly_once" ? 16 : 1);
      expect(delivery.status().state).toBe("running");
      expect(harness.alarms.list()).toEqual([]);
    });

    test("a clock that is set back by days during a back-off does not make the sink wait for as long", async () => {
      const { destination, append, start, clock } = make({ guarantee });
      await append(eventTexts(0, 1));
      const delivery = await start();
      destination.script.push(raise(new RetryableError("down", { retryAfterMs: 10_000 })));
      await stepUntilIdle(delivery);
      clock.set(clock.now() - 3 * 86_400_000);
      await stepUntilIdle(delivery);
      clock.advance(10_000);
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 1));
    });

    test("a value that a destination quotes from an event does not get into the log", async () => {
      const { destination, append, start, log } = make({ guarantee });
      await append(eventTexts(0, 1));
      const delivery = await start();
      const reason = "answered 400: cannot read 'jo.doe SECRET'";
      destination.script.push(raise(new RejectedEventsError("no", [{ index: 0, reason }])));
      await stepUntilIdle(delivery);
      const line = log.find(({ sentence }) => sentence === "Events became dead letters.");
      expect(line!.fields.reason).toBe('answered 400: cannot read "…"');
      expect(JSON.stringify(log)).not.toContain("SECRET");
    });

    test("Retry-After is kept to, up to an hour", async () => {
      const { destination, append, start, clock } = make({ guarantee });
      await append(eventTexts(0, 1));
      const delivery = await start();
      destination.script.push(raise(new RetryableError("slow down", { retryAfterMs: 12_345 })));
      destination.script.push(raise(new RetryableError("slow down", { retryAfterMs: 1e12 })));
      await stepUntilIdle(delivery);
      clock.advance(12_344);
      await stepUntilIdle(delivery);
      expect(destination.batches).toHaveLength(1);
      clock.advance(1);
      await stepUntilIdle(delivery);
      expect(destination.batches).toHaveLength(2);
      clock.advance(3_600_000);
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 1));
    });

    test("what remains of a batch is sent, what is written is not sent again, and others follow once", async () => {
      const { destination, append, start } = make({ guarantee, limits: { recordsMax: 4 } });
      await append(eventTexts(0, 10));
      const delivery = await start();
      destination.script.push((_, store) => {
        store([0, 2]);
        throw new RetryableError("half", { remaining: [1, 3] });
      });
      await deliverAll(harness, delivery);
      expect(destination.held.toSorted()).toEqual(eventTexts(0, 10).toSorted());
      expect(texts(destination.batches[1]!).slice(0, 2)).toEqual([eventText(1), eventText(3)]);
      expect(delivery.status().sentEvents).toBe(10);
    });

    test("a batch that is too large is halved until it fits; nothing is lost or sent twice", async () => {
      const { destination, append, start } = make({ guarantee });
      await append(eventTexts(0, 30));
      const delivery = await start();
      destination.otherwise = (batch, store) => {
        if (batch.records.length > 3) throw new TooLargeError("too many");
        store();
      };
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 30));
      expect(letters().counts()).toEqual([]);
    });

    test("a single event that is too large becomes a dead letter with its reason; the rest go on", async () => {
      const { destination, append, start } = make({ guarantee });
      await append(eventTexts(0, 12));
      const delivery = await start();
      destination.otherwise = (batch, store) => {
        if (texts(batch).includes(eventText(5))) throw new TooLargeError("the limit is 1 MB");
        store();
      };
      await deliverAll(harness, delivery);
      const rest = eventTexts(0, 12).filter((text) => text !== eventText(5));
      expect(destination.held).toEqual(rest);
      const [letter, ...more] = letters().list({}, 10);
      expect([letter?.reason, more]).toEqual(["the limit is 1 MB", []]);
      expect(letters().bytesOf(letter!.id)!.toString()).toBe(eventText(5));
    });

    test("events that are refused become dead letters, the remaining ones are written, the following once", async () => {
      const { destination, append, start } = make({ guarantee, limits: { recordsMax: 3 } });
      await append(eventTexts(0, 9));
      const delivery = await start();
      destination.script.push((_, store) => {
        store([0]);
        throw new RejectedEventsError("refused", [{ index: 1, reason: "mapping" }], { remaining: [2] });
      });
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 9).filter((text) => text !== eventText(1)));
      expect(delivery.status().sentEvents).toBe(8);
      expect(
        letters()
          .list({}, 10)
          .map(({ reason }) => reason),
      ).toEqual(["mapping"]);
    });

    test("a refused event and a halved batch cost no wait: what follows is sent at once", async () => {
      const { destination, append, start } = make({ guarantee, limits: { recordsMax: 3 } });
      await append(eventTexts(0, 9));
      const delivery = await start();
      destination.script.push(
        raise(new RejectedEventsError("refused", [{ index: 1, reason: "mapping" }], { remaining: [0, 2] })),
        raise(new TooLargeError("too many")),
      );
      // No time passes between these steps.
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 9).filter((text) => text !== eventText(1)));
    });

    test("where all of a batch is refused the position still moves on", async () => {
      const { destination, append, start } = make({ guarantee, limits: { recordsMax: 2 } });
      await append(eventTexts(0, 4));
      const delivery = await start();
      const rejected = [0, 1].map((index) => ({ index, reason: "no" }));
      destination.script.push(raise(new RejectedEventsError("all", rejected, { remaining: [] })));
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(2, 2));
      expect(letters().counts()).toEqual([{ sink: "sink", count: 2 }]);
    });

    test("a destination that refuses most of many events is paused instead of filling the dead letters", async () => {
      const { destination, append, start, alarms, clock } = make({ guarantee, limits: { recordsMax: 500 } });
      await append(eventTexts(0, 300));
      const delivery = await start();
      destination.script.push((batch) => {
        const rejected = batch.records.slice(0, 250).map((_, index) => ({ index, reason: "no such index" }));
        throw new RejectedEventsError("most", rejected, { remaining: [] });
      });
      await stepUntilIdle(delivery);
      expect(delivery.status().state).toBe("paused");
      expect(alarms.list()[0]).toMatchObject({ kind: "sink_paused", severity: "critical" });
      expect(alarms.list()[0]!.message).toContain("no such index");
      expect(letters().counts()).toEqual([]);
      clock.advance(30_000);
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 300));
      expect(alarms.list()).toEqual([]);
    });

    test("an alarm about a refusal ends with it, when the destination fails in another way", async () => {
      const { destination, append, start, alarms, clock } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      destination.script.push(
        raise(new PausedError("no such bucket", "Make it.")),
        raise(new RetryableError("cut off")),
      );
      await stepUntilIdle(delivery);
      expect(alarms.list()).toMatchObject([{ kind: "sink_paused", message: "no such bucket" }]);
      clock.advance(30_000);
      await stepUntilIdle(delivery);
      expect(delivery.status()).toMatchObject({ state: "retrying", reason: "cut off" });
      expect(alarms.list()).toMatchObject([{ kind: "sink_failing", message: "cut off" }]);
      clock.advance(60_000);
      await stepUntilIdle(delivery);
      expect(alarms.list()).toEqual([]);
    });

    test("a refusal of few events, or of a small share of many, does not pause", async () => {
      const { destination, append, start } = make({ guarantee, limits: { recordsMax: 500 } });
      await append(eventTexts(0, 450));
      const delivery = await start();
      destination.script.push((batch) => {
        const rejected = batch.records.slice(0, 201).map((_, index) => ({ index, reason: "no" }));
        const remaining = batch.records.map((_, index) => index).slice(201);
        throw new RejectedEventsError("some", rejected, { remaining });
      });
      await deliverAll(harness, delivery);
      expect(letters().counts()).toEqual([{ sink: "sink", count: 201 }]);
      expect(destination.held).toEqual(eventTexts(201, 249));
    });

    test("a destination that refuses us is paused with an alarm, probed at intervals, and loses nothing", async () => {
      const { destination, append, start, alarms, clock } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      const refuse = raise(new PausedError("wrong token", "Set the token again."));
      destination.script.push(refuse, refuse);
      await stepUntilIdle(delivery);
      expect(delivery.status()).toMatchObject({
        state: "paused",
        reason: "wrong token",
        remedy: "Set the token again.",
      });
      expect(alarms.list()).toMatchObject([
        { kind: "sink_paused", severity: "critical", remedy: "Set the token again." },
      ]);
      clock.advance(29_999);
      await stepUntilIdle(delivery);
      expect(destination.batches).toHaveLength(1);
      clock.advance(1);
      await stepUntilIdle(delivery);
      expect(destination.batches).toHaveLength(2);
      clock.advance(30_000);
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 3));
      expect(alarms.list()).toEqual([]);
    });

    test("one that cannot be opened at first runs as soon as it can be, also when there is nothing to send", async () => {
      const { destination, start, alarms, clock } = make({ guarantee });
      const delivery = await start();
      destination.openScript.push(raise(new PausedError("wrong token", "Set it.")));
      await stepUntilIdle(delivery);
      expect(alarms.list()).toHaveLength(1);
      clock.advance(30_000);
      await stepUntilIdle(delivery);
      expect(delivery.status()).toMatchObject({ state: "running", reason: null });
      expect(alarms.list()).toEqual([]);
    });

    test("R38 an unexpected error is retried with an alarm, and never final", async () => {
      const { destination, append, start, alarms, log } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      destination.script.push(raise(new TypeError("x is not a function")));
      await stepUntilIdle(delivery);
      expect(delivery.status()).toMatchObject({ state: "retrying", reason: "x is not a function" });
      expect(alarms.list()).toMatchObject([{ kind: "sink_failing", severity: "critical" }]);
      const logged = log.find(({ level }) => level === "error")!.fields.err as Error;
      expect(logged.cause).toBeInstanceOf(TypeError);
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 3));
      expect(alarms.list()).toEqual([]);
    });

    test("R38 an unexpected error while opening is retried with an alarm, and never final", async () => {
      const { destination, append, start, alarms } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      destination.openScript.push(raise(new Error("Broker not connected")) as () => unknown);
      await stepUntilIdle(delivery);
      expect(delivery.status()).toMatchObject({ state: "retrying", reason: "Broker not connected" });
      expect(alarms.list()).toMatchObject([{ kind: "sink_failing" }]);
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 3));
    });

    test("R38 a destination whose attempts take long raises the alarm by time", async () => {
      const { destination, append, start, alarms, clock } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      const hang = () => {
        clock.advance(61_000);
        throw new RetryableError("timed out");
      };
      destination.script.push(hang, hang, hang);
      for (let round = 0; round < 3; round++) {
        expect(alarms.list()).toEqual([]);
        await stepUntilIdle(delivery);
        clock.advance(5000);
      }
      expect(alarms.list()).toMatchObject([{ kind: "sink_failing", severity: "warning" }]);
    });

    test("R33 a destination that asks for a long wait raises the alarm at once, and the alarm says until when", async () => {
      const { destination, append, start, alarms, clock } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      destination.script.push(raise(new RetryableError("answered 503", { retryAfterMs: 86_400_000 })));
      await stepUntilIdle(delivery);
      const next = new Date(clock.now() + 3_600_000).toISOString().slice(0, 19);
      const message = `answered 503. It is tried again at ${next}Z.`;
      expect(alarms.list()).toMatchObject([{ kind: "sink_failing", severity: "warning", message }]);
    });

    test("an event whose format fails is a dead letter, and the others go on", async () => {
      const { destination, append, start } = make({
        guarantee,
        encode(event) {
          if (event.index === 1) throw new Error("cannot be told");
          return `<${event.id}>`;
        },
      });
      await append(eventTexts(0, 3));
      await deliverAll(harness, await start());
      expect(destination.held).toEqual(["<000000000000000000000000>", "<000000000000000000000002>"]);
      expect(letters().list({}, 10)).toMatchObject([{ reason: "it could not be encoded: cannot be told" }]);
    });

    test("R13 positions move past events that a filter leaves out", async () => {
      const { destination, append, start, fixture } = make({
        guarantee,
        wants: (event) => event.organization === ORGANIZATION,
      });
      await append(eventTexts(0, 2));
      await append(eventTexts(2, 5, { organization: OTHER_ORGANIZATION }), {
        organizations: [OTHER_ORGANIZATION],
      });
      const delivery = await start();
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 2));
      expect(delivery.status().position).toEqual(fixture.journal.end());
      const again = await start();
      await stepUntilIdle(again);
      expect(again.status().state).toBe("running");
    });

    test("R18 dead letters are stored before the position passes them", async () => {
      const { destination, append, start, fixture } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      const reader = await fixture.journal.reader("look");
      destination.script.push(
        raise(new RejectedEventsError("no", [{ index: 0, reason: "no" }], { remaining: [1, 2] })),
      );
      let storedFirst = false;
      destination.script.push((_, store) => {
        storedFirst = letters().counts()[0]?.count === 1;
        store();
      });
      await deliverAll(harness, delivery);
      expect(storedFirst).toBe(true);
      expect(await readTexts(reader)).toHaveLength(3);
    });

    test("R18 a dead letter that cannot be stored holds the position back; nothing is lost", async () => {
      const { destination, append, start, fixture } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      fixture.db.exec(
        "CREATE TRIGGER full BEFORE INSERT ON dead_letters BEGIN SELECT RAISE(ABORT, 'no room'); END",
      );
      const refuse = raise(
        new RejectedEventsError("no", [{ index: 0, reason: "no" }], { remaining: [1, 2] }),
      );
      destination.script.push(refuse);
      await stepUntilIdle(delivery);
      expect(delivery.status().position.page).toBe(0);
      expect(delivery.status().state).toBe("retrying");
      fixture.db.exec("DROP TRIGGER full");
      destination.script.push(refuse);
      await deliverAll(harness, await start());
      expect(destination.held).toEqual(eventTexts(1, 2));
      expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);
    });

    test("an abort during a write ends the step at once, and what follows goes on properly", async () => {
      const { destination, append, start } = make({ guarantee });
      await append(eventTexts(0, 3));
      const delivery = await start();
      const stop = new AbortController();
      destination.script.push(
        (_, store, signal) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => {
              store();
              reject(signal.reason);
            });
            setImmediate(() => stop.abort(new Error("stopped")));
          }),
      );
      await expect(delivery.step(stop.signal)).rejects.toThrow("stopped");
      await deliverAll(harness, delivery);
      expect([...new Set(destination.held)]).toEqual(eventTexts(0, 3));
      if (guarantee === "exactly_once") expect(destination.held).toHaveLength(3);
    });

    test("calls of a sink never overlap when steps, resolutions and closing come at once", async () => {
      const { destination, append, start } = make({ guarantee });
      await append(eventTexts(0, 30));
      const delivery = await start();
      const slow = async (_: Batch, store: () => void) => {
        await new Promise((resolve) => setImmediate(resolve));
        store();
      };
      destination.otherwise = slow;
      await Promise.all([
        delivery.step(never),
        delivery.step(never),
        delivery.resolve(resolutionOf("state"), never),
        delivery.step(never),
      ]);
      await deliverAll(harness, delivery);
      expect(destination.insideMax).toBe(1);
      expect(destination.held).toEqual(eventTexts(0, 30));
      await Promise.all([delivery.step(never), delivery.close()]);
      expect(destination.closed).toBe(destination.opened.length);
    });
  });

  describe("R17 exactly once", () => {
    test.each([
      ["an unavailable destination", new RetryableError("cut")],
      ["a paused one", new PausedError("no", "Do.")],
    ])(
      "R17 after %s that had taken the batch, it goes on from the position that opening yields",
      async (_, error) => {
        const { destination, append, start } = make({ guarantee: "exactly_once" });
        await append(eventTexts(0, 25));
        const delivery = await start();
        destination.script.push((_batch, store) => {
          store();
          throw error;
        });
        await deliverAll(harness, delivery);
        expect(destination.held).toEqual(eventTexts(0, 25));
        expect(destination.opened).toHaveLength(2);
        expect(destination.closed).toBe(1);
      },
    );

    test("R17 after a failed commit of the position it is opened again and doubles nothing", async () => {
      const { destination, append, start, fixture } = make({ guarantee: "exactly_once" });
      await append(eventTexts(0, 25));
      const delivery = await start();
      destination.script.push((_, store) => {
        store();
        fixture.db.exec(
          "CREATE TRIGGER full BEFORE UPDATE ON readers BEGIN SELECT RAISE(ABORT, 'no room'); END",
        );
      });
      await stepUntilIdle(delivery);
      expect(delivery.status()).toMatchObject({ state: "retrying" });
      expect(delivery.status().reason).toContain("The position could not be committed: no room");
      fixture.db.exec("DROP TRIGGER full");
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 25));
      expect(destination.opened).toHaveLength(2);
    });

    test("R17 a sink that fails to close is opened again all the same", async () => {
      const { destination, append, start } = make({ guarantee: "exactly_once" });
      await append(eventTexts(0, 5));
      const delivery = await start();
      destination.closeScript.push(raise(new Error("cannot close")));
      destination.script.push(raise(new RetryableError("cut")));
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 5));
    });

    test("R17 a refused event beside remaining ones and a crash afterwards double nothing", async () => {
      const { destination, append, start } = make({ guarantee: "exactly_once", limits: { recordsMax: 4 } });
      await append(eventTexts(0, 12));
      const delivery = await start();
      destination.script.push(
        raise(new RejectedEventsError("no", [{ index: 2, reason: "no" }], { remaining: [0, 1, 3] })),
        (_, store) => {
          store();
          throw new RetryableError("cut after the commit");
        },
      );
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 12).filter((text) => text !== eventText(2)));
      expect(letters().counts()).toEqual([{ sink: "sink", count: 1 }]);
    });

    test("R17 a position that does not fit after opening again stops the sink with the choices", async () => {
      const { destination, append, start, alarms } = make({ guarantee: "exactly_once" });
      await append(eventTexts(0, 25));
      const delivery = await start();
      await delivery.step(never);
      destination.script.push(() => {
        destination.position = undefined;
        throw new RetryableError("cut");
      });
      await stepUntilIdle(delivery);
      harness.clock.advance(60_000);
      await stepUntilIdle(delivery);
      expect(delivery.status().state).toBe("stopped");
      expect(alarms.list()[0]!.remedy).toContain("tidemark sinks resume sink --from state");
      await delivery.resolve(resolutionOf("state"), never);
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 25));
      expect(alarms.list()).toEqual([]);
    });

    test("R20 a sink that was at_least_once for a while doubles nothing, and needs no decision", async () => {
      const before = make({ guarantee: "exactly_once" });
      await before.append(eventTexts(0, 5));
      await deliverAll(before, await before.start());
      const { fixture } = before;
      const between = createHarness({ guarantee: "at_least_once", fixture });
      await between.append(eventTexts(5, 5));
      await deliverAll(between, await between.start());
      const after = createHarness({ guarantee: "exactly_once", fixture });
      after.destination.position = before.destination.position;
      await after.append(eventTexts(10, 5));
      const delivery = await after.start();
      await deliverAll(after, delivery);
      expect(delivery.status().state).not.toBe("stopped");
      expect([before, between, after].flatMap(({ destination }) => destination.held)).toEqual(
        eventTexts(0, 15),
      );
    });

    test("R20 a decision forgets what was left of an earlier batch", async () => {
      const { destination, append, start } = make({ guarantee: "exactly_once", limits: { recordsMax: 4 } });
      await append(eventTexts(0, 8));
      const delivery = await start();
      destination.script.push(
        raise(new RejectedEventsError("no", [{ index: 0, reason: "no" }], { remaining: [3] })),
      );
      await delivery.step(never);
      destination.openScript.push(raise(new DecisionNeededError("lost", ["choose"])));
      await stepUntilIdle(delivery);
      expect(delivery.status().state).toBe("stopped");
      await delivery.resolve(resolutionOf("beginning"), never);
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(eventTexts(0, 8));
    });
  });

  describe("R19 bounds before bytes", () => {
    const bounds = { boundsFirst: true, guarantee: "exactly_once" } as const;

    test("R19 the end of a batch is durable before it is written, and gone when it is committed", async () => {
      const { destination, append, start, fixture } = make(bounds);
      await append(eventTexts(0, 5));
      const delivery = await start();
      destination.script.push(async (batch, store) => {
        expect((await fixture.journal.reader("sink")).bounds).toEqual([batch.to]);
        store();
      });
      await stepUntilIdle(delivery);
      expect((await fixture.journal.reader("sink")).bounds).toEqual([]);
      expect(destination.held).toEqual(eventTexts(0, 5));
    });

    test("R19 a retry takes exactly those events, though more have come and the limits are others, also after a restart", async () => {
      const { destination, append, start } = make(bounds);
      await append(eventTexts(0, 4));
      const delivery = await start();
      destination.script.push(raise(new RetryableError("cut")));
      await delivery.step(never);
      await append(eventTexts(4, 20));
      harness.clock.advance(60_000);
      destination.script.push(raise(new RetryableError("cut")));
      await delivery.step(never);
      destination.script.push(raise(new RetryableError("cut")));
      const restarted = await start();
      await restarted.step(never);
      const attempts = destination.batches.map((batch) => ({
        texts: texts(batch),
        from: batch.from,
        to: batch.to,
      }));
      expect(attempts).toHaveLength(3);
      expect(attempts[1]).toEqual(attempts[0]);
      expect(attempts[2]).toEqual(attempts[0]);
      await deliverAll(harness, restarted);
      expect(destination.held).toEqual(eventTexts(0, 24));
    });

    test("R19 a batch that is too large was not written under its bounds, so it is cut within them", async () => {
      const { destination, append, start } = make(bounds);
      await append(eventTexts(0, 8));
      const delivery = await start();
      destination.script.push(raise(new TooLargeError("too large")));
      await deliverAll(harness, delivery);
      expect(destination.batches.map(({ records }) => records.length).slice(0, 2)).toEqual([8, 4]);
      expect(destination.held).toEqual(eventTexts(0, 8));
    });

    test("R19 a batch that is cut twice ends where its bound was, and later events are a batch of their own", async () => {
      const { destination, append, start } = make(bounds);
      await append(eventTexts(0, 8));
      const delivery = await start();
      destination.script.push(raise(new TooLargeError("too large")), raise(new TooLargeError("too large")));
      await delivery.step(never);
      await append(eventTexts(8, 5));
      await deliverAll(harness, delivery);
      const written = destination.batches.map((batch) => texts(batch));
      expect(written.slice(0, 3).map(({ length }) => length)).toEqual([8, 4, 2]);
      expect(written.flat().filter((text) => text === eventText(8))).toHaveLength(1);
      expect(written.some((batch) => batch.at(-1) === eventText(7))).toBe(true);
      expect(destination.held).toEqual(eventTexts(0, 13));
    });
  });

  describe("batches", () => {
    test("an unfilled batch waits until it is old enough, and not while draining", async () => {
      const { destination, append, start, clock } = make({ limits: { ageMsMax: 5000 } });
      await append(eventTexts(0, 3));
      const delivery = await start();
      await stepUntilIdle(delivery);
      clock.advance(4999);
      await append(eventTexts(3, 2));
      await stepUntilIdle(delivery);
      expect(destination.batches).toHaveLength(0);
      clock.advance(1);
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 5));
      await append(eventTexts(5, 10));
      await stepUntilIdle(delivery);
      expect(destination.held).toHaveLength(15);
    });

    test("it waits no longer where this machine's clock is a day behind the service's", async () => {
      const { destination, append, start, clock } = make({ limits: { ageMsMax: 5000 } });
      clock.set(clock.now() - 86_400_000);
      await append(eventTexts(0, 3));
      const delivery = await start();
      await stepUntilIdle(delivery);
      expect(destination.batches).toHaveLength(0);
      clock.advance(5000);
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 3));
    });

    test("the next unfilled batch has its own age", async () => {
      const { destination, append, start, clock } = make({ limits: { ageMsMax: 5000 } });
      await append(eventTexts(0, 1));
      const delivery = await start();
      await stepUntilIdle(delivery);
      clock.advance(5000);
      await stepUntilIdle(delivery);
      await append(eventTexts(1, 1), { fetchedAtMs: clock.now() });
      await stepUntilIdle(delivery);
      expect(destination.held).toHaveLength(1);
      clock.advance(5000);
      await stepUntilIdle(delivery);
      expect(destination.held).toHaveLength(2);
    });
  });

  test("the loop waits for an unfilled batch as long as the sink says, not a second", async () => {
    const { destination, append, start, clock } = make({ limits: { ageMsMax: 30 } });
    await append(eventTexts(0, 3));
    const delivery = await start();
    const stop = new AbortController();
    const running = delivery.run(stop.signal);
    await expect.poll(() => clock.slept.at(-1)).toBe(30);
    clock.advance(30);
    await expect.poll(() => destination.held).toEqual(eventTexts(0, 3));
    stop.abort();
    await running;
  });

  describe("draining", () => {
    test("ends when everything is delivered, and delivers unfilled batches at once", async () => {
      const { destination, append, start } = make({ draining: true, limits: { ageMsMax: 1e9 } });
      await append(eventTexts(0, 13));
      await (await start()).drain(never);
      expect(destination.held).toEqual(eventTexts(0, 13));
    });

    test("R21 pages for another reader alone do not keep it waiting", async () => {
      const { destination, append, start } = make({ draining: true });
      await append(eventTexts(0, 2));
      await append(eventTexts(0, 2), { reader: "another" });
      await (await start()).drain(never);
      expect(destination.held).toEqual(eventTexts(0, 2));
    });

    test.each([
      ["paused", new PausedError("wrong token", "Set it.")],
      ["stopped", new DecisionNeededError("it does not fit", ["this", "that"])],
    ])("fails when the sink is %s, and says what to do", async (state, error) => {
      const { destination, append, start } = make({ draining: true });
      await append(eventTexts(0, 2));
      destination.script.push(raise(error));
      await expect((await start()).drain(never)).rejects.toThrow(
        `The sink "sink" is ${state}: ${error.message}`,
      );
    });

    test("R39 a sink that fails for a minute is given up with its reason when everything else is done", async () => {
      const { destination, append, start, clock } = make({ draining: true });
      await append(eventTexts(0, 2));
      destination.otherwise = raise(new RetryableError("nobody answers"));
      const draining = (await start()).drain(never);
      const outcome = draining.catch((error: Error) => error.message);
      for (let second = 0; second < 90; second++) {
        await clock.settle();
        clock.advance(1000);
      }
      expect(await outcome).toMatch(/^The sink "sink" is retrying: nobody answers/);
    });

    test("R16 a damaged page stops the sink with the choices; nothing behind it is delivered", async () => {
      const { destination, append, start, fixture, alarms } = make({ draining: true });
      await append(eventTexts(0, 2));
      await append(eventTexts(2, 2));
      fixture.db.exec("UPDATE bodies SET body = zeroblob(100) WHERE page = 1");
      fixture.reopen();
      await expect((await start()).drain(never)).rejects.toThrow(/is stopped: Page 1 of the journal/);
      expect(alarms.list()[0]!.remedy).toContain("restore the state file from a backup");
      expect(destination.held).toEqual([]);
    });
  });

  test("a dead, a stopped and a slow sink delay no other sink", async () => {
    const dead = make({ name: "dead" });
    await dead.append(eventTexts(0, 25));
    const others = ["stopped", "slow", "well"].map((name) => createHarness({ name, fixture: dead.fixture }));
    const [stopped, slow, well] = others as [Harness, Harness, Harness];
    dead.destination.otherwise = raise(new RetryableError("down"));
    stopped.destination.otherwise = raise(new UsageError("a wrong config"));
    let release = () => {};
    slow.destination.script.push(
      (_, store) =>
        new Promise<void>((resolve) => {
          release = () => {
            store();
            resolve();
          };
        }),
    );
    const slowDelivery = await slow.start();
    const slowStep = slowDelivery.step(never);
    const deliveries = await Promise.all([dead, stopped, well].map((one) => one.start()));
    for (const delivery of deliveries) await stepUntilIdle(delivery);
    expect(deliveries.map((delivery) => delivery.status().state)).toEqual(["retrying", "stopped", "running"]);
    expect(well.destination.held).toEqual(eventTexts(0, 25));
    release();
    expect(await slowStep).toBe("again");
    await stepUntilIdle(slowDelivery);
    expect(slow.destination.held).toEqual(eventTexts(0, 25));
    for (const one of others) await one.close();
  });

  test("R20 a batch that only the destination knew of is committed when the sink is opened, and draining ends", async () => {
    const { destination, append, start, fixture } = make({ guarantee: "exactly_once", draining: true });
    await append(eventTexts(0, 5));
    destination.script.push((_, store) => {
      store();
      throw new Error("as killed between the two commits");
    });
    await stepUntilIdle(await start());
    expect((await fixture.journal.reader("sink")).position.page).toBe(0);
    await (await start()).drain(never);
    expect(destination.held).toEqual(eventTexts(0, 5));
    expect((await fixture.journal.reader("sink")).position).toEqual(fixture.journal.end());
  });
});
