import type { Alarms } from "../core/alarms.ts";
import type { Clock } from "../core/clock.ts";
import {
  DecisionNeededError,
  explain,
  isDiskTrouble,
  PausedError,
  RejectedEventsError,
  type Rejection,
  RetryableError,
  TooLargeError,
  UsageError,
} from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import type { Format } from "../core/format.ts";
import type { DeadLetter, JournalReader } from "../core/journal.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { PageLease } from "../core/page-lease.ts";
import { formatPosition, type Position } from "../core/position.ts";
import {
  type Batch,
  type Sink,
  type SinkDefinition,
  type SinkProblem,
  type SinkRecord,
  type SinkState,
  totalsOf,
} from "../core/sink.ts";
import type { Step } from "../core/step.ts";
import type { Wake } from "../core/wake.ts";
import { formBatch, type LeasedBatch } from "./batching.ts";
import { createHealth, type DeliveryState } from "./health.ts";
import { type Held, judgePosition, type Resolution, resolved } from "./position.ts";

export interface DeliveryOptions {
  readonly name: string;
  readonly definition: SinkDefinition;
  readonly config: unknown;
  readonly format: Format;
  readonly reader: JournalReader;
  readonly journal: string;
  wants(event: JournalEvent): boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly alarms: Alarms;
  readonly metrics: Metrics;
  readonly stdout: NodeJS.WritableStream;
  readonly wake: Wake;
  /** The journal's end, where a sink that is to skip everything goes on. */
  end(): Position;
  /** True while the state was put in place of another one and the reader has committed nothing since (R20). */
  isAsRestored?(): boolean;
  /** True while nothing more will come: an unfilled batch need not wait. */
  draining(): boolean;
}

export interface DeliveryStatus {
  readonly name: string;
  readonly type: string;
  readonly state: DeliveryState;
  readonly sinceMs: number;
  readonly reason: string | null;
  readonly remedy: string | null;
  readonly position: Position;
  readonly sentEvents: number;
  readonly deadLetters: number;
  readonly lastWriteMs: number | null;
}

/** A destination that refuses more than half of so many events is paused instead of filling the dead letters. */
const REFUSED_MIN = 200;

/**
 * Delivers the journal to one sink. A step forms a batch, writes it once and commits the position, or meets
 * the error with its one consequence; the loop owns pace and back-off. Knows nothing of other sinks.
 */
