import { type Claim, type ClosableDay, type ClosableQuery, dayOf } from "../../core/archive.ts";
import { DAY_MS } from "../../core/time.ts";
import type { State } from "../database.ts";

/*
 * Decides which organizations of which days can be closed. For a day of an organization:
 *
 *   open      a window of it is unread, read but not compared yet, live, or refused while the service still has it
 *   settling  sealed, but the first pass about it began less than `settle` ago (A3)
 *   ready     every stretch of the day is sealed, or the service has forgotten it (then it is named as missing)
 *
 * Where two accounts read one organization, one that is refused does not hold up the other (A2, A8).
 */

interface WindowRow {
  readonly fromMs: number;
  readonly toMs: number;
  readonly live: number;
  readonly state: "unread" | "read" | "sealed" | "expired" | "refused";
  readonly askedMs: number | null;
  /** When the first whole pass about it began. */
  readonly firstMs: number | null;
  readonly looks: number;
  readonly apiCount: number | null;
  readonly heldCount: number | null;
  readonly reason: string | null;
  readonly account: string;
  readonly provider: string | null;
  readonly organizations: string;
  readonly services: string;
}

export function createClosable(
  db: State,
  { name, retentionMs }: { readonly name: string; readonly retentionMs: number },
) {
  const windowsOf = db.prepare(
    `SELECT w.from_ms AS fromMs, w.to_ms AS toMs, w.live, w.state, w.asked_ms AS askedMs, COALESCE(w.first_ms, w.asked_ms) AS firstMs, w.looks,
       w.api_count AS apiCount, w.held_count AS heldCount, w.reason, s.account, s.provider, s.organizations, s.services
     FROM windows w JOIN streams s ON s.id = w.stream
     WHERE w.reader IS NULL AND w.from_ms < @toMs AND (w.to_ms > @fromMs OR w.live = 1)`,
  );
  const eventsOf = db.prepare(
    `SELECT owner, SUM(events) AS events, MIN(account) AS account FROM archive_open
     WHERE archive = ? AND kind = ? AND bucket = ? AND plan IS NULL GROUP BY owner`,
  );
  const closedOf = db.prepare("SELECT owner FROM archive_closed WHERE archive = ? AND day = ?").pluck();
  // Read before the archive began, so perhaps not in it.
  const isBefore = db
    .prepare(
      `SELECT 1 FROM identities WHERE owner = @owner AND last_ms >= @fromMs AND first_ms < @toMs
         AND page <= (SELECT start_page FROM archives WHERE name = @name) LIMIT 1`,
    )
    .pluck();
  const gapsOf = db.prepare(
    `SELECT account, provider, organization, from_ms AS fromMs, to_ms AS toMs, reason FROM gaps
     WHERE from_ms < ? AND to_ms > ?`,
  );

  interface Waiting {
    readonly events: number;
    readonly account: string;
  }

  function waiting(kind: string, bucket: string): Map<string, Waiting> {
    const rows = eventsOf.all(name, kind, bucket) as { owner: string; events: number; account: string }[];
    return new Map(rows.map(({ owner, ...rest }) => [owner, rest]));
  }

  function* additions(nowMs: number): Iterable<ClosableDay> {
    const rows = db
      .prepare(
        "SELECT DISTINCT kind, bucket FROM archive_open WHERE archive = ? AND kind <> 'day' AND plan IS NULL AND bucket < ? ORDER BY bucket",
      )
      .all(name, dayOf(nowMs)) as { kind: "late" | "undated"; bucket: string }[];
    for (const { kind, bucket } of rows) {
      const organizations = [...waiting(kind, bucket)].map(
        ([organization, { events, account }]): Claim => ({
          organization,
          accounts: [account],
          events,
          askedMs: null,
          matches: false,
          compared: false,
          missing: [],
        }),
      );
      yield { kind, day: bucket, organizations };
    }
  }

  function closableDay(day: string, query: ClosableQuery): ClosableDay {
    const fromMs = Date.parse(day);
    const toMs = fromMs + DAY_MS;
    const events = waiting("day", day);
    const closed = new Set(closedOf.all(name, day) as string[]);
    const byOwner = new Map<string, WindowRow[]>();
    for (const row of windowsOf.iterate({ fromMs, toMs }) as Iterable<WindowRow>)
      for (const owner of ownersOf(row, events)) byOwner.set(owner, [...(byOwner.get(owner) ?? []), row]);
    // Events whose windows are gone from the ledger are closed when no window can come back for them.
    if (toMs <= query.nowMs - retentionMs)
      for (const owner of events.keys()) if (!byOwner.has(owner)) byOwner.set(owner, []);
    const gaps = gapsOf.all(toMs, fromMs) as GapRow[];
    const organizations: Claim[] = [];
    for (const [owner, windows] of byOwner) {
      if (closed.has(owner)) continue;
      const own = gaps.filter((gap) => isOf(gap, owner));
      const claim = claimOf(owner, windows, own, { fromMs, toMs }, events.get(owner)?.events ?? 0, query);
      if (claim !== undefined) organizations.push(claim);
    }
    return { kind: "day", day, organizations };
  }

  function claimOf(
    organization: string,
    windows: readonly WindowRow[],
    gaps: readonly GapRow[],
    { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
    events: number,
    { nowMs, settleMs }: ClosableQuery,
  ): Claim | undefined {
    const forgottenMs = nowMs - retentionMs;
    const isSealed = (row: WindowRow) => row.state === "sealed" && row.live === 0;
    const sealed = windows.filter(isSealed);
    const others = windows.filter((row) => !isSealed(row));
    const uncovered = without({ fromMs, toMs }, sealed);
    for (const row of others) {
      const needed = uncovered.some((stretch) => overlaps(stretch, row));
      if (row.state === "refused" ? needed && row.toMs > forgottenMs : row.state !== "expired")
        return undefined;
    }
    // Before the first window nothing was asked for: it is named as missing, but it does not hold up the day.
    if (uncovered.length > 0 && others.length === 0 && !isBeforeAll(uncovered, windows) && toMs > forgottenMs)
      return undefined;
    const firstMs = Math.max(0, ...sealed.map((row) => row.firstMs ?? 0));
    if (nowMs < Math.max(toMs, firstMs) + settleMs) return undefined;
    const owner = organization.includes(":") ? "" : organization;
    const isOlder = isBefore.get({ owner, fromMs, toMs, name }) !== undefined;
    const missing = [
      ...(isOlder ? [{ fromMs, toMs, reason: "read before this archive began" }] : []),
      ...uncovered.map((stretch) => ({ ...stretch, reason: reasonOf(stretch, others, gaps) })),
      ...gaps
        .filter(({ reason }) => reason === "unreadable")
        .map(({ fromMs: from, toMs: to, reason }) => ({ fromMs: from, toMs: to, reason })),
    ];
    return {
      organization,
      accounts: [...new Set(windows.map(({ account }) => account))].sort(),
      events,
      askedMs: sealed.length === 0 ? null : Math.min(...sealed.map((row) => row.askedMs ?? 0)),
      matches:
        sealed.length > 0 && sealed.every((row) => row.apiCount !== null && row.apiCount === row.heldCount),
      compared:
        sealed.length > 0 &&
        sealed.every((row) => row.looks >= 2) &&
        !gaps.some(({ reason }) => reason === "unchecked"),
      services: servicesOf(windows),
      missing,
    };
  }

  return {
    find(query: ClosableQuery): ClosableDay[] {
      const { nowMs, eventsMax, daysMax } = query;
      const found: ClosableDay[] = [];
      let events = 0;
      const take = (day: ClosableDay): boolean => {
        const organizations: Claim[] = [];
        for (const claim of day.organizations) {
          if (events > 0 && events + claim.events > eventsMax) break;
          events += claim.events;
          organizations.push(claim);
        }
        if (organizations.length > 0) found.push({ ...day, organizations });
        return organizations.length === day.organizations.length && found.length < daysMax;
      };
      for (const day of additions(nowMs)) if (!take(day)) return found;
      const oldest = db.prepare("SELECT MIN(from_ms) FROM windows WHERE reader IS NULL").pluck().get() as
        | number
        | null;
      if (oldest === null) return found;
      const firstMs = Math.max(
        Date.parse(dayOf(oldest)),
        Date.parse(dayOf(nowMs - retentionMs - 8 * DAY_MS)),
      );
      for (let ms = firstMs; ms + DAY_MS + query.settleMs <= nowMs; ms += DAY_MS)
        if (!take(closableDay(dayOf(ms), query))) return found;
      return found;
    },
  };
}

interface GapRow {
  readonly account: string;
  readonly provider: string | null;
  readonly organization: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason: string;
}

interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The key's own organization has no id in the config: its events name it, and without any the account does. */
function ownersOf(
  row: WindowRow,
  waiting: ReadonlyMap<string, { readonly account: string }>,
): readonly string[] {
  if (row.provider !== null) return [`provider:${row.provider}`];
  const organizations = JSON.parse(row.organizations) as string[];
  if (organizations.length > 0) return organizations;
  const own = [...waiting].filter(([, { account }]) => account === row.account).map(([owner]) => owner);
  return own.length > 0 ? own : [`account:${row.account}`];
}

function servicesOf(windows: readonly WindowRow[]): readonly string[] | null {
  const [first, ...others] = new Set(windows.map(({ services }) => services));
  return first === undefined || others.length > 0 ? null : (JSON.parse(first) as string[]);
}

function isOf(gap: GapRow, owner: string): boolean {
  if (gap.provider !== null) return owner === `provider:${gap.provider}`;
  return gap.organization === owner || gap.organization === "";
}

function overlaps(a: Stretch, b: Stretch): boolean {
  return a.fromMs < b.toMs && a.toMs > b.fromMs;
}

/** The pieces of a stretch that are in none of the others. */
function without(whole: Stretch, others: readonly Stretch[]): Stretch[] {
  let left = [whole];
  for (const { fromMs, toMs } of others)
    left = left.flatMap((stretch) =>
      overlaps(stretch, { fromMs, toMs })
        ? [
            { fromMs: stretch.fromMs, toMs: Math.min(stretch.toMs, fromMs) },
            { fromMs: Math.max(stretch.fromMs, toMs), toMs: stretch.toMs },
          ].filter((rest) => rest.toMs > rest.fromMs)
        : [stretch],
    );
  return left;
}

function isBeforeAll(stretches: readonly Stretch[], windows: readonly WindowRow[]): boolean {
  const firstMs = Math.min(...windows.map(({ fromMs }) => fromMs));
  return stretches.every(({ toMs }) => toMs <= firstMs);
}

function reasonOf(stretch: Stretch, others: readonly WindowRow[], gaps: readonly GapRow[]): string {
  const window = others.find((row) => overlaps(stretch, row));
  if (window !== undefined)
    return window.state === "refused" ? `refused: ${window.reason ?? "no reason given"}` : window.state;
  return gaps.find((gap) => overlaps(stretch, gap))?.reason ?? "not asked for";
}
