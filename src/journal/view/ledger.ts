import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../core/clock.ts";
import { DAY_MS } from "../../core/time.ts";
import type { WindowCounts } from "../../core/view/status.ts";
import { type CalendarDay, DAY_STATES } from "../../core/view/windows.ts";
import type { WindowState } from "../../core/window.ts";
import type { State } from "../database.ts";

export const CALENDAR_DAYS = 90;
const SLICE_ROWS = 4000;
const FRESH_MS_MIN = 1000;
/** A survey is used for so many times as long as it took, so that looking never costs more than a thirtieth. */
const FRESH_FACTOR = 30;

export interface StreamRow {
  readonly id: number;
  readonly account: string;
  readonly provider: string | null;
  readonly organizations: readonly string[];
  readonly services: readonly string[];
}

/** One stream in the ledger. */
export interface StreamFacts {
  readonly counts: WindowCounts;
  unreadMs: number;
  unreadFromMs: number | null;
  expiredMs: number;
  /** How far its live window has been read; null when it has none. */
  liveToMs: number | null;
}

export interface Survey {
  readonly madeMs: number;
  readonly tookMs: number;
  readonly streams: ReadonlyMap<number, StreamFacts>;
  readonly days: readonly CalendarDay[];
  readonly apiCount: number;
  readonly heldCount: number;
  readonly differing: number;
  readonly late: number;
}

export type DayState = (typeof DAY_STATES)[number];

/** The part of a window that places it in a calendar. */
export interface LedgerStretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly state: DayState;
  readonly apiCount: number | null;
  readonly heldCount: number | null;
  readonly late: number;
  readonly askedMs: number | null;
}

/** Reads the ledger of windows, a slice at a time, so that a million of them block nothing else. */
export function createLedgerView(db: State, clock: Clock) {
  const streams = createStreams(db);
  const slice = db
    .prepare(
      `SELECT id, stream, from_ms, to_ms, live, state, asked_ms, api_count, held_count, late
       FROM windows WHERE id > ? AND reader IS NULL ORDER BY id LIMIT ${SLICE_ROWS}`,
    )
    .raw();
  const liveEnds = db
    .prepare(
      "SELECT id, to_ms FROM windows WHERE id IN (SELECT value FROM json_each(?)) AND live = 1 AND reader IS NULL",
    )
    .raw();
  let last: { survey: Survey; liveIds: Map<number, number>; refreshedMs: number } | undefined;
  let underWay: Promise<Survey> | undefined;

  return {
    streams,
    survey(): Promise<Survey> {
      if (last !== undefined && isFresh(last.survey)) {
        refreshLive(last);
        if (last !== undefined) return Promise.resolve(last.survey);
      }
      underWay ??= make().finally(() => {
        underWay = undefined;
      });
      return underWay;
    },
  };

  function isFresh({ madeMs, tookMs }: Survey): boolean {
    const ageMs = clock.now() - madeMs;
    return ageMs >= 0 && ageMs < Math.max(FRESH_MS_MIN, FRESH_FACTOR * tookMs);
  }

  /** How far the live windows have come changes all the time, and is quick to ask for. */
  function refreshLive(known: NonNullable<typeof last>): void {
    if (clock.now() - known.refreshedMs < FRESH_MS_MIN) return;
    known.refreshedMs = clock.now();
    const rows = liveEnds.all(JSON.stringify([...known.liveIds.keys()])) as [number, number][];
    for (const [id, toMs] of rows) known.survey.streams.get(known.liveIds.get(id)!)!.liveToMs = toMs;
    if (rows.length < known.liveIds.size) last = undefined;
  }

  async function make(): Promise<Survey> {
    const begun = performance.now();
    const madeMs = clock.now();
    const facts = new Map<number, StreamFacts>();
    const liveIds = new Map<number, number>();
    const days = createDays(madeMs);
    const sums = { apiCount: 0, heldCount: 0, differing: 0, late: 0 };
    let workedMs = 0;
    for (let lastId = -1; ; ) {
      const sliceBegun = performance.now();
      const rows = slice.all(lastId) as SliceRow[];
      for (const row of rows) take(row);
      workedMs += performance.now() - sliceBegun;
      if (rows.length < SLICE_ROWS) break;
      lastId = rows.at(-1)![0];
      await setImmediate();
    }
    const tookMs = Math.min(workedMs, performance.now() - begun);
    const survey: Survey = { madeMs, tookMs, streams: facts, days: days.list(), ...sums };
    last = { survey, liveIds, refreshedMs: madeMs };
    return survey;

    function take([id, streamId, fromMs, toMs, live, state, askedMs, apiCount, heldCount, late]: SliceRow) {
      const stream = factsOf(facts, streamId);
      const shown: DayState = live === 1 ? "live" : state;
      stream.counts[shown]++;
      if (live === 1) {
        stream.liveToMs = Math.max(stream.liveToMs ?? 0, toMs);
        liveIds.set(id, streamId);
      } else if (state === "unread" || state === "refused") {
        stream.unreadMs += toMs - fromMs;
        stream.unreadFromMs = Math.min(stream.unreadFromMs ?? fromMs, fromMs);
      } else if (state === "expired") stream.expiredMs += toMs - fromMs;
      if (live === 0 && apiCount !== null && heldCount !== null) {
        sums.apiCount += apiCount;
        sums.heldCount += heldCount;
        if (apiCount !== heldCount) sums.differing++;
      }
      sums.late += late;
      const weight = streams.get(streamId)?.organizations.length || 1;
      days.add({ fromMs, toMs, state: shown, apiCount, heldCount, late, askedMs }, weight);
    }
  }
}