export function createDelivery(options: DeliveryOptions) {
  const { name, definition, reader, clock, log, alarms, metrics, wake } = options;
  const exactlyOnce = definition.guarantee === "exactly_once";
  let sink: Sink | undefined;
  let at: Position = reader.position;
  const health = createHealth(name, clock, log, alarms);
  let recordsMax = Number.POSITIVE_INFINITY;
  /** What is left to write of a batch of which a part is done, or of which records were refused. */
  let rest: { readonly to: Position; readonly keys: ReadonlySet<string> } | undefined;
  /** The end of a batch that is to be written again: it is formed anew up to there. */
  let againTo: Position | undefined;
  /** Since when a batch has been waiting to be filled. */
  let unfilledSinceMs: number | undefined;
  let sentEvents = 0;
  let deadLetters = 0;
  let lastWriteMs: number | null = null;
  const recent = { taken: 0, refused: 0 };

  const alone = createTurns();
  const step: Step = (signal) => alone(() => attempt(signal));

  async function attempt(signal: AbortSignal): Promise<"again" | "idle"> {
    if (health.state === "stopped" || health.waitMs() > 0) return "idle";
    let batch: LeasedBatch | undefined;
    try {
      if (sink === undefined) await open(signal);
      const next = await nextBatch();
      if (next === "wait") return "idle";
      if (next === "passed") return "again";
      batch = next;
      await write(batch, signal);
      return "again";
    } catch (error) {
      if (signal.aborted) {
        // What was written of it nobody knows: a later step must not repeat it in place (R17).
        if (exactlyOnce) await reopen();
        throw signal.reason;
      }
      // Meeting an error writes too (dead letters, the position): what fails there is met like any other.
      await meet(error, batch).catch((failure: unknown) => meet(failure, batch));
      // What was refused or too large is out of the way: only an error that asks for patience gets it.
      return health.waitMs() > 0 ? "idle" : "again";
    } finally {
      // No batch outlives its step: one that is written again is formed again.
      release(batch?.leases ?? []);
    }
  }

  async function open(signal: AbortSignal): Promise<void> {
    const opened = await openSink(signal);
    try {
      at = await judgePosition(name, opened, reader, heldState(), options.isAsRestored?.());
      // The destination has taken a batch whose position was not committed: that is made good at once.
      if (isBefore(reader.position, at)) await reader.commit(at, resolved(at, heldState().sink));
    } catch (error) {
      await opened.close();
      throw error;
    }
    sink = opened;
  }

  const memory = new Map<string, unknown>();

  function openSink(signal: AbortSignal): Promise<Sink> {
    const { config, format, journal, stdout } = options;
    const { position } = reader;
    const { sink: held } = heldState();
    return definition.open({
      name,
      config,
      format,
      journal,
      position,
      state: held,
      clock,
      log,
      signal,
      stdout,
      memory,
      limited: reportLimit,
    });
  }

  function reportLimit(problem: SinkProblem | undefined): void {
    if (problem) alarms.raise({ kind: "sink_limited", subject: name, ...problem, severity: "warning" });
    else alarms.clear("sink_limited", name);
  }

  function heldState(): Held {
    return (reader.state as Held | undefined) ?? {};
  }

  async function write(batch: Batch, signal: AbortSignal): Promise<void> {
    const startedMs = clock.now();
    const newState = await sink!.write(batch, signal);
    metrics.record("tidemark_sink_write_seconds", (clock.now() - startedMs) / 1000, { sink: name });
    await written(batch, newState);
  }

  /** "passed": nothing for this sink, and the position has moved. "wait": nothing, or not enough yet. */
  async function nextBatch(): Promise<LeasedBatch | "passed" | "wait"> {
    const { limits } = sink!;
    const bound = (definition.boundsFirst ? reader.bound : undefined) ?? againTo;
    const { format } = options;
    const encode = (event: JournalEvent) =>
      sink!.encode?.(event) ?? ((sink!.framed && format.encodeFramed?.(event)) || format.encode(event));
    const formed = await formBatch({
      reader,
      from: at,
      limits,
      recordsMax: Math.min(limits.recordsMax, recordsMax),
      bound,
      wants: rest === undefined ? options.wants : (event) => options.wants(event) && isRest(event),
      encode,
      keepsBytes: options.format.keepsBytes === true && sink!.encode === undefined,
    });
    try {
      if (formed.misfits.length > 0) await bury(formed.misfits);
    } catch (error) {
      release(formed.batch?.leases ?? []);
      throw error;
    } finally {
      release(formed.misfitLeases);
    }
    if (formed.batch === null) {
      if (formed.to === at) {
        // It is open and has nothing to do: whatever stood in the way of opening it does so no more.
        health.running();
        return "wait";
      }
      await pass(formed.to);
      return "passed";
    }
    const unfilled = !formed.full && bound === undefined && !options.draining();
    if (unfilled && isYoung(formed.oldestMs, limits.ageMsMax)) {
      release(formed.batch.leases);
      return "wait";
    }
    unfilledSinceMs = undefined;
    try {
      if (definition.boundsFirst && reader.bound === undefined) await reader.setBound(formed.batch.to);
    } catch (error) {
      release(formed.batch.leases);
      throw error;
    }
    return formed.batch;
  }

  /** By both clocks, the service's and ours: where they differ, a batch must not wait for them to agree. */
  function isYoung(pulledMs: number, ageMsMax: number): boolean {
    unfilledSinceMs ??= clock.now();
    return Math.max(clock.now() - pulledMs, clock.now() - unfilledSinceMs) < ageMsMax;
  }

  async function pass(to: Position): Promise<void> {
    await reader.commit(to, reader.state);
    if (rest !== undefined && !isBefore(to, rest.to)) rest = undefined;
    againTo = undefined;
    at = to;
  }

  async function written(batch: Batch, newState: SinkState | undefined): Promise<void> {
    const { to } = batch;
    try {
      await reader.commit(to, resolved(to, newState));
    } catch (error) {
      // What the destination holds and what the journal knows may differ now: only opening anew tells (R17).
      if (exactlyOnce) await reopen();
      throw new RetryableError("The position could not be committed.", { cause: error });
    }
    againTo = undefined;
    if (rest !== undefined && !isBefore(to, rest.to)) rest = undefined;
    at = to;
    const { count, bytes } = totalsOf(batch);
    recent.taken += count;
    sentEvents += count;
    lastWriteMs = clock.now();
    recordsMax = recordsMax * 2 > sink!.limits.recordsMax ? Number.POSITIVE_INFINITY : recordsMax * 2;
    metrics.add("tidemark_sink_sent_events_total", count, { sink: name });
    metrics.add("tidemark_sink_sent_bytes_total", bytes, { sink: name });
    health.wrote();
  }

  /** Each error has one consequence. */
  async function meet(error: unknown, batch: Batch | undefined): Promise<void> {
    // The batch is written again unless the error says otherwise. A sink that is opened again may be past it.
    if (batch !== undefined && !exactlyOnce) againTo = batch.to;
    const kind = error instanceof Error ? error.name : "unknown";
    metrics.add("tidemark_sink_errors_total", 1, { sink: name, kind });
    if (error instanceof TooLargeError && batch !== undefined) await tooLarge(error, batch);
    else if (error instanceof RejectedEventsError && batch !== undefined) await rejected(error, batch);
    else if (error instanceof RetryableError) retryable(error, batch);
    else if (error instanceof PausedError) health.paused(error.message, error.remedy);
    else if (error instanceof UsageError) health.stopped(error.message, "Mend the config and start again.");
    else if (error instanceof DecisionNeededError)
      health.stopped(error.message, `Choose: ${error.choices.join("; or ")}.`);
    else if (isDiskTrouble(error)) retryable(new RetryableError(explain(error), { cause: error }), batch);
    else health.bug(error);
    if (exactlyOnce && sink !== undefined) await reopen();
  }

  async function tooLarge(error: TooLargeError, batch: Batch): Promise<void> {
    againTo = undefined;
    if (batch.records.length === 1) {
      return rejected(new RejectedEventsError(error.message, [{ index: 0, reason: error.message }]), batch);
    }
    recordsMax = Math.ceil(batch.records.length / 2);
    // It was refused whole, so nothing stands there under its bounds.
    if (definition.boundsFirst) await reader.setBound(undefined);
  }

  async function rejected(error: RejectedEventsError, batch: Batch): Promise<void> {
    if (refusesTooMuch(error.rejected, batch)) {
      health.paused(
        `The destination refuses most events: ${error.rejected[0]?.reason ?? error.message}`,
        "Mend the destination or this sink's config; delivery goes on by itself and nothing is lost.",
      );
      return;
    }
    await bury(
      error.rejected.map(({ index, reason: why, answer }) => ({
        event: batch.records[index]!.event,
        reason: why,
        answer,
      })),
    );
    recent.refused += error.rejected.length;
    const refused = new Set(error.rejected.map(({ index }) => index));
    const remaining = error.remaining ?? [];
    const again = batch.records.filter((_, index) => !refused.has(index) && remaining.includes(index));
    goOnWith(batch, again);
    if (again.length > 0) return;
    const others = batch.records.filter((_, index) => !refused.has(index));
    if (others.length > 0) await written(withRecords(batch, others), heldState().sink);
    else await pass(batch.to);
  }

  function refusesTooMuch(refused: readonly Rejection[], batch: Batch): boolean {
    const total = recent.taken + recent.refused + batch.records.length;
    const share = (recent.refused + refused.length) / total;
    if (recent.taken + recent.refused > 20_000) {
      recent.taken /= 2;
      recent.refused /= 2;
    }
    return recent.refused + refused.length >= REFUSED_MIN && share > 0.5;
  }

  function retryable(error: RetryableError, batch: Batch | undefined): void {
    if (batch !== undefined && error.remaining !== undefined) {
      goOnWith(
        batch,
        error.remaining.map((index) => batch.records[index]!),
      );
    }
    health.retrying(error);
  }

  /** The same batch with fewer records; an exactly-once sink forms it again after it was opened anew. */
  function goOnWith(batch: Batch, records: readonly SinkRecord[]): void {
    rest = { to: batch.to, keys: new Set(records.map(({ event }) => keyOf(event))) };
    if (records.length === 0) againTo = undefined;
  }

  function isRest(event: JournalEvent): boolean {
    if (event.page > rest!.to.page || (event.page === rest!.to.page && event.index >= rest!.to.event))
      return true;
    return rest!.keys.has(keyOf(event));
  }

  async function bury(letters: readonly DeadLetter[]): Promise<void> {
    await reader.addDeadLetters(letters);
    deadLetters += letters.length;
    log.warn({ count: letters.length, reason: letters[0]?.reason }, "Events became dead letters.");
  }

  /** After any error an exactly-once sink is closed and opened again, and goes on from the position that yields (R17). */
  async function reopen(): Promise<void> {
    const closing = sink;
    sink = undefined;
    againTo = undefined;
    at = reader.position;
    await closing?.close().catch((error: unknown) => log.debug({ err: error }, "Closing a sink failed."));
  }

  async function loop(signal: AbortSignal, until: () => Promise<boolean>): Promise<void> {
    while (!signal.aborted && !(await until())) {
      const mark = wake.mark();
      if ((await step(signal)) === "again") continue;
      if (await until()) return;
      const waitMs = health.waitMs();
      await wake.waitSince(
        waitMs > 0 ? wake.mark() : mark,
        Math.min(1000, Math.max(10, waitMs > 0 ? waitMs : 1000)),
        signal,
      );
    }
  }

  function status(): DeliveryStatus {
    return {
      name,
      type: definition.type,
      ...health.view(),
      position: reader.position,
      sentEvents,
      deadLetters,
      lastWriteMs,
    };
  }

  return {
    step,
    status,
    run: (signal: AbortSignal) => loop(signal, async () => false),
    /** Until nothing more will come and everything is delivered; rejects when that needs a person. */
    async drain(signal: AbortSignal): Promise<void> {
      await loop(signal, async () => options.draining() && (needsPerson() || (await nothingLeft())));
      signal.throwIfAborted();
      const { state, reason, remedy } = health.view();
      if (needsPerson()) throw new Error(`The sink "${name}" is ${state}: ${reason} ${remedy}`);
    },
    /** Tries a waiting, paused or stopped sink at once. */
    tryNow(): void {
      health.hurry();
      wake.wake();
    },
    /** A person's decision about a position that does not fit (R20). */
    resolve: (resolution: Resolution, signal: AbortSignal): Promise<void> =>
      alone(async () => {
        await reopen();
        const opened = await openSink(signal);
        try {
          const to = await resolution({ sink: opened, reader, end: options.end });
          await reader.commit(to, {
            ...heldState(),
            written: opened.position && formatPosition(opened.position),
          });
        } finally {
          await opened.close();
        }
        // The rest of an earlier batch says nothing about what is sent from here on.
        rest = undefined;
        againTo = undefined;
        at = reader.position;
        health.afresh();
        wake.wake();
      }),
    close: (): Promise<void> =>
      alone(async () => {
        const closing = sink;
        sink = undefined;
        await closing?.close();
      }),
  };

  function needsPerson(): boolean {
    return health.state === "stopped" || health.state === "paused";
  }

  /** Pages for other readers alone may lie between the position and the journal's end. */
  async function nothingLeft(): Promise<boolean> {
    return !(await reader.hasMore(reader.position));
  }
}

export type Delivery = ReturnType<typeof createDelivery>;

/** One after the other, in the order they were asked for: the calls of a sink never overlap. */
function createTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Promise<Result>): Promise<Result> => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  };
}

function release(leases: readonly PageLease[]): void {
  for (const lease of leases) lease.release();
}

function keyOf(event: JournalEvent): string {
  return `${event.page}:${event.index}`;
}

function isBefore(a: Position, b: Position): boolean {
  return a.page < b.page || (a.page === b.page && a.event < b.event);
}

function withRecords({ from, to }: Batch, records: readonly SinkRecord[]): Batch {
  return { records, from, to };
}
