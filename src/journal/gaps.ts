import type { Clock } from "../core/clock.ts";
import {
  type FilledStretch,
  type Gap,
  type GapQuery,
  type GapTotals,
  isUnnamed,
  type NewGap,
} from "../core/gap.ts";
import { isSetAside } from "../core/roster.ts";
import type { State } from "./database.ts";
import { asksFor, type GapRow, gapOfRow, organizationsOf, servicesText } from "./gap-row.ts";
import { createMeet } from "./met-events.ts";

const LIMIT_MAX = 100_000;

/** The ledger of what is missing. `add`, `fill` and `meet` run inside the caller's transaction. */
export function createGaps(db: State, clock: Clock) {
  const insert = db.prepare(
    `INSERT INTO gaps (account, provider, organization, services, from_ms, to_ms, reason, detail, events, found_ms)
     VALUES (@account, @provider, @organization, @services, @from_ms, @to_ms, @reason, @detail, @events, @found_ms)`,
  );
  const touching = db.prepare(
    `SELECT * FROM gaps WHERE account = ? AND provider IS ? AND organization = ? AND services = ? AND reason = ?
       AND to_ms >= ? AND from_ms <= ? ORDER BY from_ms`,
  );
  const overlapping = db.prepare(
    "SELECT * FROM gaps WHERE account = ? AND provider IS ? AND to_ms > ? AND from_ms < ?",
  );
  const remove = db.prepare("DELETE FROM gaps WHERE id = ?");

  /** Neighbours of one cause become one row, so that a gap that grows stays one gap. */
  function addFor(gap: NewGap, organization: string): boolean {
    const { stream, fromMs, toMs, reason, detail, events } = gap;
    const { account, provider } = stream;
    const services = servicesText(stream);
    const row = { account, provider, organization, services, reason, detail, events };
    if (reason === "unreadable" && isUnnamed(gap)) {
      insert.run({ ...row, from_ms: fromMs, to_ms: toMs, found_ms: clock.now() });
      return true;
    }
    const near = touching.all(account, provider, organization, services, reason, fromMs, toMs) as GapRow[];
    const same = near.filter((other) => other.detail === detail);
    // The same event again, found by a later pass.
    if (reason === "unreadable" && same.length > 0) return false;
    if (same.some((other) => other.from_ms <= fromMs && other.to_ms >= toMs)) return false;
    for (const { id } of same) remove.run(id);
    const all = [...same.map((other) => other.events), events];
    insert.run({
      ...row,
      from_ms: Math.min(fromMs, ...same.map(({ from_ms }) => from_ms)),
      to_ms: Math.max(toMs, ...same.map(({ to_ms }) => to_ms)),
      events: all.includes(null) ? null : all.reduce((sum, count) => sum! + count!, 0),
      // A gap that still grows is a new loss every day, and its alarm must not end.
      found_ms: clock.now(),
    });
    return true;
  }

  /** Gives those that the ledger did not have. */
  function add(gaps: readonly NewGap[]): readonly NewGap[] {
    return gaps.filter(
      (gap) =>
        gap.toMs > gap.fromMs && organizationsOf(gap.stream).filter((owner) => addFor(gap, owner)).length > 0,
    );
  }

  return {
    add,
    meet: createMeet(db, clock, add),

    fill(stretches: readonly FilledStretch[]): void {
      for (const { stream, fromMs, toMs, reasons, detail } of stretches) {
        const owners = new Set(organizationsOf(stream));
        for (const row of overlapping.all(stream.account, stream.provider, fromMs, toMs) as GapRow[]) {
          if (!owners.has(row.organization) || !reasons.includes(row.reason)) continue;
          if (!asksFor(stream, row) || (detail !== undefined && detail !== row.detail)) continue;
          const { id, ...rest } = row;
          const isInside = row.from_ms >= fromMs && row.to_ms <= toMs;
          if (row.reason === "unreadable" && !isInside) continue;
          remove.run(id);
          if (row.from_ms < fromMs) insert.run({ ...rest, to_ms: fromMs });
          if (row.to_ms > toMs) insert.run({ ...rest, from_ms: toMs });
        }
      }
    },

    ...createGapQueries(db),
  };
}

export type Gaps = ReturnType<typeof createGaps>;

