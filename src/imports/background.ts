import type { Clock } from "../core/clock.ts";
import { explain, isDiskTrouble } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { pause } from "../core/pause.ts";

/**
 * Work on jobs beside the step, so that a slow list, start or result of one job delays nothing else. Work that fails
 * is tried again after a pause; its job's view and the log say why.
 */
export interface Background {
  /** Begins the work, unless it is under way for this job or has failed a moment ago. The signal ends it. */
  begin(
    job: number,
    kind: "send" | "offer" | "results",
    work: () => Promise<void>,
    signal: AbortSignal,
  ): void;
  /** Waits for what began since the last call, as long as that is quick. */
  quick(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is under way. */
  settled(): Promise<void>;
}

export interface BackgroundOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Stores why work failed; undefined when it works again. */
  readonly note: (job: number, reason: string | undefined) => Promise<void>;
}

const QUICK_MS = 1000;
const AGAIN_MS = 60_000;

export function createBackground({ clock, log, note }: BackgroundOptions): Background {
  const underWay = new Map<string, Promise<void>>();
  const failedMs = new Map<string, number>();
  const fresh = new Set<Promise<void>>();

  async function run(
    name: string,
    job: number,
    work: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await work();
      if (failedMs.delete(name)) await note(job, undefined);
    } catch (error) {
      if (signal.aborted) return;
      failedMs.set(name, clock.now());
      // A full disk has an alarm of its own, and nothing can be stored there.
      if (isDiskTrouble(error)) return;
      log.error({ err: error, job }, "Work on an import failed; trying again in a minute.");
      await note(job, explain(error)).catch(() => {});
    }
  }

  return {
    begin(job, kind, work, signal) {
      const name = `${kind} ${job}`;
      const sinceMs = clock.now() - (failedMs.get(name) ?? Number.NEGATIVE_INFINITY);
      // A clock that was set back must not hold up the work.
      if (underWay.has(name) || (sinceMs >= 0 && sinceMs < AGAIN_MS)) return;
      const running = run(name, job, work, signal).finally(() => {
        underWay.delete(name);
        fresh.delete(running);
      });
      underWay.set(name, running);
      fresh.add(running);
    },
    async quick(signal) {
      const begun = [...fresh];
      fresh.clear();
      if (begun.length === 0) return;
      const over = new AbortController();
      const limit = pause(QUICK_MS, AbortSignal.any([signal, over.signal]));
      await Promise.race([Promise.all(begun), limit]);
      over.abort();
    },
    async settled() {
      while (underWay.size > 0) await Promise.all(underWay.values());
    },
  };
}
