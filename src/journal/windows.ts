import type { Statement } from "better-sqlite3";
import type { LeftBehind, StreamCoverage, WindowFilter } from "../core/journal.ts";
import {
  type NewWindow,
  type OwnerCounts,
  type Pass,
  StaleWindowError,
  type Stream,
  type Window,
  type WindowChange,
  type WindowState,
} from "../core/window.ts";
import { DamagedStateError, type State } from "./database.ts";
import type { Gaps } from "./gaps.ts";
import { createNumbering } from "./numbering.ts";
import { rowChecksum } from "./row-checksums.ts";
import type { StoredStream } from "./shared-time.ts";

interface WindowRow {
  readonly id: number;
  readonly stream: number;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly live: number;
  readonly state: WindowState;
  readonly pass: string | null;
  readonly asked_ms: number | null;
  readonly sweeps: number;
  readonly next_ms: number | null;
  readonly api_count: number | null;
  readonly held_count: number | null;
  readonly counts: string | null;
  readonly late: number;
  readonly repeated: number;
  readonly changed: number;
  readonly reason: string | null;
  readonly reader: string | null;
  readonly row_checksum: number | null;
}

interface CheckedStream extends StoredStream {
  readonly row_checksum: number | null;
}

interface Looks {
  readonly looks: number;
  readonly firstMs: number;
}

const COLUMNS =
  "stream, from_ms, to_ms, live, state, pass, asked_ms, sweeps, next_ms, api_count, held_count, counts, late, repeated, changed, reason, reader";
const VALUES =
  "@stream, @from_ms, @to_ms, @live, @state, @pass, @asked_ms, @sweeps, @next_ms, @api_count, @held_count, @counts, @late, @repeated, @changed, @reason, @reader";

