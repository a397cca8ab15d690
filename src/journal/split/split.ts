import { randomUUID } from "node:crypto";
import type { Shard } from "../../core/shard.ts";
import { shardText } from "../../core/shard.ts";
import { type Connection, openState, type State } from "../database.ts";
import { earlierJournals, metaOf, putMeta, SHARD, setEarlierJournals } from "../shard.ts";
import { copyImports } from "./imports.ts";
import { copyLedger } from "./ledger.ts";
import type { Move, Owners } from "./move.ts";
import { copyPages } from "./pages.ts";
import { copyDeadLetters, copyTotals } from "./rows.ts";

export interface SplitOptions {
  readonly shard: Shard | undefined;
  readonly owners: Owners;
  readonly nowMs: number;
}

/**
 * Makes the state of one shard from the states of all shards before it, into a new file:
 *
 *   1. Identities and the rows of their pages, without bytes, renumbered: what was read is not read as new again.
 *   2. Organizations, windows, gaps. A group that the shard owns only in part becomes a smaller group without
 *      a cursor; what was read of it stays read (R1).
 *   3. Dead letters, jobs and schedules of its organizations. Totals go to shard 0.
 *   4. Every reader at the new journal's end, without a bound.
 *   5. The shard, and the journals that this one continues (R20).
 *
 * Sources are only read. The caller gives the file its name when this has returned.
 */
export function splitStates(target: string, sources: readonly Connection[], options: SplitOptions): void {
  const db = openState(target);
  try {
    db.transaction(() => {
      for (const source of sources) copySource({ db, source, owners: options.owners });
      finish(db, sources, options);
    }).immediate();
    db.pragma("wal_checkpoint(TRUNCATE)");
    db.pragma("journal_mode = DELETE");
  } finally {
    db.close();
  }
}

function copySource(move: Move): void {
  copyPages(move);
  copyLedger(move);
  copyDeadLetters(move);
  copyImports(move);
  if (move.owners.organization(null)) copyTotals(move);
}

function finish(db: State, sources: readonly Connection[], { shard, nowMs }: SplitOptions): void {
  putMeta(db, "journal", randomUUID());
  setEarlierJournals(
    db,
    sources.flatMap((source) => [metaOf(source, "journal")!, ...earlierJournals(source)]),
  );
  if (shard !== undefined) putMeta(db, SHARD, shardText(shard));
  const end = db.prepare("SELECT number, events, rolling FROM pages ORDER BY number DESC LIMIT 1").get() as
    | { number: number; events: number; rolling: string }
    | undefined;
  const insert = db.prepare(
    "INSERT INTO readers (name, page, event, hash, state, bound, committed_ms) VALUES (?, ?, ?, ?, NULL, NULL, ?)",
  );
  const names = sources.flatMap(
    (source) => source.prepare("SELECT name FROM readers").pluck().all() as string[],
  );
  for (const name of new Set(names))
    insert.run(name, end?.number ?? 0, end?.events ?? 0, end?.rolling ?? "", nowMs);
}

/** Whether the state was already made from this journal. */
export function continues(db: Connection, journal: string): boolean {
  return metaOf(db, "journal") === journal || earlierJournals(db).has(journal);
}
