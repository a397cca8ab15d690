import { inspect } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import {
  explain,
  PausedError,
  RejectedEventsError,
  RetryableError,
  TooLargeError,
} from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Sink } from "../../src/core/sink.ts";
import { eventsOfSize } from "../sinks/limits.ts";
import { makeBatch, makeEvents, rawFormat } from "../support/events.ts";
import {
  attempt,
  type Committed,
  drive,
  nothingCommitted,
  openSink,
  probeSink,
  type Target,
} from "./drive.ts";

/** A fresh destination. What it cannot be made to do is left out, and the cases that need it do not run. */
export interface Destination extends Target {
  /** True: a batch may be there twice although the sink is opened again after errors. */
  readonly repeats?: boolean;
  /** The bodies it holds, in arrival order. Where they arrive after a while: waits for `count` of them. */
  read(count: number): Promise<readonly (string | Uint8Array)[]>;
  /** The result of `read` for this event; by default the body that was sent. */
  expected?(event: JournalEvent): string | Uint8Array;
  /** Answers as a destination that is overloaded, restarting or unreachable does, with so many events sent to it. */
  unavailable?(sent: number): Promise<void> | void;
  /** Answers as to a wrong token. */
  unauthorized?(): Promise<void> | void;
  /** Takes no more than this many events at once. */
  takesAtMost?(events: number): Promise<void> | void;
  /** Refuses the events with these ids and no others. */
  refuses?(ids: readonly string[]): Promise<void> | void;
  /** Takes a request and never answers; resolves when one is in flight. */
  hangs?(): Promise<void> | void;
  /** A config that names a topic, index, bucket or table which does not exist. */
  missing?(): Promise<Record<string, unknown>> | Record<string, unknown>;
  /** Stores the next request and cuts the connection instead of answering. */
  storesAndCuts?(): Promise<void> | void;
  /** The bytes of the largest request body so far, before compression. */
  largestBody?(): number;
  /** All of the above is over. */
  normal(): Promise<void> | void;
  close(): Promise<void> | void;
}

export interface SinkHarness {
  /** From `skipUnless`. */
  readonly skip?: boolean;
  /** Which of the optional abilities `start`'s destinations have. `dated`: answers carry the date. */
  readonly can: readonly Ability[];
  /** Arrival order is not kept by the destination: contents are compared as sets. */
  readonly unordered?: boolean;
  /** The sink itself tries again what was cut off, so that no error reaches delivery. */
  readonly triesAgain?: boolean;
  start(): Promise<Destination>;
}

type Ability =
  | "largestBody"
  | "unavailable"
  | "unauthorized"
  | "takesAtMost"
  | "refuses"
  | "hangs"
  | "storesAndCuts"
  | "missing"
  | "dated";

const PROMPT_MS = 25_000;

