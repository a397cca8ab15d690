import { setImmediate } from "node:timers/promises";
import { byOwner } from "../../core/by-owner.ts";
import type { OwnerCounts } from "../../core/window.ts";
import type { State } from "../database.ts";
import { createHeldCounts } from "../held-counts.ts";
import { createAlsoSeenView } from "./also-seen.ts";
import {
  type BothCounts,
  createOverlapGroups,
  type Excess,
  mayShareEvents,
  type OwnerWindow,
} from "./overlap-groups.ts";
import type { StreamRow } from "./streams.ts";

const SLICE_ROWS = 500;

/** What the sums over windows have too much, because several windows have read the same events. */
export interface Overlaps {
  /** Of everything, whichever account read it. */
  readonly totals: readonly Excess[];
  /** Of one row of the list of organizations, by `rowKey`. */
  readonly byRow: ReadonlyMap<string, readonly Excess[]>;
}

/** An organization, a provider's portal, or (with "") a key's own organization. */
export function rowKey(account: string, id: string): string {
  return JSON.stringify([account, id]);
}

export function sumOfExcess(list: readonly Excess[] = []): BothCounts {
  return {
    apiCount: list.reduce((sum, { apiCount }) => sum + apiCount, 0),
    heldCount: list.reduce((sum, { heldCount }) => sum + heldCount, 0),
  };
}

/** One owner's time line: within a row, or over all accounts. */
interface Line {
  /** undefined: over all accounts. */
  readonly row: string | undefined;
  readonly isTotal: boolean;
  /** The services of each query. */
  readonly queries: Map<string, readonly string[]>;
  readonly groups: ReturnType<typeof createOverlapGroups>;
  readonly found: Excess[];
}

/** Finds them. Where no owner has several queries that may share events, as is usual, no window is read. */
export function createOverlaps(db: State) {
  const heldCounts = createHeldCounts(db);
  const lookAtSeen = createAlsoSeenView(db);
  const idsOf = db
    .prepare(
      "SELECT id FROM windows WHERE stream IN (SELECT value FROM json_each(?)) AND reader IS NULL ORDER BY from_ms, id",
    )
    .pluck();
  const rowsOf = db.prepare(
    `SELECT stream, from_ms AS fromMs, to_ms AS toMs, live, api_count AS apiCount, held_count AS heldCount, counts
     FROM windows WHERE id IN (SELECT value FROM json_each(?)) ORDER BY from_ms, id`,
  );

  /** `streams`: those with windows. `named`: the owners that the windows of a stream without organizations have shown. */
  return async (
    streams: readonly StreamRow[],
    named: ReadonlyMap<number, ReadonlySet<string>>,
  ): Promise<Overlaps> => {
    const lines = new Map<string, Line>();
    const alsoSeen = lookAtSeen();
    const ownersOf = ({ id, organizations }: StreamRow) =>
      organizations.length > 0 ? organizations : [...(named.get(id) ?? [])];
    for (const stream of streams) for (const owner of ownersOf(stream)) learn(stream, owner);
    for (const [key, line] of lines) if (!hasOverlap(line)) lines.delete(key);
    const isConcerned = (stream: StreamRow) =>
      ownersOf(stream).some(
        (owner) => alsoSeen.has(owner) || keysOf(stream, owner).some((key) => lines.has(key)),
      );
    const concerned = new Map(streams.filter(isConcerned).map((stream) => [stream.id, stream]));
    if (concerned.size > 0) await walk(concerned, take);
    for (const { groups } of lines.values()) groups.end();
    return resultOf(lines.values(), await alsoSeen.excess());

    function learn(stream: StreamRow, owner: string): void {
      for (const [at, key] of keysOf(stream, owner).entries()) {
        const line = lines.get(key) ?? newLine(stream, owner, at > 0);
        lines.set(key, line);
        line.queries.set(queryOf(stream), stream.services);
      }
    }

    function take(window: WindowRow): void {
      const stream = concerned.get(window.stream)!;
      const isCounted = window.live === 0 && window.apiCount !== null && window.heldCount !== null;
      const counts = window.counts === null ? null : byOwner(JSON.parse(window.counts) as OwnerCounts);
      const part: Omit<OwnerWindow, "counts"> = {
        fromMs: window.fromMs,
        toMs: Math.max(window.toMs, window.fromMs + 1),
        query: queryOf(stream),
        services: stream.services,
      };
      for (const owner of ownersOf(stream)) {
        const own = { ...part, counts: isCounted ? partOf(window, stream, counts, owner) : null };
        alsoSeen.add(stream, owner, own);
        for (const key of keysOf(stream, owner)) lines.get(key)?.groups.add(own);
      }
    }
  };

  function newLine(stream: StreamRow, owner: string, isOfAll: boolean): Line {
    const query = { owners: [owner], account: stream.account, provider: stream.provider };
    const found: Excess[] = [];
    const groups = createOverlapGroups(
      (fromMs, toMs) => heldCounts({ ...query, fromMs, toMs }).get(owner) ?? 0,
      (excess) => found.push(excess),
    );
    return {
      row: isOfAll ? undefined : rowOf(stream, owner),
      isTotal: isOfAll || keysOf(stream, owner).length === 1,
      ...{ queries: new Map(), groups, found },
    };
  }

  /** In the order of their beginnings, a slice at a time. */
  async function walk(
    streams: ReadonlyMap<number, StreamRow>,
    take: (window: WindowRow) => void,
  ): Promise<void> {
    const ids = idsOf.all(JSON.stringify([...streams.keys()])) as number[];
    for (let at = 0; at < ids.length; at += SLICE_ROWS) {
      const rows = rowsOf.all(JSON.stringify(ids.slice(at, at + SLICE_ROWS))) as WindowRow[];
      for (const row of rows) if (streams.has(row.stream)) take(row);
      await setImmediate();
    }
  }
}

