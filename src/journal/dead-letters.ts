import { hash } from "node:crypto";
import { identityAt } from "../core/prepare-page.ts";
import { type ScannedPage, scanPage } from "../core/scanner.ts";
import type { State } from "./database.ts";
import type { Pages } from "./pages.ts";

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
}

export interface DeadLetterFilter {
  readonly sink?: string | undefined;
  /** A part of the reason. */
  readonly reason?: string | undefined;
  readonly id?: number | undefined;
}

const COLUMNS =
  "id, reader AS sink, reason, stored_ms AS storedMs, account, organization, service, event_type AS eventType, timestamp";
const REPLAY_MAX = 10_000;

/** Events that a sink refused for good: listed, shown, given back to the sink, or dropped by a person. */
export function createDeadLetters(db: State) {
  return {
    list(filter: DeadLetterFilter, limit: number): DeadLetterRow[] {
      const { where, values } = conditionsOf(filter);
      return db
        .prepare(`SELECT ${COLUMNS} FROM dead_letters ${where} ORDER BY id LIMIT ?`)
        .all(...values, limit) as DeadLetterRow[];
    },

    bytesOf(id: number): Buffer | undefined {
      return db.prepare("SELECT bytes FROM dead_letters WHERE id = ?").pluck().get(id) as Buffer | undefined;
    },

    counts(): readonly { readonly sink: string; readonly count: number }[] {
      return db
        .prepare("SELECT reader AS sink, COUNT(*) AS count FROM dead_letters GROUP BY reader")
        .all() as { sink: string; count: number }[];
    },

    /** Back into the journal as pages for that sink alone, in one transaction (R21). Gives how many. */
    replay(filter: DeadLetterFilter, pages: Pages): number {
      const { where, values } = conditionsOf(filter);
      return db.transaction(() => {
        const rows = db
          .prepare(
            `SELECT id, reader, identity, account, organization, provider, fetched_ms AS fetchedMs, bytes FROM dead_letters ${where} ORDER BY reader, account, page, event LIMIT ?`,
          )
          .all(...values, REPLAY_MAX) as ReplayRow[];
        for (const run of runsOf(rows)) {
          const scanned = scanPage(arrayOf(run));
          pages.insert(pageOf(run, scanned), scanned);
        }
        const remove = db.prepare("DELETE FROM dead_letters WHERE id = ?");
        for (const { id } of rows) remove.run(id);
        return rows.length;
      })();
    },

    drop(filter: DeadLetterFilter): number {
      const { where, values } = conditionsOf(filter);
      return db.prepare(`DELETE FROM dead_letters ${where}`).run(...values).changes;
    },
  };
}

/** Keeps an event apart that belongs to nobody who was asked for (R7); the same one again is ignored. */
export function keepUnattributed(
  db: State,
  account: string,
  stream: number,
  bytes: Uint8Array,
  nowMs: number,
): void {
  db.prepare(
    "INSERT OR IGNORE INTO unattributed (digest, account, stream, seen_ms, bytes) VALUES (?, ?, ?, ?, ?)",
  ).run(hash("sha256", bytes, "hex"), account, stream, nowMs, bytes);
}

interface ReplayRow {
  readonly id: number;
  readonly reader: string;
  readonly identity: string;
  readonly account: string;
  readonly organization: string | null;
  readonly provider: string | null;
  readonly fetchedMs: number;
  readonly bytes: Buffer;
}

function conditionsOf(filter: DeadLetterFilter): { where: string; values: (string | number)[] } {
  const parts: string[] = [];
  const values: (string | number)[] = [];
  if (filter.sink !== undefined) {
    parts.push("reader = ?");
    values.push(filter.sink);
  }
  if (filter.reason !== undefined) {
    parts.push("instr(reason, ?) > 0");
    values.push(filter.reason);
  }
  if (filter.id !== undefined) {
    parts.push("id = ?");
    values.push(filter.id);
  }
  return { where: parts.length === 0 ? "" : `WHERE ${parts.join(" AND ")}`, values };
}

/** Neighbours that can share a page: one reader, one account, one owner, fetched at one time. */
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
      last.fetchedMs === row.fetchedMs;
    if (same) runs.at(-1)!.push(row);
    else runs.push([row]);
  }
  return runs;
}

function pageOf(run: readonly ReplayRow[], scanned: ScannedPage) {
  const { reader, account, organization, provider, fetchedMs } = run[0]!;
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

/** Of two events that share their identity fields each keeps its own identity, so that neither passes for the other. */
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
