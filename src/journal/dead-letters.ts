import { hash } from "node:crypto";
import { identityAt } from "../core/identity.ts";
import { RouteError } from "../core/route.ts";
import { type ScannedPage, scanPage } from "../core/scanner.ts";
import { numberInAll } from "../core/shard.ts";
import type { State } from "./database.ts";
import type { Pages } from "./pages.ts";
import { fitsChecksum } from "./row-checksums.ts";

export interface DeadLetterRow {
  readonly id: number;
  readonly sink: string;
  readonly reason: string;
  readonly storedMs: number;
  readonly account: string;
  readonly organization: string | null;
  readonly service: string;
  readonly eventType: string;
  readonly timestamp: string;
  /** The destination's own answer, where it gave one. */
  readonly answer: string | null;
}

/** All conditions have to match; none matches every dead letter. */
export interface DeadLetterFilter {
  readonly ids?: readonly number[] | undefined;
  readonly sink?: string | undefined;
  /** A part of the reason. */
  readonly reason?: string | undefined;
  /** The id of a group. */
  readonly group?: string | undefined;
  /** Only events of journal pages up to this one. */
  readonly pageMax?: number | undefined;
  /** Only those that were refused until this time. */
  readonly untilMs?: number | undefined;
}

/** Dead letters of one sink that were refused for the same reason. */
export interface DeadLetterGroup {
  readonly id: string;
  readonly sink: string;
  /** The reason without the parts that differ from event to event. */
  readonly reason: string;
  readonly count: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** The newest dead letter of the group, its reason and the destination's own answer to it. */
  readonly example: { readonly id: number; readonly reason: string; readonly answer: string | null };
}

const COLUMNS =
  "id, reader AS sink, reason, stored_ms AS storedMs, account, organization, service, event_type AS eventType, timestamp, answer";
const REPLAY_MAX = 10_000;
/**
 * A letter whose batch is not committed yet must stay: without it, a process that starts again would deliver the event
 * with that batch. Nothing is formed for a reader that does not exist.
 */
export const IS_PASSED =
  "COALESCE((page, event) < (SELECT page, event FROM readers WHERE name = dead_letters.reader), TRUE)";

/**
 * Events that a sink refused: they can be listed, shown, returned to the sink, or deleted. Those of a `lane` are named
 * by their numbers among all lanes.
 */
export function createDeadLetters(db: State, lane?: number) {
  return {
    list(filter: DeadLetterFilter, limit: number): DeadLetterRow[] {
      const { where, values } = conditionsOf(db, filter);
      return db
        .prepare(`SELECT ${COLUMNS} FROM dead_letters ${where} ORDER BY id LIMIT ?`)
        .all(...values, limit) as DeadLetterRow[];
    },

    bytesOf(id: number): Buffer | undefined {
      this.refuseDamaged({ ids: [id] });
      return db.prepare("SELECT bytes FROM dead_letters WHERE id = ?").pluck().get(id) as Buffer | undefined;
    },

    /** Throws where one of them is not as it was stored (R37), with `done` before the reason. */
    refuseDamaged(filter: DeadLetterFilter, done?: string): void {
      const { where, values } = conditionsOf(db, filter);
      const rows = db.prepare(`SELECT * FROM dead_letters ${where} ORDER BY id`).iterate(...values);
      const ids: number[] = [];
      for (const row of rows as Iterable<ReplayRow>)
        if (!fitsChecksum(row)) ids.push(numberInAll(lane, row.id));
      if (ids.length > 0) throw damagedError(ids, done);
    },

    counts(): readonly { readonly sink: string; readonly count: number }[] {
      return db
        .prepare("SELECT reader AS sink, COUNT(*) AS count FROM dead_letters GROUP BY reader")
        .all() as { sink: string; count: number }[];
    },

    /** How many of them are of batches that are not committed yet. */
    waiting(filter: DeadLetterFilter): number {
      const { where, values } = conditionsOf(db, filter, `NOT ${IS_PASSED}`);
      return db
        .prepare(`SELECT COUNT(*) FROM dead_letters ${where}`)
        .pluck()
        .get(...values) as number;
    },

    /** The newest journal page that one of them came from. */
    newestPage: () => (db.prepare("SELECT MAX(page) FROM dead_letters").pluck().get() as number | null) ?? 0,

    /** Largest group first. */
    groups: () => groupsOf(db),

    /**
     * Moves them back into the journal as pages for their sink alone (R21). One transaction takes at most
     * REPLAY_MAX of them; returns how many, 0 when none is left. Letters of unfinished batches stay, and damaged ones.
     */
    replay(filter: DeadLetterFilter, pages: Pages): Promise<number> {
      const { where, values } = conditionsOf(db, filter, IS_PASSED);
      return db.change(() => {
        const found = db
          .prepare(`SELECT * FROM dead_letters ${where} ORDER BY reader, account, page, event`)
          .iterate(...values) as Iterable<ReplayRow>;
        const rows: ReplayRow[] = [];
        for (const row of found) {
          // The page that a damaged one comes to would have a right checksum, and the damage could not be seen any more.
          if (fitsChecksum(row)) rows.push(row);
          if (rows.length === REPLAY_MAX) break;
        }
        for (const run of runsOf(rows)) {
          const scanned = scanPage(arrayOf(run));
          pages.insert(pageOf(run, scanned), scanned);
        }
        db.prepare(`DELETE FROM dead_letters WHERE id IN ${ID_LIST}`).run(
          JSON.stringify(rows.map(({ id }) => id)),
        );
        return rows.length;
      });
    },

    /** Letters of unfinished batches stay. */
    drop(filter: DeadLetterFilter): Promise<number> {
      const { where, values } = conditionsOf(db, filter, IS_PASSED);
      return db.change(() => db.prepare(`DELETE FROM dead_letters ${where}`).run(...values).changes);
    },
  };
}

