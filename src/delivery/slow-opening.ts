import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { formatDuration } from "../core/time.ts";

/** Usual openings take a second; a run that says nothing for longer looks hung. */
const SLOW_MS = 10_000;

interface Watched {
  readonly clock: Clock;
  readonly log: Log;
  /** Reports what a long opening waits for; undefined: it has ended. */
  waits(reason: string | undefined): void;
}

/** Reports an opening that takes long, after ten seconds and whenever the time has doubled. */
export function createOpeningWatch({ clock, log, waits }: Watched) {
  let waitingFor: string | undefined;

  async function report(signal: AbortSignal): Promise<void> {
    for (let tookMs = SLOW_MS, sleepMs = SLOW_MS; ; sleepMs = tookMs, tookMs *= 2) {
      await clock.sleep(sleepMs, signal);
      const what = waitingFor ?? "an answer of the destination";
      log.warn({ waitingFor: what, tookMs }, "A sink takes long to open; still waiting.");
      waits(`It has been opening for more than ${formatDuration(tookMs)} and waits for ${what}.`);
    }
  }

  return {
    /** Given to the sink. */
    waitsFor(what: string): void {
      waitingFor = what;
    },
    async during<Value>(opening: Promise<Value>): Promise<Value> {
      const ended = new AbortController();
      report(ended.signal).catch(() => {});
      try {
        return await opening;
      } finally {
        ended.abort();
        waitingFor = undefined;
        waits(undefined);
      }
    },
  };
}
