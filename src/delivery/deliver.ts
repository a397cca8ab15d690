import { RetryableError } from "../core/errors.ts";
import type { DeadLetter } from "../core/journal.ts";
import { comparePositions, formatPosition, type Position } from "../core/position.ts";
import { reasonGroupOf } from "../core/reason-group.ts";
import { runSteps, type StepLoop } from "../core/run-steps.ts";
import { type Batch, type Sink, type SinkState, totalsOf } from "../core/sink.ts";
import type { Step } from "../core/step.ts";
import { type Consequence, consequenceOf, createRefusals } from "./consequence.ts";
import { createEncodedMemory } from "./encoded-memory.ts";
import type { Landed } from "./flights.ts";
import { createHealth } from "./health.ts";
import { isMisfit } from "./misfits.ts";
import { createNextBatch, release } from "./next-batch.ts";
import { createOpener } from "./opening.ts";
import type { DeliveryOptions, DeliveryStatus } from "./options.ts";
import { createPipeline } from "./pipeline.ts";
import { judgePosition, type ReaderState, type Resolution, resolved } from "./position.ts";
import { createProgress } from "./progress.ts";
import { createQueue } from "./queue.ts";
import { createReaderLetters } from "./reader-letters.ts";
import { without } from "./records.ts";
import { createSlowWatch } from "./slow.ts";
import { createUntaken } from "./untaken.ts";

/*
 * Delivers the journal to one sink. One step is one of these:
 *
 *   the sink is stopped, or a wait is not over    nothing
 *   it is not open                                open it, and decide by its own position where to go on (R20)
 *   there is a batch, and the sink takes a write  begin it
 *   writes are in flight                          wait for the oldest, then commit its position
 *   there is neither                              wait
 *   any of that fails                             let the writes in flight end, then the one consequence of the
 *                                                 error (consequence.ts); a sink that delivers exactly once is
 *                                                 closed and opened again (R17)
 *
 * Most sinks take one write at a time, which a step begins and ends. The step decides; core/run-steps.ts owns pace
 * and waiting. A delivery knows nothing of other sinks; they share the memory for encoded events (encoded-lines.ts).
 */