/** Reads alone, for processes that only look at the state file. */
export function createGapQueries(db: State) {
  /** Refused windows are gaps that may still close. */
  function openGaps(query: GapQuery): Gap[] {
    if (query.foundSinceMs !== undefined) return [];
    if (query.reasons !== undefined && !query.reasons.includes("refused")) return [];
    const rows = db
      .prepare(
        `SELECT s.account, s.provider, s.organizations, s.services, w.from_ms, w.to_ms, w.reason, w.next_ms
         FROM windows w JOIN streams s ON s.id = w.stream
         WHERE w.state = 'refused' AND w.live = 0 AND w.reader IS NULL AND w.to_ms > ? AND w.from_ms < ?
           AND (? IS NULL OR s.account = ?) ORDER BY w.from_ms`,
      )
      .all(...spanOf(query), query.account ?? null, query.account ?? null) as OpenRow[];
    return rows.flatMap((row) => openOf(row).filter((gap) => isOf(gap, query.owner)));
  }

  function lostGaps(query: GapQuery): Gap[] {
    const { account = null, foundSinceMs = 0, reasons } = query;
    const rows = db
      .prepare(
        `SELECT * FROM gaps WHERE to_ms > ? AND from_ms < ? AND (? IS NULL OR account = ?) AND found_ms >= ?
         ORDER BY from_ms, id`,
      )
      .all(...spanOf(query), account, account, foundSinceMs) as GapRow[];
    return rows
      .filter(({ reason }) => reasons === undefined || reasons.includes(reason))
      .map(gapOfRow)
      .filter((gap) => isOf(gap, query.owner));
  }

  return {
    /** In the order of their beginnings; open ones included. */
    list(query: GapQuery = {}): Gap[] {
      const all = [...lostGaps(query), ...openGaps(query)].sort((a, b) => a.fromMs - b.fromMs);
      return all.slice(0, Math.min(query.limit ?? LIMIT_MAX, LIMIT_MAX));
    },

    totals(query: GapQuery = {}): GapTotals {
      const lost = lostGaps(query);
      const notLost = openGaps(query);
      const open = notLost.filter(({ detail }) => !isSetAside(detail));
      const aside = notLost.filter(({ detail }) => isSetAside(detail));
      return {
        gaps: lost.length,
        organizations: new Set(lost.map(ownerKey)).size,
        durationMs: lengthOf(lost),
        events: distinctEvents(lost),
        open: open.length,
        openMs: lengthOf(open),
        aside: aside.length,
        asideMs: lengthOf(aside),
      };
    },
  };
}

function spanOf({ fromMs, toMs }: GapQuery): [number, number] {
  return [fromMs ?? Number.MIN_SAFE_INTEGER, toMs ?? Number.MAX_SAFE_INTEGER];
}

function ownerKey({ account, provider, organization }: Gap): string {
  return JSON.stringify([account, provider, organization]);
}

/** Gaps may overlap: time that is missing for two reasons, or with two services, is counted once for each owner. */
function lengthOf(gaps: readonly Gap[]): number {
  const reachedMs = new Map<string, number>();
  let sum = 0;
  for (const gap of [...gaps].sort((a, b) => a.fromMs - b.fromMs)) {
    const owner = ownerKey(gap);
    const fromMs = Math.max(gap.fromMs, reachedMs.get(owner) ?? gap.fromMs);
    if (gap.toMs <= fromMs) continue;
    sum += gap.toMs - fromMs;
    reachedMs.set(owner, gap.toMs);
  }
  return sum;
}

/**
 * Two accounts that lack the same event have a gap each: it is one event. Several gaps of one account are as many events,
 * also where they look the same.
 */
function distinctEvents(gaps: readonly Gap[]): number {
  const same = new Map<string, Map<string, number>>();
  let events = 0;
  for (const gap of gaps) {
    if (gap.reason !== "unreadable") events += gap.events ?? 0;
    else {
      const { provider, organization, fromMs, toMs, detail } = gap;
      // The key's own organization has no name, so it may be another one in each account.
      const account = provider === null && organization === null ? gap.account : null;
      const key = JSON.stringify([account, provider, organization, fromMs, toMs, detail]);
      const byAccount = same.get(key) ?? new Map<string, number>();
      same.set(key, byAccount.set(gap.account, (byAccount.get(gap.account) ?? 0) + (gap.events ?? 0)));
    }
  }
  for (const byAccount of same.values()) events += Math.max(...byAccount.values());
  return events;
}

function isOf(gap: Gap, owner: string | undefined): boolean {
  if (owner === undefined) return true;
  return (gap.organization ?? gap.provider ?? "").toLowerCase() === owner.toLowerCase();
}

interface OpenRow {
  readonly account: string;
  readonly provider: string | null;
  readonly organizations: string;
  readonly services: string;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly reason: string | null;
  readonly next_ms: number | null;
}

function openOf(row: OpenRow): Gap[] {
  const organizations = JSON.parse(row.organizations) as string[];
  return (organizations.length === 0 ? [null] : organizations).map((organization) => ({
    id: null,
    account: row.account,
    provider: row.provider,
    organization,
    services: JSON.parse(row.services) as string[],
    fromMs: row.from_ms,
    toMs: row.to_ms,
    reason: "refused" as const,
    detail: row.reason ?? "refused",
    events: null,
    foundMs: null,
    cameMs: null,
    open: true,
    nextMs: isSetAside(row.reason) ? null : row.next_ms,
  }));
}