/** The suite that every sink passes. */
export function testSink(name: string, harness: SinkHarness): void {
  const can = (ability: Ability) => test.skipIf(!harness.can.includes(ability));

  describe.skipIf(harness.skip === true)(`the contract of a sink: ${name}`, () => {
    let destination: Destination;
    const sinks: Sink[] = [];
    const errors: unknown[] = [];

    async function start(): Promise<Destination> {
      destination = await harness.start();
      return destination;
    }

    async function open(committed: Committed = nothingCommitted): Promise<Sink> {
      const sink = await openSink(destination, committed);
      sinks.push(sink);
      return sink;
    }

    /** The error of opening, or else of one attempt at these events. */
    async function failureAnew(events: readonly JournalEvent[], committed: Committed): Promise<unknown> {
      try {
        return await failure(await open(committed), events);
      } catch (error) {
        errors.push(error);
        return error;
      }
    }

    async function failure(sink: Sink, events: readonly JournalEvent[], signal?: AbortSignal) {
      const error = await attempt(sink, batchOf(sink, events), signal);
      errors.push(error);
      return error;
    }

    function batchOf(sink: Sink, events: readonly JournalEvent[]) {
      return makeBatch(sink, events, undefined, destination.format);
    }

    /** Everything that these events are at the destination, and nothing else. */
    async function expectHeld(events: readonly JournalEvent[], held?: readonly string[]): Promise<void> {
      const format = destination.format ?? rawFormat;
      const expected = events.map((event) => text(destination.expected?.(event) ?? format.encode(event)));
      const actual = held ?? (await destination.read(events.length)).map(text);
      if (harness.unordered) expect(actual.toSorted()).toEqual(expected.toSorted());
      else expect(actual).toEqual(expected);
    }

    /** Nothing lost and nothing foreign; twice only where the guarantee allows it. */
    async function expectDelivered(events: readonly JournalEvent[]): Promise<void> {
      const held = (await destination.read(events.length)).map(text);
      const isExact = destination.definition.guarantee === "exactly_once" && !destination.repeats;
      if (isExact) return expectHeld(events, held);
      await expectHeld(events, [...new Set(held)]);
    }

    afterEach(async () => {
      for (const sink of sinks.splice(0)) await sink.close();
      const seen = errors.splice(0).map((error) => `${explain(error)} ${inspect(error, { depth: 8 })}`);
      const secrets = Object.values(destination.secrets ?? {});
      await destination.close();
      for (const secret of secrets) for (const line of seen) expect(line).not.toContain(secret);
    });

    test("delivers every event once, in order, byte for byte, and nothing else", async () => {
      await start();
      const events = makeEvents(130);
      const driven = await drive(destination, events, { batchEvents: 37 });
      expect(driven.errors).toEqual([]);
      await expectHeld(events);
    });

    test("goes on where it stopped after being closed and opened again", async () => {
      await start();
      const events = makeEvents(60);
      const first = await drive(destination, events.slice(0, 40), { batchEvents: 20 });
      await drive(destination, events.slice(40), { batchEvents: 20, committed: first.committed });
      await expectHeld(events);
    });

    test("a batch that was written but not committed is written again and loses nothing", async () => {
      await start();
      const events = makeEvents(50);
      const first = await drive(destination, events.slice(0, 25), { batchEvents: 25 });
      await drive(destination, events.slice(25), { batchEvents: 25, committed: first.committed });
      await drive(destination, events.slice(25), { batchEvents: 25, committed: first.committed });
      await expectDelivered(events);
    });

    can("unavailable")("asks again when the destination is unavailable", async () => {
      await start();
      const events = makeEvents(30);
      const { committed } = await drive(destination, events.slice(0, 10), { batchEvents: 10 });
      await destination.unavailable?.(10);
      let faults = 0;
      const driven = await drive(destination, events.slice(10), {
        batchEvents: 10,
        committed,
        onError: async () => {
          if (++faults === 2) await destination.normal();
        },
      });
      errors.push(...driven.errors);
      expect(driven.errors.length).toBeGreaterThanOrEqual(2);
      for (const error of driven.errors) expect(error).toBeInstanceOf(RetryableError);
      await expectDelivered(events);
    });

    can("storesAndCuts")(
      "R17 loses nothing when the connection is cut after the batch was stored",
      async () => {
        await start();
        const events = makeEvents(40);
        await destination.storesAndCuts?.();
        const driven = await drive(destination, events, { batchEvents: 20 });
        errors.push(...driven.errors);
        if (harness.triesAgain) expect(driven.errors).toEqual([]);
        else expect(driven.errors.length).toBeGreaterThanOrEqual(1);
        await expectDelivered(events);
      },
    );

    can("takesAtMost")("says that a batch is too large, and its halves arrive", async () => {
      await start();
      await destination.takesAtMost?.(7);
      const events = makeEvents(20);
      const driven = await drive(destination, events, { batchEvents: 20 });
      errors.push(...driven.errors);
      expect(driven.errors.length).toBeGreaterThanOrEqual(2);
      for (const error of driven.errors) expect(error).toBeInstanceOf(TooLargeError);
      expect(driven.deadLetters.size).toBe(0);
      await expectHeld(events);
    });

    can("largestBody")("a batch that delivery fills to bytesMax is no larger on the wire", async () => {
      await start();
      const sink = await open();
      const { bytesMax } = sink.limits;
      const events = eventsOfSize(sink, 100, bytesMax, destination.format);
      expect(await failure(sink, events)).toBeUndefined();
      const largest = destination.largestBody!();
      expect(largest).toBeGreaterThan(bytesMax * 0.99);
      expect(largest).toBeLessThanOrEqual(bytesMax);
    });

    can("refuses")("R27 names exactly the events that were refused, and the rest arrive", async () => {
      await start();
      const events = makeEvents(40);
      const refused = [events[3]!, events[17]!, events[18]!, events[39]!];
      await destination.refuses?.(refused.map((event) => event.id!));
      const driven = await drive(destination, events, { batchEvents: 40 });
      errors.push(...driven.errors);
      for (const error of driven.errors) expect(error).toBeInstanceOf(RejectedEventsError);
      expect([...driven.deadLetters.keys()].toSorted()).toEqual(refused.map((e) => e.identity).toSorted());
      for (const reason of driven.deadLetters.values()) expect(reason).not.toBe("");
      const held = events.filter((event) => !refused.includes(event));
      await expectDelivered(held);
    });

    can("unauthorized")("pauses when the destination refuses the credentials, and resumes", async () => {
      await start();
      const events = makeEvents(20);
      const first = await drive(destination, events.slice(0, 10), { batchEvents: 10 });
      await destination.unauthorized?.();
      const error = await failureAnew(events.slice(10), first.committed);
      expect(error).toBeInstanceOf(PausedError);
      expect((error as PausedError).remedy).not.toBe("");
      await destination.normal();
      await drive(destination, events.slice(10), { batchEvents: 10, committed: first.committed });
      await expectHeld(events);
    });

    can("hangs")("rejects promptly with the signal's reason when it is aborted in flight", async () => {
      await start();
      const events = makeEvents(10);
      const sink = await open();
      const controller = new AbortController();
      const inFlight = destination.hangs?.();
      const failed = failure(sink, events, controller.signal);
      await inFlight;
      const reason = new Error("stopped by the test");
      const abortedAtMs = Date.now();
      controller.abort(reason);
      expect(await failed).toBe(reason);
      expect(Date.now() - abortedAtMs).toBeLessThan(PROMPT_MS);
      await destination.normal();
      await drive(destination, events, { batchEvents: 10 });
      await expectDelivered(events);
    });

    test("does not begin when the signal is aborted already", async () => {
      await start();
      const sink = await open();
      const reason = new Error("stopped before");
      expect(await failure(sink, makeEvents(3), AbortSignal.abort(reason))).toBe(reason);
      await expectHeld([]);
    });

    test("a probe finds nothing wrong and writes nothing", async () => {
      await start();
      await probeSink(destination);
      await expectHeld([]);
      const events = makeEvents(10);
      const sink = await open();
      await probeSink(destination);
      expect(await failure(sink, events)).toBeUndefined();
      await expectHeld(events);
    });

    can("unauthorized")("a probe finds refused credentials", async () => {
      await start();
      await destination.unauthorized?.();
      const error = await probeSink(destination).catch((thrown: unknown) => thrown);
      errors.push(error);
      expect(error).toBeInstanceOf(PausedError);
      await destination.normal();
      await expectHeld([]);
    });

    can("unavailable")("a probe finds a destination that is unavailable", async () => {
      await start();
      await destination.unavailable?.(0);
      const error = await probeSink(destination).catch((thrown: unknown) => thrown);
      errors.push(error);
      expect(error).toBeInstanceOf(RetryableError);
      await destination.normal();
    });

    can("missing")("a probe finds a missing topic, index, bucket or table", async () => {
      await start();
      const config = { ...destination.config, ...(await destination.missing?.()) };
      const error = await probeSink({ ...destination, config }).catch((thrown: unknown) => thrown);
      errors.push(error);
      expect(error).toBeInstanceOf(PausedError);
      expect((error as PausedError).remedy).not.toBe("");
    });

    can("dated")("a probe finds a wrong clock", async () => {
      await start();
      const clock = { ...systemClock, now: () => Date.now() + 26 * 3_600_000 };
      const said = await probeSink(destination, clock).then((remarks) => remarks.join(" "), explain);
      expect(said).toMatch(/clock is 1d 2h|26h/);
    });

    test("R17 every kind of error in turn, each followed by a restart, loses nothing", async () => {
      await start();
      const events = makeEvents(60);
      const faults = [
        () => destination.unavailable?.(12),
        () => destination.unauthorized?.(),
        () => destination.takesAtMost?.(3),
        () => destination.storesAndCuts?.(),
      ];
      let committed = (await drive(destination, events.slice(0, 12), { batchEvents: 12 })).committed;
      for (const [at, fault] of faults.entries()) {
        const part = events.slice(12 + at * 12, 24 + at * 12);
        await fault();
        await failureAnew(part, committed);
        for (const sink of sinks.splice(0)) await sink.close();
        await destination.normal();
        committed = (await drive(destination, part, { batchEvents: 12, committed })).committed;
      }
      await expectDelivered(events);
    });
  });
}

function text(body: string | Uint8Array): string {
  return typeof body === "string" ? body : Buffer.from(body).toString("utf8");
}
