import { choiceOf, type ImportDefinition } from "./config.ts";
import type { StartContext } from "./context.ts";
import type { JobRow } from "./job.ts";
import { dueRuns, nextRun, type Run } from "./schedule.ts";
import { createJob, type StartOrder } from "./start.ts";
import { OpenJobError } from "./store/jobs.ts";

/** How far back missed runs are recorded one by one. */
const MISSED_MS_MAX = 7 * 86_400_000;

/**
 * Starts scheduled imports. A run is a row for its local date and time before anything is sent, so that neither a
 * crash nor a clock change starts it twice (R28). A run that is later than `catchUp` is missed, and of several that
 * are due only the last is started; both are recorded and logged. When the clock goes back, runs that were recorded as
 * missed for times to come are forgotten, and the schedule is looked at from the last run before the new time on.
 * Runs up to the time at which the state was restored are missed too: the state that was replaced may have started them.
 */
export interface Scheduler {
  /** Records everything that is due at this time, and has the jobs sent. */
  runDue(nowMs: number, send: (job: number) => void): Promise<void>;
}

export function createScheduler(
  context: StartContext,
  definitions: readonly ImportDefinition[],
  restoredMs = 0,
): Scheduler {
  const { runs } = context.store;
  const nextMs = new Map<string, number>();
  let latestMs = 0;

  /** A new or changed schedule counts from now on. */
  async function consideredMs(definition: ImportDefinition, nowMs: number): Promise<number> {
    const { name } = definition;
    const key = keyOf(definition);
    const known = runs.consideredMs(name, key);
    if (known !== undefined && known <= nowMs) return Math.max(known, nowMs - MISSED_MS_MAX);
    if (known !== undefined)
      context.log.warn(
        { import: name },
        "The clock was set back. The schedule goes on after the last run before the new time.",
      );
    return context.store.change(() => {
      const fromMs = (known === undefined ? undefined : runs.forgetFuture(name, nowMs)) ?? nowMs;
      runs.consider(name, key, fromMs);
      return Math.max(fromMs, nowMs - MISSED_MS_MAX);
    });
  }

  async function runOne(
    definition: ImportDefinition,
    nowMs: number,
    send: (job: number) => void,
  ): Promise<void> {
    const { schedule, timeZone, name } = definition;
    if (schedule === undefined || nowMs < (nextMs.get(name) ?? 0)) return;
    const due = dueRuns(schedule, timeZone, await consideredMs(definition, nowMs), nowMs);
    const job = await take(context, definition, due, nowMs, restoredMs);
    nextMs.set(name, nextRun(schedule, timeZone, nowMs)?.ms ?? nowMs + 86_400_000);
    if (job !== undefined) send(job.id);
  }

  return {
    async runDue(nowMs, send) {
      // Times that were planned by a clock that has been set back mean nothing.
      if (nowMs < latestMs) nextMs.clear();
      latestMs = nowMs;
      await Promise.all(definitions.map((definition) => runOne(definition, nowMs, send)));
    },
  };
}

const LATE = "not started in time";
const RESTORED = "the state was restored after its time, and it may have run before";

/** Records what becomes of the runs, and the job's row with it, in one transaction. */
async function take(
  context: StartContext,
  definition: ImportDefinition,
  due: readonly Run[],
  nowMs: number,
  restoredMs: number,
): Promise<JobRow | undefined> {
  const { store, log } = context;
  const { name } = definition;
  const fresh = due.filter((run) => !store.runs.isTaken(name, run));
  const last = fresh.at(-1);
  if (last === undefined) return undefined;
  const isTimely = last.ms >= nowMs - definition.catchUp && last.ms > restoredMs;
  const missed = isTimely ? fresh.slice(0, -1) : fresh;
  return store.change(() => {
    for (const run of missed)
      store.runs.record(name, run, "missed", null, run.ms > restoredMs ? LATE : RESTORED);
    if (missed.length > 0) {
      const scheduled = missed.slice(-10).map((run) => run.local);
      log.warn({ import: name, runs: missed.length, scheduled }, "Scheduled imports were missed.");
    }
    store.runs.consider(name, keyOf(definition), nowMs);
    return isTimely ? startRun(context, definition, last) : undefined;
  });
}

function startRun(context: StartContext, definition: ImportDefinition, run: Run): JobRow | undefined {
  const { store, log } = context;
  const { name } = definition;
  try {
    const job = createJob(context, orderOf(definition));
    store.runs.record(name, run, "started", job.id, null);
    return job;
  } catch (error) {
    if (!(error instanceof OpenJobError)) throw error;
    store.runs.record(name, run, "overlapped", error.job, error.message);
    log.warn(
      { import: name, scheduled: run.local, job: error.job },
      "Scheduled import left out: the last one has not ended.",
    );
    return undefined;
  }
}

function keyOf(definition: ImportDefinition): string {
  return `${definition.schedule} ${definition.timeZone}`;
}

export function orderOf(definition: ImportDefinition): StartOrder {
  return {
    import: definition.name,
    account: definition.account,
    organization: definition.organization,
    application: definition.application,
    workday: definition.workday,
    request: {
      operations: definition.operations,
      allowUserReactivation: definition.allowUserReactivation,
      ...(definition.queryString === undefined ? {} : { queryString: definition.queryString }),
    },
    choice: choiceOf(definition),
    origin: "schedule",
    requestedBy: "schedule",
    quietAfterMs: definition.quietAfter,
    finishAfterMs: definition.finishAfter,
  };
}
