import type { Clock } from "../core/clock.ts";
import { RejectedEventsError, RetryableError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Batch, Sink } from "../core/sink.ts";
import type { Wake } from "../core/wake.ts";
import type { EncodedMemory } from "./encoded-memory.ts";
import { createFlights, type Landed } from "./flights.ts";
import { type createNextBatch, release } from "./next-batch.ts";
import type { Progress } from "./progress.ts";
import { without } from "./records.ts";
import type { SlowWatch } from "./slow.ts";
import type { Untaken } from "./untaken.ts";

interface PipelineParts {
  readonly clock: Clock;
  readonly wake: Wake;
  readonly log: Log;
  readonly progress: Progress;
  readonly nextBatch: ReturnType<typeof createNextBatch>;
  readonly encodedMemory: EncodedMemory;
  readonly slowWatch: SlowWatch;
  readonly untaken: Pick<Untaken, "ended">;
  /** Commits a write, or throws its error. */
  landed(flight: Landed): Promise<void>;
  /** Called for what was written behind a write that failed. */
  wroteAhead(batch: Batch): void;
}

/**
 * begun: one more may be begun · full: the oldest one has to land first · empty: there is nothing to write ·
 * young: an unfilled batch waits so long for more events
 */
export type Begun = "begun" | "full" | "empty" | { readonly youngForMs: number };

/** How long events that came without a wake may wait while writes are in flight. */
const MORE_EVENTS_MS = 1000;

/** Keeps as many writes in flight as the sink takes. */
export function createPipeline(parts: PipelineParts) {
  const { wake, log, progress, nextBatch, landed, wroteAhead, slowWatch } = parts;
  const flights = createFlights(parts.clock);

  async function begin(sink: Sink, signal: AbortSignal): Promise<Begun> {
    // While a batch is cut, those behind it would fail in vain for the same reason, again and again.
    const writesMax = progress.isCutting ? 1 : (sink.writesMax ?? 1);
    if (flights.size >= writesMax || flights.hasFailed) return "full";
    if (flights.size > 0 && !parts.encodedMemory.hasRoom()) return "full";
    const mark = wake.mark();
    const next = await nextBatch(sink, progress, flights.front).catch((error: unknown) => {
      // What is in flight lands and is committed first; then the error comes again.
      if (flights.size === 0) throw error;
      return undefined;
    });
    if (next === undefined) return "full";
    switch (next.kind) {
      case "write": {
        const { batch } = next;
        flights.begin({ batch, to: batch.to }, () => slowWatch.during("writing", sink.write(batch, signal)));
        break;
      }
      case "pass":
        flights.begin({ batch: undefined, to: next.to }, async () => undefined);
        // Committed first, so that the batch behind it begins there after a crash too: it is known by its bounds (R19).
        if (flights.size === 1) return "full";
        break;
      case "wait":
        if (flights.size > 0) return (await isOldestDone(mark, signal)) ? "full" : "begun";
        return next.isEmpty ? "empty" : { youngForMs: next.forMs };
    }
    return flights.size < writesMax ? "begun" : "full";
  }

  /** Waits for the oldest write, or until there may be more events to write. */
  async function isOldestDone(mark: number, signal: AbortSignal): Promise<boolean> {
    const stop = new AbortController();
    const more = wake.waitSince(mark, MORE_EVENTS_MS, AbortSignal.any([signal, stop.signal]));
    try {
      return await flights.isOldestDone(more);
    } finally {
      stop.abort();
    }
  }

  /** After an error: lets all other writes end. Those that succeeded are not written again. */
  async function landOthers(): Promise<void> {
    for (let other = await flights.land(); other !== undefined; other = await flights.land()) {
      const { batch, outcome } = other;
      if (batch === undefined) continue;
      parts.untaken.ended("error" in outcome ? outcome.error : undefined);
      const isWhole = "state" in outcome;
      const written = isWhole ? batch : without(batch, leftBy(outcome.error, batch));
      if (isWhole || written.records.length > 0) {
        progress.wroteAhead(written, isWhole);
        wroteAhead(written);
      }
      release(batch.leases);
    }
  }

  return {
    begin,
    land: flights.land,
    landOthers,
    /** Lets all writes end and commits as many as can be. */
    async settle(): Promise<void> {
      for (let flight = await flights.land(); flight !== undefined; flight = await flights.land()) {
        try {
          await landed(flight);
        } catch (error) {
          log.debug({ err: error }, "A write had not ended when the sink was closed.");
          parts.untaken.ended(error);
          await landOthers();
        } finally {
          release(flight.batch?.leases ?? []);
        }
      }
    },
  };
}

/** The records of a batch that its failed write left. Its error comes again when they are written. */
function leftBy(error: unknown, { records }: Batch): Iterable<number> {
  const isPartial = error instanceof RetryableError || error instanceof RejectedEventsError;
  if (!isPartial || (error instanceof RetryableError && error.remaining === undefined)) return records.keys();
  const rejected = error instanceof RejectedEventsError ? error.rejected.map(({ index }) => index) : [];
  return [...rejected, ...(error.remaining ?? [])];
}
