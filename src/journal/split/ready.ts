import type { Connection } from "../database.ts";

/**
 * Why the state cannot be split now; empty when it can. Everything that was read must have arrived: positions
 * belong to one journal, and the new shards begin with journals of their own.
 */
export function splitProblems(db: Connection): string[] {
  return [...readerProblems(db), ...backfillProblems(db), ...archiveProblems(db)];
}

function* readerProblems(db: Connection): Generator<string> {
  const behind = db
    .prepare(
      `SELECT r.name FROM readers r WHERE EXISTS (SELECT 1 FROM pages p WHERE p.number >= r.page
         AND (p.number > r.page OR p.events > r.event) AND (p.reader IS NULL OR p.reader = r.name)
         AND EXISTS (SELECT 1 FROM bodies b WHERE b.page = p.number)) ORDER BY r.name`,
    )
    .pluck()
    .all() as string[];
  for (const name of behind)
    yield name.startsWith("~")
      ? `the program has not looked at all events (${name})`
      : `the sink "${name}" has not delivered everything`;
  const bound = db.prepare("SELECT name FROM readers WHERE bound IS NOT NULL").pluck().all() as string[];
  for (const name of bound) yield `a batch of the sink "${name}" is not confirmed yet`;
}

/** It is read without dedupe, so a part that is read again would arrive twice (R21). */
function* backfillProblems(db: Connection): Generator<string> {
  const sinks = db.prepare("SELECT DISTINCT reader FROM windows WHERE reader IS NOT NULL").pluck().all();
  for (const name of sinks as string[]) yield `a backfill for the sink "${name}" alone is under way`;
}

/** The log of an archive has one writer and cannot be cut in two. */
function* archiveProblems(db: Connection): Generator<string> {
  const names = db.prepare("SELECT name FROM archives").pluck().all() as string[];
  for (const name of names)
    yield `it holds the archive "${name}", whose log cannot be split: the number of shards is fixed once an archive has begun`;
}