interface WindowRow {
  readonly stream: number;
  readonly fromMs: number;
  readonly toMs: number;
  readonly live: number;
  readonly apiCount: number | null;
  readonly heldCount: number | null;
  readonly counts: string | null;
}

function rowOf({ account, provider, organizations }: StreamRow, owner: string): string {
  return rowKey(account, organizations.length > 0 ? owner : (provider ?? ""));
}

/** Regrouping organizations makes another stream and no other query. */
function queryOf({ account, provider, organizations, services }: StreamRow): string {
  return JSON.stringify([account, provider, organizations.length > 0, services]);
}

/** The lines of an owner: that of its row, and for an organization or a portal that of all accounts. */
function keysOf(stream: StreamRow, owner: string): string[] {
  const own = JSON.stringify([rowOf(stream, owner), owner]);
  if (stream.provider !== null) return [own, JSON.stringify({ portal: stream.provider, owner })];
  return owner === "" ? [own] : [own, JSON.stringify(owner)];
}

function hasOverlap({ queries }: Line): boolean {
  const list = [...queries].map(([query, services]) => ({ query, services }));
  return list.some((a, at) => list.slice(at + 1).some((b) => mayShareEvents(a, b)));
}

/** null: a group that was counted as a whole only. */
function partOf(
  { apiCount, heldCount }: WindowRow,
  { organizations }: StreamRow,
  counts: OwnerCounts | null,
  owner: string,
): BothCounts | null {
  if (organizations.length === 1) return { apiCount: apiCount!, heldCount: heldCount! };
  if (counts === null) return null;
  const [api, held] = counts[owner] ?? [0, 0];
  return { apiCount: api, heldCount: held };
}

function resultOf(lines: Iterable<Line>, seenTwice: readonly Excess[]): Overlaps {
  const totals: Excess[] = [...seenTwice];
  const byRow = new Map<string, Excess[]>();
  for (const { row, isTotal, found } of lines) {
    if (isTotal) totals.push(...found);
    if (row !== undefined) byRow.set(row, [...(byRow.get(row) ?? []), ...found]);
  }
  return { totals, byRow };
}