/** The ledger of windows, and the streams they belong to. */
export function createWindows(db: State, gaps: Pick<Gaps, "add" | "fill" | "meet">) {
  const streams = new Map<number, Stream>();
  const statements = new Map<string, Statement>();
  const insert = db.prepare(
    `INSERT INTO windows (id, ${COLUMNS}, looks, first_ms) VALUES (@id, ${VALUES}, @asked_ms IS NOT NULL, @asked_ms)`,
  );
  // SQLite gives the number of a removed row again. A read of the removed window that is under way would then change
  // another window, so no number is used twice while the process runs.
  const windowIds = createNumbering(db, "windows");
  // Nor is that of a stream: it is remembered, also where its row is gone again because the commit failed.
  const streamIds = createNumbering(db, "streams");
  const update = db.prepare(
    `UPDATE windows SET ${COLUMNS.split(", ")
      .map((column) => `${column} = @${column}`)
      .join(", ")}, looks = looks + (COALESCE(@asked_ms, 0) > COALESCE(asked_ms, 0)),
       first_ms = COALESCE(first_ms, asked_ms, @asked_ms) WHERE id = @id`,
  );
  const coverage = db.prepare(
    `SELECT stream, from_ms, CASE live WHEN 1 THEN NULL ELSE to_ms END AS to_ms FROM windows
     WHERE stream IN (SELECT id FROM streams WHERE account = ?) AND reader IS NULL ORDER BY stream, from_ms`,
  );
  const sealedElsewhere = db.prepare(
    `SELECT stream, from_ms, to_ms FROM windows WHERE stream IN (SELECT id FROM streams WHERE account <> ?)
     AND state = 'sealed' AND live = 0 AND reader IS NULL AND from_ms < ? ORDER BY stream, from_ms`,
  );
  const unsettled = db.prepare(
    `SELECT stream, MIN(from_ms) AS fromMs FROM windows WHERE state NOT IN ('sealed', 'expired') AND reader IS NULL
     AND stream IN (SELECT id FROM streams WHERE account NOT IN (SELECT value FROM json_each(?))) GROUP BY stream`,
  );
  const byId = db.prepare("SELECT * FROM windows WHERE id = ?");
  const remove = db.prepare("DELETE FROM windows WHERE id = ?");
  const limitLooks = db.prepare(
    "UPDATE windows SET looks = MIN(looks, @looks), first_ms = MAX(first_ms, @firstMs) WHERE id = @id",
  );
  const looksAt = db.prepare(
    "SELECT looks, COALESCE(first_ms, asked_ms, 0) AS firstMs FROM windows WHERE id = ?",
  );

  /** A row that takes in others has been looked at only as often, and as early, as the least of them. */
  function looksOf({ put = [], remove: removed = [] }: WindowChange) {
    if (put.length === 0 || removed.length === 0) return undefined;
    const rows = removed.map((id) => (looksAt.get(id) ?? { looks: 0, firstMs: 0 }) as Looks);
    return {
      looks: Math.min(...rows.map(({ looks }) => looks)),
      firstMs: Math.max(...rows.map(({ firstMs }) => firstMs)),
    };
  }
  const streamByKey = db.prepare("SELECT id FROM streams WHERE key = ?").pluck();
  const streamById = db.prepare("SELECT * FROM streams WHERE id = ?");
  const insertStream = db.prepare(
    "INSERT INTO streams (id, account, provider, organizations, services, key) VALUES (?, ?, ?, ?, ?, ?)",
  );

  return {
    /** Inside the caller's transaction. */
    apply(change: WindowChange): void {
      const looks = looksOf(change);
      windowIds.see();
      for (const id of change.remove ?? []) if (remove.run(id).changes === 0) throw new StaleWindowError(id);
      for (const window of change.put ?? [])
        if (update.run({ id: window.id, ...rowOf(window) }).changes === 0)
          throw new StaleWindowError(window.id);
      for (const { id } of looks === undefined ? [] : (change.put ?? [])) limitLooks.run({ ...looks, id });
      for (const window of change.add ?? []) insert.run({ id: windowIds.next(), ...rowOf(window) });
      if (change.filled !== undefined) gaps.fill(change.filled);
      const fresh = gaps.add(change.gaps ?? []);
      if (change.met !== undefined) gaps.meet(change.met, fresh);
    },

    stream(description: Omit<Stream, "id">): Stream {
      const { account, provider } = description;
      const organizations = JSON.stringify([...description.organizations].sort());
      const services = JSON.stringify([...description.services].sort());
      const key = JSON.stringify([account, provider, organizations, services]);
      const known = streamByKey.get(key) as number | undefined;
      if (known !== undefined) return streamOf(known);
      const id = streamIds.next();
      insertStream.run(id, account, provider, organizations, services, key);
      return streamOf(id);
    },

    covered: (account: string) => coverageIn(coverage.iterate(account)),
    sealedElsewhere: (account: string, beforeMs: number) =>
      coverageIn(sealedElsewhere.iterate(account, beforeMs)),

    leftBehind(accounts: readonly string[]): LeftBehind[] {
      const rows = unsettled.all(JSON.stringify(accounts)) as { stream: number; fromMs: number }[];
      return rows.map(({ stream, fromMs }) => ({ stream: streamOf(stream), fromMs }));
    },

    list(filter: WindowFilter = {}): Window[] {
      // A window is read by its id before it is worked on. To check more than that would slow down every search.
      if (filter.id !== undefined)
        return (byId.all(filter.id) as WindowRow[]).map((row) => windowOf(checked("windows", row)));
      const { conditions, values } = conditionsOf(filter);
      // Most searches for work find none. Without the account and the order that costs a tenth.
      if (filter.states !== undefined && filter.limit !== undefined) {
        const probe = prepared(`SELECT 1 FROM windows WHERE ${conditions.join(" AND ")} LIMIT 1`);
        if (probe.get(...values) === undefined) return [];
      }
      if (filter.account !== undefined) {
        conditions.push("stream IN (SELECT id FROM streams WHERE account = ?)");
        values.push(filter.account);
      }
      const where = conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "";
      const direction = filter.newestFirst ? "DESC" : "ASC";
      const order = `ORDER BY from_ms ${direction}, id ${direction}`;
      // An open LIMIT would make SQLite sort in a temporary table, which costs three times as much.
      const limit = filter.limit === undefined ? "" : "LIMIT ?";
      if (filter.limit !== undefined) values.push(filter.limit);
      const select = prepared(`SELECT * FROM windows ${where} ${order} ${limit}`);
      return (select.all(...values) as WindowRow[]).map(windowOf);
    },
  };

  /** A damaged row must not be used: its next change would give it a right checksum (R37). */
  function checked<Row extends WindowRow | CheckedStream>(table: string, row: Row): Row {
    if (row.row_checksum === null || row.row_checksum === rowChecksum({ ...row })) return row;
    throw new DamagedStateError(db.name, `the row ${row.id} of ${table} does not fit its checksum`);
  }

  function prepared(sql: string): Statement {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    const statement = db.prepare(sql);
    statements.set(sql, statement);
    return statement;
  }

  /** Row by row, so that memory holds the stretches and not the windows. */
  function coverageIn(rows: Iterable<unknown>): StreamCoverage[] {
    const list: { stream: Stream; covered: { fromMs: number; toMs: number }[] }[] = [];
    for (const row of rows) {
      const {
        stream,
        from_ms: fromMs,
        to_ms,
      } = row as Pick<WindowRow, "stream" | "from_ms"> & {
        to_ms: number | null;
      };
      const toMs = to_ms ?? Number.POSITIVE_INFINITY;
      if (list.at(-1)?.stream.id !== stream) list.push({ stream: streamOf(stream), covered: [] });
      const { covered } = list.at(-1)!;
      const last = covered.at(-1);
      if (last !== undefined && fromMs <= last.toMs) last.toMs = Math.max(last.toMs, toMs);
      else covered.push({ fromMs, toMs });
    }
    return list;
  }

  function streamOf(id: number): Stream {
    const known = streams.get(id);
    if (known !== undefined) return known;
    const row = checked("streams", streamById.get(id) as CheckedStream);
    const stream: Stream = {
      id,
      account: row.account,
      provider: row.provider,
      organizations: JSON.parse(row.organizations),
      services: JSON.parse(row.services),
    };
    streams.set(id, stream);
    return stream;
  }

  function windowOf(row: WindowRow): Window {
    return {
      id: row.id,
      stream: streamOf(row.stream),
      fromMs: row.from_ms,
      toMs: row.to_ms,
      live: row.live === 1,
      state: row.state,
      pass: row.pass === null ? null : (JSON.parse(row.pass) as Pass),
      askedMs: row.asked_ms,
      sweeps: row.sweeps,
      nextMs: row.next_ms,
      apiCount: row.api_count,
      heldCount: row.held_count,
      counts: row.counts === null ? null : (JSON.parse(row.counts) as OwnerCounts),
      late: row.late,
      repeated: row.repeated,
      changed: row.changed,
      reason: row.reason,
      reader: row.reader,
    };
  }
}