/** A damaged letter must not be used: its next change would give it a right checksum. */
function damagedError(ids: readonly number[], done: string | undefined): RouteError {
  const isOne = ids.length === 1;
  const named = ids.slice(0, NAMED_MAX).join(", ");
  const more = ids.length > NAMED_MAX ? ` and ${ids.length - NAMED_MAX} more` : "";
  const sentences = [
    ...(done === undefined ? [] : [done]),
    `The dead ${isOne ? "letter" : "letters"} ${named}${more} cannot be used: the state file is damaged there, the checksum does not match.`,
    `Note the sink and the time ("tidemark dead-letters list --each"), delete ${isOne ? "it" : "each"} with "tidemark dead-letters drop ID", and fetch the event again with "tidemark backfill --sink NAME --since TIME --until TIME".`,
    "Check the memory and the disk of this machine.",
  ];
  return new RouteError(409, sentences.join(" "));
}

const NAMED_MAX = 10;
const ID_LIST = "(SELECT value FROM json_each(?))";

export function groupsOf(db: State): DeadLetterGroup[] {
  const rows = db
    .prepare(
      `SELECT reader AS sink, reason_group AS reason, COUNT(*) AS count, MIN(stored_ms) AS firstMs,
         MAX(stored_ms) AS lastMs, MAX(id) AS newest FROM dead_letters
       GROUP BY reader, reason_group ORDER BY count DESC, newest DESC`,
    )
    .all() as (Omit<DeadLetterGroup, "id" | "example"> & { newest: number })[];
  const example = db.prepare("SELECT id, reason, answer FROM dead_letters WHERE id = ?");
  return rows.map(({ newest, ...group }) => ({
    id: groupIdOf(group.sink, group.reason),
    ...group,
    example: example.get(newest) as DeadLetterGroup["example"],
  }));
}

export function groupIdOf(sink: string, reason: string): string {
  return hash("sha256", `${sink}\n${reason}`, "hex").slice(0, 8);
}

/**
 * Keeps an event apart from those that are delivered: it belongs to an organization that was not asked for (R7),
 * or `reason` says why it is not readable (R32). The same one again is ignored.
 */
export async function keepUnattributed(
  db: State,
  account: string,
  stream: number,
  bytes: Uint8Array,
  reason: string | null,
  nowMs: number,
): Promise<void> {
  const insert = db.prepare(
    "INSERT OR IGNORE INTO unattributed (digest, account, stream, seen_ms, bytes, reason) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const digest = hash("sha256", bytes, "hex");
  await db.change(() => insert.run(digest, account, stream, nowMs, bytes, reason));
}

interface ReplayRow {
  readonly id: number;
  readonly reader: string;
  readonly identity: string;
  readonly account: string;
  readonly organization: string | null;
  readonly provider: string | null;
  readonly fetched_ms: number;
  readonly bytes: Buffer;
}

function conditionsOf(
  db: State,
  filter: DeadLetterFilter,
  ...parts: string[]
): { where: string; values: (string | number)[] } {
  const values: (string | number)[] = [];
  const add = (condition: string, ...given: (string | number)[]) => {
    parts.push(condition);
    values.push(...given);
  };
  if (filter.sink !== undefined) add("reader = ?", filter.sink);
  if (filter.reason !== undefined) add("instr(reason, ?) > 0", filter.reason);
  if (filter.ids !== undefined) add(`id IN ${ID_LIST}`, JSON.stringify(filter.ids));
  if (filter.pageMax !== undefined) add("page <= ?", filter.pageMax);
  if (filter.untilMs !== undefined) add("stored_ms <= ?", filter.untilMs);
  if (filter.group !== undefined) {
    const group = groupsOf(db).find(({ id }) => id === filter.group);
    if (group === undefined) add("FALSE");
    else add("reader = ? AND reason_group = ?", group.sink, group.reason);
  }
  return { where: parts.length === 0 ? "" : `WHERE ${parts.join(" AND ")}`, values };
}

/** Runs of rows that can share a page: same reader, account, organization and time of fetching. */
function runsOf(rows: readonly ReplayRow[]): ReplayRow[][] {
  const runs: ReplayRow[][] = [];
  for (const row of rows) {
    const last = runs.at(-1)?.[0];
    const same =
      last !== undefined &&
      last.reader === row.reader &&
      last.account === row.account &&
      last.organization === row.organization &&
      last.provider === row.provider &&
      last.fetched_ms === row.fetched_ms;
    if (same) runs.at(-1)!.push(row);
    else runs.push([row]);
  }
  return runs;
}

function pageOf(run: readonly ReplayRow[], scanned: ScannedPage) {
  const { reader, account, organization, provider, fetched_ms: fetchedMs } = run[0]!;
  return {
    reader,
    account,
    organization,
    provider,
    fetchedMs,
    newestMs: fetchedMs,
    twins: twinsOf(run, scanned),
  };
}

/** Events that share their identity fields keep the identities they had. */
function twinsOf(run: readonly ReplayRow[], scanned: ScannedPage): string | null {
  const entries = run.flatMap(({ identity, organization, provider }, index) => {
    const plain = identityAt(scanned, index, organization, provider);
    return plain === identity ? [] : [[String(index), identity] as const];
  });
  return entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
}

function arrayOf(run: readonly ReplayRow[]): Buffer {
  const parts = run.flatMap(({ bytes }, index) => [Buffer.from(index === 0 ? "[" : ","), bytes]);
  return Buffer.concat([...parts, Buffer.from("]")]);
}
