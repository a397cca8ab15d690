import { randomUUID } from "node:crypto";
import type { Alarms } from "../core/alarms.ts";
import type { Clock } from "../core/clock.ts";
import type { JournalEvent } from "../core/event.ts";
import type { Log } from "../core/log.ts";
import type { ReadUntil } from "../core/roster.ts";
import type { Route } from "../core/route.ts";
import type { Step } from "../core/step.ts";
import { createBackground } from "./background.ts";
import type { ImportDefinition } from "./config.ts";
import type { StartContext } from "./context.ts";
import { DEFAULTS } from "./defaults.ts";
import { duePolls } from "./poll-results.ts";
import { moveJobs } from "./progress.ts";
import { readMissingOffers } from "./read-offer.ts";
import { recoverJobs } from "./recover.ts";
import { importRoutes } from "./routes.ts";
import { raiseRunAlarms } from "./run-alarms.ts";
import { createScheduler } from "./scheduler.ts";
import { sendJob } from "./send-parts.ts";
import type { ImportSource } from "./source.ts";
import type { JobNumbering } from "./store/jobs.ts";
import { type ImportState, type ImportStore, openImportStore } from "./store/open.ts";
import { createTracker } from "./tracker.ts";

/** Imports in a running process: the tracker, the schedules and the HTTP API over one state file. */
export interface Imports {
  /** Every batch of the journal, in order, at least once. */
  apply(events: readonly JournalEvent[]): Promise<void>;
  /**
   * Moves jobs on, polls Workday results and starts what is scheduled; to be called every second or so. What the service
   * answers slowly goes on behind it.
   */
  readonly step: Step;
  /** Resolves when nothing of a step goes on; to be awaited after the last step, before the state closes. */
  settled(): Promise<void>;
  readonly routes: readonly Route[];
}

export interface ImportsOptions {
  /** With the tables of the migrations; it stays the caller's to close. */
  readonly db: ImportState;
  readonly definitions: readonly ImportDefinition[];
  /** The management API of an account; throws for an unknown one. */
  readonly source: (account: string) => ImportSource;
  readonly accounts: readonly string[];
  /** Why a job is not this process' to start, where it is not. */
  readonly refusal?: StartContext["refusal"];
  /** The numbers of jobs in a lane of a cluster. */
  readonly numbering?: JobNumbering | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly alarms?: Alarms | undefined;
  /** So that an outage, or an organization that is refused, does not look like a job's end. Absent: up to now. */
  readonly readUntilMs?: ReadUntil;
  /** When the state was put in place of another one. */
  readonly restoredMs?: number | undefined;
}

export function createImports(options: ImportsOptions): Imports {
  const { db, clock, log, definitions, source, accounts, alarms, refusal } = options;
  const { readUntilMs = () => Number.POSITIVE_INFINITY } = options;
  const store = openImportStore(db, options.numbering);
  const context: StartContext = {
    ...{ store, source, clock, log, refusal },
    sender: `run:${randomUUID()}`,
    sending: new Set(),
  };
  const tracker = createTracker(store, clock, DEFAULTS);
  const own = definitions.filter(({ account, organization }) => !refusal?.(account, organization));
  const scheduler = createScheduler(context, own, options.restoredMs);
  const background = createBackground({ clock, log, note: (job, reason) => noteFailure(store, job, reason) });
  return {
    apply: tracker.apply,
    async step(signal) {
      const send = (job: number) =>
        background.begin(job, "send", () => sendJob(context, job, signal), signal);
      // A part is sent again before silence ends its job.
      await recoverJobs(context, readUntilMs, send);
      await moveJobs({ store, log, readUntilMs }, clock.now());
      readMissingOffers(
        context,
        clock.now(),
        ({ id }, work) => background.begin(id, "offer", work, signal),
        signal,
      );
      for (const { job, poll } of duePolls(context, clock.now(), signal))
        background.begin(job, "results", poll, signal);
      await scheduler.runDue(clock.now(), send);
      await background.quick(signal);
      if (alarms !== undefined) raiseRunAlarms(store, own, alarms);
      return "idle";
    },
    settled: background.settled,
    routes: importRoutes({ ...context, definitions, accounts }),
  };
}

const FAILURE = "Tidemark could not go on with it, and tries again every minute: ";

async function noteFailure(store: ImportStore, id: number, reason: string | undefined): Promise<void> {
  await store.change(() => {
    const job = store.jobs.row(id);
    const isNoted = job?.reason?.startsWith(FAILURE) === true;
    if (job === undefined || job.ended_ms !== null || (reason === undefined && !isNoted)) return;
    const words = reason === undefined ? null : `${FAILURE}${reason}`.slice(0, 500);
    store.jobs.move(id, job.state, job.state_ms, { reason: words });
  });
}
