import type { Database } from "better-sqlite3";
import type { Clock } from "../core/clock.ts";
import type { JournalEvent } from "../core/event.ts";
import type { Log } from "../core/log.ts";
import type { Route } from "../core/route.ts";
import type { Step } from "../core/step.ts";
import type { ImportDefinition } from "./config.ts";
import { DEFAULTS } from "./defaults.ts";
import { moveJobs } from "./progress.ts";
import { importRoutes } from "./routes.ts";
import { openScheduler } from "./scheduler.ts";
import type { ImportSource } from "./source.ts";
import { openJobs } from "./store.ts";
import { openTracker } from "./tracker.ts";
import { pollWorkday } from "./workday.ts";

/** Imports in a running process: the tracker, the schedules and the HTTP API over one state file. */
export interface Imports {
  /** Every batch of the journal, in order, at least once. */
  apply(events: readonly JournalEvent[]): void;
  /** Moves jobs on, polls Workday results and starts what is scheduled; to be called every second or so. */
  readonly step: Step;
  readonly routes: readonly Route[];
}

export interface ImportsOptions {
  /** With the tables of the migrations; it stays the caller's to close. */
  readonly db: Database;
  readonly definitions: readonly ImportDefinition[];
  /** The management API of an account; throws for an unknown one. */
  readonly source: (account: string) => ImportSource;
  readonly accounts: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
  /** Up to when an account's events have been read, so that an outage does not look like a job's end. */
  readonly readUntilMs?: (account: string) => number | undefined;
}

export function createImports(options: ImportsOptions): Imports {
  const { db, clock, log, definitions, source, accounts } = options;
  const jobs = openJobs(db);
  const context = { jobs, source, clock, log };
  const tracker = openTracker(db, clock, DEFAULTS);
  const scheduler = openScheduler(db, context, definitions);
  return {
    apply: tracker.apply,
    async step(signal) {
      moveJobs({ db, jobs, log, readUntilMs: options.readUntilMs }, clock.now());
      await pollWorkday(db, context, clock.now(), signal);
      await scheduler.runDue(clock.now(), signal);
      return "idle";
    },
    routes: importRoutes({ ...context, definitions, accounts }),
  };
}
