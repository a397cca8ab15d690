import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { DriftRow } from "../core/drift.ts";
import type { JournalEvent } from "../core/event.ts";
import type { Metrics } from "../core/metrics.ts";
import { createFollower, type Follower } from "../delivery/follow.ts";
import { lostClass } from "../formats/ocsf.ts";
import type { State } from "../journal/database.ts";
import { createDriftStore } from "../journal/drift-counts.ts";
import type { SqliteJournal } from "../journal/journal.ts";
import { createDrift } from "../services/count-drift.ts";
import { isOcsfUsed } from "./sinks.ts";

/** Readers of the program itself; a sink cannot have such a name. */
export const TRACKER = "~imports";
export const DRIFT = "~drift";

export interface FollowersParts {
  readonly config: Pick<Config, "drift" | "sinks">;
  readonly journal: SqliteJournal;
  readonly db: State;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** True while nothing more will come. */
  draining(): boolean;
  applyImports(events: readonly JournalEvent[]): void | Promise<void>;
}

/** The readers of the journal inside the program. */
export async function openFollowers(parts: FollowersParts): Promise<readonly Follower[]> {
  const imports = await followImports(parts);
  if (parts.config.drift) return [imports, await followDrift(parts)];
  await parts.journal.readers.forget(DRIFT);
  return [imports];
}

/** The import tracker as a reader of the journal: it applies an event again without harm. */
async function followImports({ journal, clock, draining, applyImports }: FollowersParts): Promise<Follower> {
  const reader = await journal.reader(TRACKER);
  return createFollower({
    reader,
    clock,
    async apply(page, from, to) {
      const events: JournalEvent[] = [];
      for (let index = from; index < to; index++)
        if (page.hasCorrelation(index)) events.push(page.event(index));
      if (events.length > 0) await applyImports(events);
    },
    commit: (to) => reader.commit(to, undefined),
    draining,
  });
}

/** Counts drift; counts and position move together, so that a crash counts nothing twice. */
async function followDrift(parts: FollowersParts): Promise<Follower> {
  const { config, journal, db, clock, draining, metrics } = parts;
  const reader = await journal.reader(DRIFT);
  // The class of an event matters where it is written.
  const drift = createDrift(undefined, isOcsfUsed(config) ? lostClass : undefined);
  const store = createDriftStore(db);
  const stored = store.rows();
  drift.load(stored);
  const counted = new Map(stored.map((row) => [keyOf(row), row.count]));
  return createFollower({
    reader,
    clock,
    draining,
    apply: (page, from, to) => drift.observePage(page, from, to),
    async commit(to) {
      const rows = drift.flush();
      await store.save(rows, () => journal.readers.move(DRIFT, to));
      for (const row of rows) {
        const { service, kind } = row;
        metrics.add("tidemark_drift_events_total", row.count - (counted.get(keyOf(row)) ?? 0), {
          service,
          kind,
        });
        counted.set(keyOf(row), row.count);
      }
    },
  });
}

function keyOf({ service, kind, path, detail }: DriftRow): string {
  return JSON.stringify([service, kind, path, detail]);
}