export function createDelivery(options: DeliveryOptions) {
  const { name, definition, reader, clock, log, metrics, wake } = options;
  const exactlyOnce = definition.guarantee === "exactly_once";
  const health = createHealth(name, clock, log, options.alarms);
  const slowWatch = createSlowWatch({ clock, log, waits: health.waits });
  const progress = createProgress(reader.position);
  const refusals = createRefusals();
  const letters = createReaderLetters(reader);
  const { encodedMemory = createEncodedMemory() } = options;
  const opener = createOpener(options, { limited: health.limited, waitsFor: slowWatch.waitsFor });
  const nextBatch = createNextBatch({ ...options, opener, encodedMemory, bury });
  const untaken = createUntaken(reader, definition);
  const pipeline = createPipeline({
    ...{ ...options, encodedMemory, progress, nextBatch, landed, slowWatch, untaken },
    wroteAhead: count,
  });
  const totals = { sentEvents: 0, deadLetters: 0, lastWriteMs: null as number | null };
  const readerState = () => (reader.state as ReaderState | undefined) ?? {};
  const alone = createQueue();
  let sink: Sink | undefined;
  /** How long an unfilled batch waits. */
  let youngForMs: number | undefined;

  const step: Step = (signal) => alone(() => attempt(signal));

  async function attempt(signal: AbortSignal): Promise<"again" | "idle"> {
    if (health.state === "stopped" || health.waitMs() > 0) return "idle";
    let flight: Landed | undefined;
    youngForMs = undefined;
    try {
      if (sink !== undefined && opener.isOver()) await reopen();
      const begun = await pipeline.begin(sink ?? (await open(signal)), signal);
      if (begun === "empty") health.running();
      if (typeof begun === "object") ({ youngForMs } = begun);
      if (begun === "empty" || typeof begun === "object") return "idle";
      if (begun === "begun") return "again";
      flight = await pipeline.land();
      await landed(flight!);
      return "again";
    } catch (error) {
      if (flight?.batch !== undefined) untaken.ended(error);
      await pipeline.landOthers();
      if (signal.aborted) {
        // How much of it was written is unknown: a later step must not repeat it in place (R17).
        if (exactlyOnce) await reopen();
        throw signal.reason;
      }
      const batch = flight?.batch;
      // A consequence writes too (dead letters, the position); its own failure has a consequence like any other.
      await meet(error, batch).catch((failure: unknown) => meet(failure, batch));
      return health.waitMs() > 0 ? "idle" : "again";
    } finally {
      // No batch outlives its write: one that is written again is formed again.
      release(flight?.batch?.leases ?? []);
    }
  }

  async function landed({ batch, to, outcome, tookMs }: Landed): Promise<void> {
    if ("error" in outcome) throw outcome.error;
    if (batch === undefined) return pass(to);
    metrics.record("tidemark_sink_write_seconds", tookMs / 1000, { sink: name });
    await written(batch, outcome.state, sink?.limits.recordsMax ?? Number.POSITIVE_INFINITY);
  }

  async function open(signal: AbortSignal): Promise<Sink> {
    const opened = await slowWatch.during("opening", opener.open(signal));
    try {
      const isAsRestored = options.isAsRestored?.() ?? false;
      const facts = { isAsRestored, earlierJournals: options.earlierJournals, type: definition.type };
      const at = await judgePosition(name, opened, reader, readerState(), facts);
      // The destination has a batch whose position was not committed: a crash between the two.
      if (comparePositions(reader.position, at) < 0)
        await reader.commit(at, resolved(at, readerState().sink, readerState()));
      progress.reopened(at);
      const kept = await reader.deadLettersAfter(at);
      progress.leaveOut(kept.filter(({ reason }) => isMisfit(reason)));
      letters.reopen(kept.filter(({ reason }) => !isMisfit(reason)));
    } catch (error) {
      await opened.close();
      throw error;
    }
    sink = opened;
    return opened;
  }

  async function pass(to: Position): Promise<void> {
    await letters.commit(to, reader.state);
    progress.passed(to);
  }

  async function written(batch: Batch, newState: SinkState | undefined, recordsMax: number): Promise<void> {
    letters.took(batch);
    try {
      // A sink that keeps no position may get one later, by a change of its config: nothing to compare then.
      const at = sink !== undefined && "position" in sink ? batch.to : undefined;
      await letters.commit(batch.to, resolved(at, newState, readerState(), definition.type));
    } catch (error) {
      // Destination and journal may differ now; only opening the sink again tells (R17).
      if (exactlyOnce) await reopen();
      throw new RetryableError("The position could not be committed.", { cause: error });
    }
    untaken.committed();
    progress.wrote(batch.to, recordsMax);
    count(batch);
    health.wrote();
  }

  function count(batch: Batch): void {
    const { count: events, bytes } = totalsOf(batch);
    letters.took(batch);
    refusals.took(events);
    totals.sentEvents += events;
    totals.lastWriteMs = clock.now();
    metrics.add("tidemark_sink_sent_events_total", events, { sink: name });
    metrics.add("tidemark_sink_sent_bytes_total", bytes, { sink: name });
  }

  async function meet(error: unknown, batch: Batch | undefined): Promise<void> {
    metrics.add("tidemark_sink_errors_total", 1, { sink: name, kind: kindOf(error) });
    // Unless the error says otherwise the batch is written again. A sink that is opened again may be past it.
    if (batch !== undefined && !exactlyOnce) progress.again(batch);
    const records = batch === undefined ? undefined : totalsOf(batch).count;
    const consequence = consequenceOf(error, records, refusals);
    switch (consequence.kind) {
      case "retry":
        if (batch !== undefined && consequence.error.remaining !== undefined)
          leave(batch, consequence.error.remaining);
        health.retrying(consequence.error, consequence.isUnexpected);
        break;
      case "halve":
        progress.halved(consequence.recordsMax, batch);
        break;
      case "bury":
        await rejected(consequence, batch!);
        break;
      case "pause":
        await untaken.refused();
        health.paused(consequence.reason, opener.explained(consequence.remedy));
        break;
      case "stop":
        health.stopped(consequence.reason, consequence.remedy);
        break;
    }
    if (exactlyOnce && sink !== undefined) await reopen();
  }

  async function rejected(
    { rejected: refused, again }: Consequence & { kind: "bury" },
    batch: Batch,
  ): Promise<void> {
    await bury(
      refused.map(({ index, reason, answer }) => ({ event: batch.records[index]!.event, reason, answer })),
    );
    refusals.refused(refused.filter(({ isOld }) => isOld !== true).length);
    const gone = refused.map(({ index }) => index);
    if (again.length > 0) return leave(batch, again, gone);
    progress.leave(batch, again);
    const others = without(batch, gone);
    if (others.records.length === 0) return pass(batch.to);
    await written(others, readerState().sink, sink?.limits.recordsMax ?? Number.POSITIVE_INFINITY);
  }

  /** Only these records are written again. All others were taken now, but for the refused ones. */
  function leave(batch: Batch, again: readonly number[], refused: readonly number[] = []): void {
    progress.leave(batch, again);
    const taken = without(batch, [...again, ...refused]);
    if (taken.records.length > 0) count(taken);
  }

  async function bury(added: readonly DeadLetter[]): Promise<void> {
    await letters.add(added);
    totals.deadLetters += added.length;
    const reason = reasonGroupOf(added[0]?.reason ?? "");
    log.warn({ count: added.length, reason }, "Events became dead letters.");
  }

  /** After any error an exactly-once sink is closed, opened again, and goes on from the position that yields (R17). */
  async function reopen(): Promise<void> {
    const closing = sink;
    sink = undefined;
    progress.reopened(reader.position);
    await closing?.close().catch((error: unknown) => log.debug({ err: error }, "Closing a sink failed."));
  }

  /** Moves the position to the operator's choice (R20). */
  async function resolve(resolution: Resolution, signal: AbortSignal): Promise<void> {
    await pipeline.settle();
    await reopen();
    const opened = await slowWatch.during("opening", opener.open(signal, { asConfigured: true }));
    try {
      const to = await resolution({ sink: opened, reader, end: options.end });
      const atDestination = opened.position && formatPosition(opened.position);
      // The choice counts for batches that were begun too: they are cut, named and written as this config says.
      const state = { ...readerState(), written: atDestination, layout: undefined, begun: undefined };
      // Together with the position: without it, `written` would let the sink go on from the old one.
      await reader.commit(to, state);
      await reader.setBounds([]);
    } finally {
      await opened.close();
    }
    progress.placed(reader.position);
    health.afresh();
    wake.wake();
  }

  /** Nothing more will come, and everything is delivered or cannot be without the operator (R39). */
  async function isDrained(): Promise<boolean> {
    return options.draining() && (health.isStuck() || !(await reader.hasMore(reader.position)));
  }

  const loop: StepLoop = { step, wake, waitMs: health.waitMs, idleMs: () => youngForMs };

  return {
    step,
    run: (signal: AbortSignal) => runSteps(loop, signal),
    /** Until nothing more will come and everything is delivered; rejects when this sink cannot go on. */
    async drain(signal: AbortSignal): Promise<void> {
      await runSteps({ ...loop, isDone: isDrained }, signal);
      signal.throwIfAborted();
      const { state, reason, remedy } = health.view();
      if (state === "stopped" || state === "paused" || (await reader.hasMore(reader.position)))
        throw new Error(
          `The sink "${name}" is ${state}: ${reason?.replace(/\.$/, "") ?? "no reason is known"}. ${remedy}`,
        );
    },
    status: (): DeliveryStatus => ({
      name,
      type: definition.type,
      ...health.view(),
      position: reader.position,
      ...totals,
    }),
    /** Tries a waiting, paused or stopped sink at once. */
    tryNow(): void {
      health.hurry();
      wake.wake();
    },
    resolve: (resolution: Resolution, signal: AbortSignal): Promise<void> =>
      alone(() => resolve(resolution, signal)),
    close: (): Promise<void> =>
      alone(async () => {
        await pipeline.settle();
        const closing = sink;
        sink = undefined;
        await closing?.close();
      }),
  };
}

export type Delivery = ReturnType<typeof createDelivery>;

function kindOf(error: unknown): string {
  return error instanceof Error ? error.name : "unknown";
}
