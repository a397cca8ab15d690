import { join } from "node:path";
import type Database from "better-sqlite3";
import { createModelChangelog, type ModelChangelog } from "../../../sim/changelog.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { Sqlite } from "../../../src/core/sqlite.ts";
import { createJournal, type SqliteJournal } from "../../../src/journal/journal.ts";
import type { LaneOptions } from "../../../src/journal/replication/bring-up.ts";
import { type OpenedLane, openLane } from "../../../src/journal/replication/open.ts";
import { temporaryFolder } from "../support.ts";

/** A lane over the model of the changelog, with files of several machines. */
export interface LaneFixture {
  readonly changelog: ModelChangelog;
  fileOf(machine: string): string;
  open(machine?: string, options?: Partial<LaneOptions>): Promise<OpenedLane & { journal: SqliteJournal }>;
  close(): Promise<void>;
}

export function laneFixture(changelog: ModelChangelog = createModelChangelog()): LaneFixture {
  const folder = temporaryFolder();
  const opened: OpenedLane[] = [];
  changelog.create("c1", 2);
  const fileOf = (machine: string) => join(folder.path, `${machine}.db`);
  return {
    changelog,
    fileOf,
    async open(machine = "one", options = {}) {
      const signal = new AbortController().signal;
      const lane = await openLane({ file: fileOf(machine), changelog, lane: 0, machine, signal, ...options });
      opened.push(lane);
      return { ...lane, journal: createJournal(lane.state, systemClock) };
    },
    async close() {
      for (const lane of opened.splice(0)) await lane.close();
      folder.remove();
    },
  };
}

/** Every row of every table that is replicated. `last_seen_ms` is not, where it changes alone (C18). */
export function contentOf(file: string): Record<string, unknown[]> {
  const db = new Sqlite(file, { readonly: true });
  try {
    const names = db
      .prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'replica_%' AND name <> 'migrations' ORDER BY name",
      )
      .pluck()
      .all() as string[];
    return Object.fromEntries(names.map((name) => [name, rowsOf(db, name)]));
  } finally {
    db.close();
  }
}

function rowsOf(db: Database.Database, table: string): unknown[] {
  const rows = db.prepare(`SELECT * FROM "${table}"`).all() as Record<string, unknown>[];
  return rows
    .filter((row) => table !== "meta" || row.key !== "live")
    .map(({ last_seen_ms: _, ...row }) => row)
    .sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
}
