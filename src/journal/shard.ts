import { UsageError } from "../core/errors.ts";
import { parseShard, type Shard, shardText } from "../core/shard.ts";
import type { Connection, State } from "./database.ts";

/** Keys of the table meta. */
export const SHARD = "shard";
const FINAL = "final_backup";
const ADOPTED = "adopted_by";
const EARLIER = "earlier_journals";

/** The shard that the state was made for; undefined: for all organizations. */
export function shardOfState(db: Connection): Shard | undefined {
  const text = metaOf(db, SHARD);
  return text === undefined ? undefined : parseShard(text);
}

/**
 * Journals whose state was split or merged into this one. All that they held was delivered then, so a
 * destination that names a position of theirs has nothing more to get from them (R20).
 */
export function earlierJournals(db: Connection): ReadonlySet<string> {
  return new Set(JSON.parse(metaOf(db, EARLIER) ?? "[]") as string[]);
}

export function setEarlierJournals(db: Connection, journals: Iterable<string>): void {
  putMeta(db, EARLIER, JSON.stringify([...new Set(journals)]));
}

/** When the state was backed up to be split; its work goes on elsewhere. */
export function finalBackupMs(db: Connection): number | undefined {
  const text = metaOf(db, FINAL);
  return text === undefined ? undefined : Number(text);
}

export function setFinalBackup(db: Connection, nowMs: number | undefined): void {
  if (nowMs === undefined) db.prepare("DELETE FROM meta WHERE key = ?").run(FINAL);
  else putMeta(db, FINAL, String(nowMs));
}

/** Marks the state of a single process whose work goes on in a cluster (C16). */
export function setAdopted(db: Connection, cluster: string): void {
  putMeta(db, ADOPTED, cluster);
}

/** Notes the config's shard in a new state; throws where the state was made for another one. */
export async function claimShard(db: State, file: string, shard: Shard | undefined): Promise<void> {
  refuseOtherShard(db, file, shard);
  if (shard === undefined || shardOfState(db) !== undefined) return;
  await db.change(() => putMeta(db, SHARD, shardText(shard)));
}

/** Says, without a full stop, that the work of this state goes on elsewhere; undefined where it goes on here. */
export function endText(db: Connection, file: string): string | undefined {
  const cluster = metaOf(db, ADOPTED);
  if (cluster !== undefined)
    return `The state file ${file} was adopted by the cluster "${cluster}": its work goes on there`;
  const finalMs = finalBackupMs(db);
  if (finalMs === undefined) return undefined;
  return `The state file ${file} was backed up with --final at ${new Date(finalMs).toISOString()}: its work goes on in other state files`;
}

/** Throws where a process with this shard must not work with the state. */
export function refuseOtherShard(db: Connection, file: string, shard: Shard | undefined): void {
  const ended = endText(db, file);
  if (metaOf(db, ADOPTED) !== undefined)
    throw new UsageError(
      `${ended}, and going on here would deliver events twice. Use a config with \`cluster\`, in which \`state\` names a directory. If the adoption was interrupted, delete the topics of that cluster and run "tidemark cluster adopt" again.`,
    );
  if (ended !== undefined) {
    throw new UsageError(
      `${ended}, and going on here would deliver events twice. Make this shard's state with "tidemark restore --reshard" and the final copies of all shards, or take the old state back with "tidemark restore COPY" if no new shard has started yet.`,
    );
  }
  const made = shardOfState(db);
  const isSame = made?.index === shard?.index && made?.count === shard?.count;
  if (isSame || (made === undefined && isNew(db))) return;
  throw new UsageError(
    `The state file ${file} belongs to ${nameOf(made)}, and the config says ${nameOf(shard)}. Give each shard a state file of its own. To change the number of shards, follow docs/shards.md: "tidemark backup --final" on every old shard, then "tidemark restore --reshard" on every new one.`,
  );
}

function nameOf(shard: Shard | undefined): string {
  return shard === undefined ? "no shard (all organizations)" : `shard ${shardText(shard)}`;
}

/** Nothing was read into it yet. */
function isNew(db: Connection): boolean {
  return db.prepare("SELECT 1 FROM streams UNION ALL SELECT 1 FROM pages LIMIT 1").get() === undefined;
}

export function metaOf(db: Connection, key: string): string | undefined {
  return db.prepare("SELECT value FROM meta WHERE key = ?").pluck().get(key) as string | undefined;
}

export function putMeta(db: Connection, key: string, value: string): void {
  db.prepare(
    "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
  ).run(key, value);
}
