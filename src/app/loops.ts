import type { Clock } from "../core/clock.ts";
import { isDiskTrouble } from "../core/errors.ts";
import type { Step } from "../core/step.ts";
import type { Wake } from "../core/wake.ts";

const IDLE_MS = 1000;

/** The loops that own the pace of what is not polled or delivered. */
export function createLoops(clock: Clock, wake: Wake) {
  return {
    /** Steps after every append, until the signal aborts, or until it is idle and may end. */
    async follow(step: Step, signal: AbortSignal, until: () => boolean): Promise<void> {
      while (!signal.aborted) {
        const mark = wake.mark();
        if ((await step(signal).catch(waitOutDisk)) === "again") {
          // Sinks come first: a follower gives the others their turn after every bite.
          await new Promise((resolve) => setImmediate(resolve));
          continue;
        }
        if (until()) return;
        await wake.waitSince(mark, IDLE_MS, signal);
      }
    },

    async every(ms: number, signal: AbortSignal, work: () => Promise<unknown> | unknown): Promise<void> {
      while (!signal.aborted) {
        await (async () => work())().catch(waitOutDisk);
        await clock.sleep(ms, signal).catch(() => {});
      }
    },
  };
}

/** A full disk is told by the alarms of polling and of the journal's room; what could not be stored is tried again. */
function waitOutDisk(error: unknown): "idle" {
  if (isDiskTrouble(error)) return "idle";
  throw error;
}

/** Runs parts side by side: the first that fails stops the others, and its error is the one that is told. */
export async function together(
  signal: AbortSignal,
  start: (stop: AbortSignal) => readonly Promise<void>[],
): Promise<void> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const results = await Promise.allSettled(
    start(stop).map((part) =>
      part.catch((error: unknown) => {
        if (!stop.aborted) failed.abort(error);
        throw error;
      }),
    ),
  );
  if (failed.signal.aborted) throw failed.signal.reason;
  const rejected = results.find((result) => result.status === "rejected" && !signal.aborted);
  if (rejected?.status === "rejected") throw rejected.reason;
}
