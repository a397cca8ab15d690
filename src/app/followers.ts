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
import { DRIFT, TRACKER } from "./sinks.ts";

/** The import tracker as a reader of the journal: it applies an event again without harm. */
export async function followImports(
  journal: SqliteJournal,
  clock: Clock,
  apply: (events: readonly JournalEvent[]) => void | Promise<void>,
): Promise<Follower> {
  const reader = await journal.reader(TRACKER);
  return createFollower({
    reader,
    clock,
    async apply(page, from, to) {
      const events: JournalEvent[] = [];
      for (let index = from; index < to; index++)
        if (page.hasCorrelation(index)) events.push(page.event(index));
      if (events.length > 0) await apply(events);
    },
    commit: (to) => reader.commit(to, undefined),
  });
}

/** Counts drift; counts and position move together, so that a crash counts nothing twice. */
export async function followDrift(
  journal: SqliteJournal,
  db: State,
  clock: Clock,
  metrics: Metrics,
): Promise<Follower> {
  const reader = await journal.reader(DRIFT);
  const drift = createDrift(undefined, lostClass);
  const store = createDriftStore(db);
  const stored = store.rows();
  drift.load(stored);
  const counted = new Map(stored.map((row) => [keyOf(row), row.count]));
  return createFollower({
    reader,
    clock,
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
