import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../../core/errors.ts";
import { type Shard, shardText } from "../../core/shard.ts";
import { setAside } from "../backup.ts";
import { sync, temporaryName } from "../copy.ts";
import { type Connection, openStateForReading } from "../database.ts";
import { finalBackupMs, metaOf, shardOfState } from "../shard.ts";
import { verifyState } from "../verify.ts";
import { splitProblems } from "./ready.ts";
import { continues, type SplitOptions, splitStates } from "./split.ts";

/** The contents of the new state. */
export interface Resharded {
  readonly journal: string;
  readonly organizations: number;
  readonly windows: number;
  readonly events: number;
  readonly deadLetters: number;
  /** The name under which the state before is kept; null where there was none. */
  readonly aside: string | null;
}

const MODE = 0o600;

/**
 * Makes this shard's state from the final copies of all old shards, and puts it in place. The caller holds the
 * lock of the state file. Everything is checked before anything is touched; a process that ends in the middle
 * leaves the old file.
 */
export function reshard(file: string, copies: readonly string[], options: SplitOptions): Resharded {
  const sources: { copy: string; db: Connection }[] = [];
  const temporary = temporaryName(file);
  try {
    for (const copy of copies) sources.push({ copy, db: openCopy(copy) });
    refuseIncomplete(sources);
    refuseRepeated(file, sources);
    splitStates(
      temporary,
      sources.map(({ db }) => db),
      options,
    );
    const facts = factsOf(temporary);
    chmodSync(temporary, MODE);
    sync(temporary);
    const aside = setAside(file, options.nowMs);
    renameSync(temporary, file);
    sync(dirname(file));
    return { ...facts, aside };
  } finally {
    for (const { db } of sources) db.close();
    for (const left of ["", "-journal", "-wal", "-shm"]) rmSync(`${temporary}${left}`, { force: true });
  }
}

function openCopy(copy: string): Connection {
  if (!existsSync(copy)) throw new UsageError(`There is no file ${copy}.`);
  const db = openStateForReading(copy);
  try {
    const { problems } = verifyState(db);
    if (problems.length > 0)
      throw new UsageError(
        `${copy} is no whole copy of a state file (${problems.join("; ")}): nothing was changed.`,
      );
    if (finalBackupMs(db) === undefined)
      throw new UsageError(
        `${copy} is no final copy: its process may have gone on, and events would arrive twice. Stop the old shard, run "tidemark run --once", then "tidemark backup --final FILE". Nothing was changed.`,
      );
    const unready = splitProblems(db);
    if (unready.length > 0) throw new UsageError(`${copy} cannot be split: ${unready.join("; ")}.`);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

type Source = { readonly copy: string; readonly db: Connection };

/** Exactly the copies of all old shards: a missing one would lose its organizations' place. */
function refuseIncomplete(sources: readonly Source[]): void {
  const shards = sources.map(({ copy, db }) => ({ copy, shard: shardOfState(db) }));
  const whole = shards.filter(({ shard }) => shard === undefined);
  if (whole.length > 0) {
    if (shards.length === 1) return;
    throw new UsageError(
      `${whole[0]!.copy} holds all organizations, so it must be the only copy. Nothing was changed.`,
    );
  }
  const { count } = shards[0]!.shard!;
  const other = shards.find(({ shard }) => shard!.count !== count);
  if (other !== undefined)
    throw new UsageError(
      `The copies are of different numbers of shards: ${shards[0]!.copy} is ${textOf(shards[0]!.shard)}, ${other.copy} is ${textOf(other.shard)}. Nothing was changed.`,
    );
  const wrong: string[] = [];
  for (let index = 0; index < count; index++) {
    const found = shards.filter(({ shard }) => shard!.index === index);
    if (found.length === 0) wrong.push(`the copy of shard ${index}/${count} is missing`);
    if (found.length > 1)
      wrong.push(`shard ${index}/${count} is there twice: ${found.map(({ copy }) => copy).join(" and ")}`);
  }
  if (wrong.length > 0)
    throw new UsageError(
      `The final copies of all ${count} old shards are needed: ${wrong.join("; ")}. Nothing was changed.`,
    );
}

function textOf(shard: Shard | undefined): string {
  return shard === undefined ? "no shard" : `shard ${shardText(shard)}`;
}

/** A state that was made from these copies may have worked since: making it again would repeat that work. */
function refuseRepeated(file: string, sources: readonly Source[]): void {
  if (!existsSync(file)) return;
  const db = openStateForReading(file);
  try {
    const journal = metaOf(db, "journal");
    for (const { copy, db: source } of sources) {
      const old = metaOf(source, "journal")!;
      if (!continues(db, old) || (journal === old && finalBackupMs(db) !== undefined)) continue;
      throw new UsageError(
        journal === old
          ? `The state file ${file} was taken into use again after its final copy ${copy} was made. Make a new final copy. Nothing was changed.`
          : `The state file ${file} was made from ${copy} already, and may have delivered events since. Nothing was changed. Move the file away first if no process has worked with it.`,
      );
    }
  } finally {
    db.close();
  }
}

function factsOf(file: string): Omit<Resharded, "aside"> {
  const db = openStateForReading(file);
  try {
    const { problems } = verifyState(db);
    if (problems.length > 0) throw new Error(`The new state is not whole: ${problems.join("; ")}.`);
    const count = (sql: string) => db.prepare(sql).pluck().get() as number;
    return {
      journal: metaOf(db, "journal")!,
      organizations: count("SELECT COUNT(DISTINCT id) FROM organizations"),
      windows: count("SELECT COUNT(*) FROM windows"),
      events: count("SELECT COALESCE(SUM(events), 0) FROM pages"),
      deadLetters: count("SELECT COUNT(*) FROM dead_letters"),
    };
  } finally {
    db.close();
  }
}
