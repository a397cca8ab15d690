import { type Clock, createSteadyTime } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { formatDuration } from "../core/time.ts";

type Work = "opening" | "writing";

/** Usual openings take a second; a run that says nothing for longer looks hung. Large writes take longer. */
const SLOW_MS: Readonly<Record<Work, number>> = { opening: 10_000, writing: 30_000 };
const SENTENCES: Readonly<Record<Work, string>> = {
  opening: "A sink takes long to open; still waiting.",
  writing: "A sink takes long to write; still waiting.",
};

interface Watched {
  readonly clock: Clock;
  readonly log: Log;
  /** Reports what the sink waits for; undefined: no longer. */
  waits(reason: string | undefined): void;
}

/**
 * Reports a sink that takes long, and again whenever the time has doubled. The time counts from the last write that
 * ended. A destination that took its last write slowly is given twice as long: it is slow, but does not hang.
 */
export function createSlowWatch({ clock, log, waits }: Watched) {
  const steadyMs = createSteadyTime(clock);
  let waitingFor: string | undefined;
  let underWay = 0;
  let sinceMs = 0;
  let isReported = false;
  let writingMs = SLOW_MS.writing;
  let stop = new AbortController();

  async function report(work: Work, signal: AbortSignal): Promise<void> {
    let tookMs = work === "writing" ? writingMs : SLOW_MS[work];
    for (let sleepMs = tookMs; ; sleepMs = tookMs, tookMs *= 2) {
      await clock.sleep(sleepMs, signal);
      isReported = true;
      const what = waitingFor ?? "the destination";
      log.warn({ waitingFor: what, tookMs }, SENTENCES[work]);
      waits(`It has been ${work} for more than ${formatDuration(tookMs)} and waits for ${what}.`);
    }
  }

  function startAgain(work: Work): void {
    stop.abort();
    if (isReported) waits(undefined);
    isReported = false;
    sinceMs = steadyMs();
    if (underWay === 0) {
      waitingFor = undefined;
      return;
    }
    stop = new AbortController();
    report(work, stop.signal).catch(() => {});
  }

  return {
    /** Given to the sink. */
    waitsFor(what: string): void {
      waitingFor = what;
    },
    async during<Value>(work: Work, result: Promise<Value>): Promise<Value> {
      if (underWay++ === 0) startAgain(work);
      let patienceMs = SLOW_MS.writing;
      try {
        const value = await result;
        patienceMs = Math.max(patienceMs, 2 * (steadyMs() - sinceMs));
        return value;
      } finally {
        underWay--;
        if (work === "writing") writingMs = patienceMs;
        startAgain(work);
      }
    },
  };
}

export type SlowWatch = ReturnType<typeof createSlowWatch>;
