import type { ArchiveView } from "../../core/view/archives.ts";
import type { State } from "../database.ts";

interface ArchiveRow {
  readonly name: string;
  readonly size: number;
}

/** The archives, as the state file knows them. */
export function createArchivesView(db: State): () => ArchiveView[] {
  const archives = db.prepare("SELECT name, size FROM archives ORDER BY name");
  const days = db.prepare(
    `SELECT COUNT(*) AS days, MAX(day) AS newest FROM archive_parts p WHERE archive = @name AND kind = 'day'
       AND (parts > 1 OR NOT EXISTS (SELECT 1 FROM archive_plans l WHERE l.archive = @name AND l.kind = 'day' AND l.day = p.day))`,
  );
  const open = db.prepare(
    "SELECT COALESCE(SUM(events), 0) AS events, MIN(CASE kind WHEN 'day' THEN bucket END) AS oldest FROM archive_open WHERE archive = ?",
  );
  const staged = db.prepare("SELECT COALESCE(SUM(bytes), 0) FROM archive_staged WHERE archive = ?").pluck();
  const entry = db.prepare("SELECT entry FROM archive_entries WHERE archive = ? AND number = ?").pluck();
  const fact = db.prepare("SELECT value FROM archive_facts WHERE archive = ? AND key = ?").pluck();

  function viewOf({ name, size }: ArchiveRow): ArchiveView {
    const factOf = (key: string) => fact.get(name, key) as string | undefined;
    const closed = days.get({ name }) as { days: number; newest: string | null };
    const waiting = open.get(name) as { events: number; oldest: string | null };
    const newest = entry.get(name, size - 1) as Buffer | undefined;
    const verified = JSON.parse(factOf("verified") ?? "null") as { findings: number } | null;
    const verifiedMs = factOf("verified_ms");
    return {
      name,
      daysClosed: closed.days,
      newestDay: closed.newest,
      oldestOpenDay: waiting.oldest,
      waitingEvents: waiting.events,
      stagedBytes: staged.get(name) as number,
      logEntries: size,
      checkpointMs: newest === undefined ? null : timeOf(newest),
      verifiedMs: verifiedMs === undefined ? null : Number(verifiedMs),
      findings: verified?.findings ?? null,
      differing: (JSON.parse(factOf("differing") ?? "[]") as { lines: number }[]).reduce(
        (sum, { lines }) => sum + lines,
        0,
      ),
      holds: lengthOf(factOf("holds")),
      dueRemovals: lengthOf(factOf("due")),
    };
  }

  return () => (archives.all() as ArchiveRow[]).map(viewOf);
}

function timeOf(entry: Buffer): number {
  return Date.parse((JSON.parse(entry.toString("utf8")) as { time: string }).time);
}

function lengthOf(json: string | undefined): number {
  return (JSON.parse(json ?? "[]") as unknown[]).length;
}
