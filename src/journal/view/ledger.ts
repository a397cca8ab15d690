import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../core/clock.ts";
import { isSetAside } from "../../core/roster.ts";
import type { WindowCounts } from "../../core/view/status.ts";
import type { CalendarDay } from "../../core/view/windows.ts";
import { CAME_TWICE, type OwnerCounts, type WindowState } from "../../core/window.ts";
import type { State } from "../database.ts";
import { createDays, type DayState, noWindows } from "./days.ts";
import { shortIn } from "./overlap-groups.ts";
import { createOverlaps, type Overlaps, sumOfExcess } from "./overlaps.ts";
import { createStreams, type StreamRow } from "./streams.ts";

const SLICE_ROWS = 4000;
const BREATH_ROWS = 250;
const FRESH_MS_MIN = 1000;
/** A survey is used for so many times as long as it took, so that looking never costs more than a thirtieth. */
const FRESH_FACTOR = 30;

/** One stream in the ledger. */
export interface StreamFacts {
  readonly counts: WindowCounts;
  unreadMs: number;
  unreadFromMs: number | null;
  expiredMs: number;
  /** How far its live window has been read; null when it has none. */
  liveToMs: number | null;
  /** The newest time that was read. */
  readToMs: number | null;
  /** The service's counts and ours in closed windows, by organization; a single one is "". Each window counts. */
  readonly compared: Map<string, { apiCount: number; heldCount: number }>;
}

export interface Survey {
  readonly madeMs: number;
  readonly tookMs: number;
  readonly streams: ReadonlyMap<number, StreamFacts>;
  readonly days: readonly CalendarDay[];
  readonly apiCount: number;
  readonly heldCount: number;
  readonly differing: number;
  /** Closed windows for which the service listed some events twice. */
  readonly doubted: number;
  /** Events that the service counts in closed windows and that are not held. */
  readonly short: number;
  readonly late: number;
  readonly overlaps: Overlaps;
}

/** Reads the ledger of windows, a slice at a time, so that a million of them block nothing else. */
export function createLedgerView(db: State, clock: Clock) {
  const streams = createStreams(db);
  const findOverlaps = createOverlaps(db);
  const slice = db
    .prepare(
      `SELECT id, stream, from_ms, to_ms, live, state, asked_ms, api_count, held_count, late, counts, reason
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
    const sums = { apiCount: 0, heldCount: 0, differing: 0, doubted: 0, short: 0, late: 0 };
    /** The owners that windows of streams without organizations have shown. */
    const named = new Map<number, Set<string>>();
    let workedMs = 0;
    for (let lastId = -1; ; ) {
      const sliceBegun = performance.now();
      const rows = slice.all(lastId) as SliceRow[];
      for (const [at, row] of rows.entries()) {
        take(row);
        // Counts by organization take time to parse.
        if (at % BREATH_ROWS === BREATH_ROWS - 1) await setImmediate();
      }
      workedMs += performance.now() - sliceBegun;
      if (rows.length < SLICE_ROWS) break;
      lastId = rows.at(-1)![0];
      await setImmediate();
    }
    const overlapsBegun = performance.now();
    const read = [...facts.keys()].map((id) => streams.get(id)).filter((stream) => stream !== undefined);
    const overlaps = await findOverlaps(read, named);
    workedMs += performance.now() - overlapsBegun;
    const excess = sumOfExcess(overlaps.totals);
    sums.apiCount -= excess.apiCount;
    sums.heldCount -= excess.heldCount;
    for (const one of overlaps.totals) {
      sums.short -= one.short;
      days.lessen(one);
    }
    const tookMs = Math.min(workedMs, performance.now() - begun);
    const survey: Survey = { madeMs, tookMs, streams: facts, days: days.list(), overlaps, ...sums };
    last = { survey, liveIds, refreshedMs: madeMs };
    return survey;

    function take([
      id,
      streamId,
      fromMs,
      toMs,
      live,
      state,
      askedMs,
      apiCount,
      heldCount,
      late,
      counts,
      reason,
    ]: SliceRow) {
      const stream = factsOf(facts, streamId);
      const shown: DayState = live === 1 ? "live" : state;
      stream.counts[shown]++;
      if (live === 1) {
        stream.liveToMs = Math.max(stream.liveToMs ?? 0, toMs);
        liveIds.set(id, streamId);
      } else if (state === "unread" || state === "refused") {
        stream.unreadMs += toMs - fromMs;
        if (!isSetAside(reason)) stream.unreadFromMs = Math.min(stream.unreadFromMs ?? fromMs, fromMs);
      } else if (state === "expired") stream.expiredMs += toMs - fromMs;
      if (live === 1 || state === "read" || state === "sealed")
        stream.readToMs = Math.max(stream.readToMs ?? 0, toMs);
      if (live === 0 && apiCount !== null && heldCount !== null) {
        sums.apiCount += apiCount;
        sums.heldCount += heldCount;
        if (apiCount !== heldCount) sums.differing++;
        sums.short += shortIn([{ apiCount, heldCount }]);
        compare(stream, streams.get(streamId), { apiCount, heldCount, counts });
        noteOwners(streamId, counts);
      }
      if (live === 0 && reason === CAME_TWICE) sums.doubted++;
      sums.late += late;
      const weight = streams.get(streamId)?.organizations.length || 1;
      const stretch = { fromMs, toMs, state: shown, apiCount, heldCount, late, askedMs };
      days.addState(stretch, weight);
      days.addCounts(stretch);
    }

    function noteOwners(streamId: number, counts: string | null): void {
      if (counts === null || streams.get(streamId)?.organizations.length !== 0) return;
      const owners = named.get(streamId) ?? new Set();
      for (const owner of Object.keys(JSON.parse(counts) as OwnerCounts)) owners.add(owner);
      named.set(streamId, owners);
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
  counts: string | null,
  reason: string | null,
];

/** Adds a closed window's counts to those of its organizations. */
function compare(
  { compared }: StreamFacts,
  stream: StreamRow | undefined,
  window: { readonly apiCount: number; readonly heldCount: number; readonly counts: string | null },
): void {
  const add = (owner: string, apiCount: number, heldCount: number) => {
    const sum = compared.get(owner) ?? { apiCount: 0, heldCount: 0 };
    compared.set(owner, { apiCount: sum.apiCount + apiCount, heldCount: sum.heldCount + heldCount });
  };
  if ((stream?.organizations.length ?? 0) <= 1) add("", window.apiCount, window.heldCount);
  else if (window.counts !== null)
    for (const [owner, pair] of Object.entries(JSON.parse(window.counts) as OwnerCounts)) add(owner, ...pair);
}

function factsOf(facts: Map<number, StreamFacts>, id: number): StreamFacts {
  const known = facts.get(id);
  if (known !== undefined) return known;
  const fresh = {
    counts: noWindows(),
    unreadMs: 0,
    unreadFromMs: null,
    expiredMs: 0,
    liveToMs: null,
    readToMs: null,
    compared: new Map(),
  };
  facts.set(id, fresh);
  return fresh;
}