export type Windows = ReturnType<typeof createWindows>;

/** The filter as SQL, without its account. */
function conditionsOf(filter: WindowFilter) {
  const conditions: string[] = [];
  const values: (string | number)[] = [];
  if (filter.states !== undefined) {
    conditions.push(`state IN (${filter.states.map(() => "?").join(", ")})`);
    values.push(...filter.states);
  }
  // Written out, so that the index of live windows can serve.
  if (filter.live !== undefined) conditions.push(filter.live ? "live = 1" : "live = 0");
  for (const [condition, value] of [
    ["stream = ?", filter.stream],
    ["next_ms <= ?", filter.dueMs],
    ["to_ms > ?", filter.fromMs],
    ["from_ms < ?", filter.toMs],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(condition);
    values.push(value);
  }
  return { conditions, values };
}

function rowOf(window: Window | NewWindow) {
  return {
    stream: window.stream.id,
    from_ms: window.fromMs,
    to_ms: window.toMs,
    live: window.live ? 1 : 0,
    state: window.state,
    pass: window.pass === null ? null : JSON.stringify(window.pass),
    asked_ms: window.askedMs,
    sweeps: window.sweeps,
    next_ms: window.nextMs,
    api_count: window.apiCount,
    held_count: window.heldCount,
    counts: window.counts === null ? null : JSON.stringify(window.counts),
    late: window.late,
    repeated: window.repeated,
    changed: window.changed,
    reason: window.reason,
    reader: window.reader,
  };
}