type SliceRow = [
  id: number,
  stream: number,
  fromMs: number,
  toMs: number,
  live: number,
  state: WindowState,
  askedMs: number | null,
  apiCount: number | null,
  heldCount: number | null,
  late: number,
];

function factsOf(facts: Map<number, StreamFacts>, id: number): StreamFacts {
  const known = facts.get(id);
  if (known !== undefined) return known;
  const fresh = { counts: noWindows(), unreadMs: 0, unreadFromMs: null, expiredMs: 0, liveToMs: null };
  facts.set(id, fresh);
  return fresh;
}

export function noWindows(): WindowCounts {
  return { unread: 0, read: 0, sealed: 0, expired: 0, refused: 0, live: 0 };
}

/** Streams never change and never go, so each is read once. */
function createStreams(db: State) {
  const newer = db.prepare(
    "SELECT id, account, provider, organizations, services FROM streams WHERE id > ? ORDER BY id",
  );
  const byId = new Map<number, StreamRow>();
  const byOwner = new Map<string, number[]>();
  let lastId = 0;

  function refresh(): void {
    for (const row of newer.iterate(lastId) as Iterable<Record<keyof StreamRow, string>>) {
      const organizations = JSON.parse(row.organizations) as string[];
      const stream: StreamRow = {
        id: Number(row.id),
        account: row.account,
        provider: row.provider as string | null,
        organizations,
        services: JSON.parse(row.services),
      };
      lastId = stream.id;
      byId.set(stream.id, stream);
      for (const owner of organizations.length > 0 ? organizations : [stream.provider ?? ""]) {
        const key = `${stream.account} ${owner}`;
        const ids = byOwner.get(key);
        if (ids === undefined) byOwner.set(key, [stream.id]);
        else ids.push(stream.id);
      }
    }
  }

  return {
    refresh,
    get(id: number): StreamRow | undefined {
      if (id > lastId) refresh();
      return byId.get(id);
    },
    /** The streams that hold an organization, a provider, or (with "") the key's own organization. */
    of(account: string, owner: string): readonly number[] {
      refresh();
      return byOwner.get(`${account} ${owner}`) ?? [];
    },
    all: (): Iterable<StreamRow> => {
      refresh();
      return byId.values();
    },
  };
}

/** The last days up to today, in UTC, with the stretches of windows that lie in each. */
export function createDays(nowMs: number) {
  const firstDay = Math.floor(nowMs / DAY_MS) - CALENDAR_DAYS + 1;
  const days = Array.from({ length: CALENDAR_DAYS }, (_, at) => emptyDay(firstDay + at));

  return {
    add(window: LedgerStretch, weight: number): void {
      // A window of no length yet, which a live one is at first, still shows where it stands.
      const toMs = Math.max(window.toMs, window.fromMs + 1);
      const from = Math.floor(window.fromMs / DAY_MS);
      const to = Math.floor((toMs - 1) / DAY_MS);
      for (let day = Math.max(from, firstDay); day <= to; day++) {
        const shares = days[day - firstDay];
        if (shares === undefined) break;
        const inDayMs = Math.min(toMs, (day + 1) * DAY_MS) - Math.max(window.fromMs, day * DAY_MS);
        shares[window.state] += (inDayMs / DAY_MS) * weight;
      }
      const only = from === to ? days[from - firstDay] : undefined;
      if (only !== undefined) count(only, window);
    },
    list: (): CalendarDay[] => days.map(rounded),
  };
}

function count(day: CalendarDay, window: LedgerStretch): void {
  day.late += window.late;
  if (window.state === "live" || window.apiCount === null || window.heldCount === null) return;
  day.apiCount = (day.apiCount ?? 0) + window.apiCount;
  day.heldCount = (day.heldCount ?? 0) + window.heldCount;
  if (window.askedMs !== null) day.askedMs = Math.min(day.askedMs ?? window.askedMs, window.askedMs);
}

function emptyDay(day: number): CalendarDay {
  return {
    day: new Date(day * DAY_MS).toISOString().slice(0, 10),
    ...noWindows(),
    ...{ apiCount: null, heldCount: null, late: 0, askedMs: null },
  };
}

/** Sums of shares carry the noise of floating point. */
function rounded(day: CalendarDay): CalendarDay {
  const shares = Object.fromEntries(DAY_STATES.map((state) => [state, Math.round(day[state] * 1e6) / 1e6]));
  return { ...day, ...shares };
}
