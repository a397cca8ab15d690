import { type Clock, createSteadyTime } from "../core/clock.ts";
import { isDiskTrouble } from "../core/errors.ts";
import { runSteps } from "../core/run-steps.ts";
import type { Step } from "../core/step.ts";
import type { Wake } from "../core/wake.ts";

/** Loops for background work. */
export function createLoops(clock: Clock, wake: Wake) {
  return {
    /**
     * Steps after every append, until the signal aborts, or until there is nothing left and it may end. A full disk is
     * waited out, for `troubleMsMax` at most.
     */
    follow(
      step: Step,
      signal: AbortSignal,
      isDone: () => boolean,
      troubleMsMax = Number.POSITIVE_INFINITY,
    ): Promise<void> {
      const steadyMs = createSteadyTime(clock);
      let troubleMs: number | undefined;
      const polite: Step = async (stop) => {
        const more = await step(stop).then(
          (result) => {
            troubleMs = undefined;
            return result;
          },
          (error: unknown) => {
            troubleMs ??= steadyMs();
            if (steadyMs() - troubleMs >= troubleMsMax) throw error;
            return waitOutDisk(error);
          },
        );
        // Sinks come first: a follower gives them their turn after every step.
        if (more === "again") await new Promise((resolve) => setImmediate(resolve));
        return more;
      };
      return runSteps({ step: polite, wake, isDone }, signal);
    },

    async every(ms: number, signal: AbortSignal, work: () => Promise<unknown> | unknown): Promise<void> {
      while (!signal.aborted) {
        await (async () => work())().catch(waitOutDisk);
        await clock.sleep(ms, signal).catch(() => {});
      }
    },
  };
}

export type Loops = ReturnType<typeof createLoops>;

/** Polling and the disk budget raise the alarm for a full disk; this work is tried again. */
function waitOutDisk(error: unknown): "idle" {
  if (isDiskTrouble(error)) return "idle";
  throw error;
}

/** Runs parts side by side. The first that fails stops the others, and its error is reported. */
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
