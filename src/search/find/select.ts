import type { DuckDBConnection } from "@duckdb/node-api";
import { interruptible } from "../engine/duckdb.ts";
import { all, type Condition } from "./filter.ts";
import type { QuerySnapshot } from "./snapshot.ts";

/** A row of the index: the event's place in the order, where it is, and what tables show. */
export interface FoundRow {
  readonly timeNs: bigint;
  readonly identity: string;
  readonly bytesHash: string;
  readonly organization: string;
  readonly part: number;
  readonly row: number;
  readonly frameOffset: number;
  readonly frameBytes: number;
  readonly start: number;
  readonly length: number;
}

export interface Selecting {
  readonly condition: Condition;
  readonly fromNs: bigint | undefined;
  /** Not included. */
  readonly toNs: bigint | undefined;
  readonly descending: boolean;
  /** Only rows beyond this place in the order. */
  readonly after: OrderPlace | null;
  /** No more rows are needed than this; undefined where a later test decides. */
  readonly rowsMax: number | undefined;
  /** A further condition for a slice, found out when it is its turn. */
  narrow?(slice: Slice): Promise<Narrowed>;
}

export interface Narrowed {
  readonly condition: Condition;
  /** How much of the events was read to find it out. */
  readonly bytes: number;
}

export interface OrderPlace {
  readonly timeNs: bigint;
  readonly identity: string;
  readonly bytesHash: string;
}

const SLICE_ROWS = 200_000;
/** Slices begin this much larger than the rows that are needed: a page of a long list sorts little beyond itself. */
const SLICE_ROOM = 2;
/** A slice that brings less than this share of its rows makes the next one larger. */
const SPARSE = 0.1;
const SPARSE_GROWTH = 4;
/** Slices whose events are looked through are small, so that those that match are still in memory. */
const SCAN_SLICE_ROWS = 20_000;
const SCAN_SPARSE_BYTES = 5_000_000;
/** One text for three columns: each text of the engine costs a call of its own. */
const COLUMNS =
  "time_ns, identity || bytes_hash || organization, part, row, frame_offset, frame_bytes, start, length";
const HEX_LENGTH = 32;

/** Rows so far should be fetched now. */
export const END_OF_SLICE: readonly FoundRow[] = [];

/**
 * The rows of a query in the order (time, identity, hash of the bytes), in batches. The time line is cut at UTC
 * midnights into slices of bounded size, so that the first rows come early and sorting needs little memory.
 */
export async function* selectRows(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  query: Selecting,
  signal: AbortSignal,
): AsyncGenerator<readonly FoundRow[]> {
  let left = query.rowsMax ?? Number.POSITIVE_INFINITY;
  const isScan = query.narrow !== undefined;
  let sliceRows = isScan ? SCAN_SLICE_ROWS : Math.min(SLICE_ROWS, left * SLICE_ROOM);
  const days = daysWithin(snapshot, query);
  while (days.length > 0 && left > 0) {
    const slice = takeSlice(days, sliceRows, query.descending);
    const narrowed = await query.narrow?.(slice);
    const own =
      narrowed === undefined ? query : { ...query, condition: all([query.condition, narrowed.condition]) };
    let found = 0;
    for await (const rows of readSlice(connection, snapshot, own, slice, left, signal)) {
      found += rows.length;
      left -= rows.length;
      yield rows;
    }
    // The frames of this slice are in memory now: its rows are fetched before the next slice is looked through.
    if (isScan) yield END_OF_SLICE;
    if (narrowed === undefined && found < slice.rows * SPARSE)
      sliceRows = Math.max(SLICE_ROWS, sliceRows * SPARSE_GROWTH);
    if (narrowed !== undefined && narrowed.bytes < SCAN_SPARSE_BYTES) sliceRows *= SPARSE_GROWTH;
  }
}

export interface Slice {
  readonly fromNs: bigint | undefined;
  readonly toNs: bigint | undefined;
  readonly rows: number;
}
type Day = { readonly fromNs: bigint | undefined; readonly toNs: bigint | undefined; readonly rows: number };

/** Stretches of the time line that together cover all of it, in the order of the sort. */
function daysWithin({ days }: QuerySnapshot, query: Selecting): Day[] {
  const { after, descending } = query;
  const lowNs = later(query.fromNs, descending ? undefined : after?.timeNs);
  const highNs = earlier(query.toNs, descending && after !== null ? after.timeNs + 1n : undefined);
  const stretches = days.map(({ startNs, rows }, at) => ({
    fromNs: at === 0 ? undefined : startNs,
    toNs: at === days.length - 1 ? undefined : days[at + 1]!.startNs,
    rows,
  }));
  const inside = stretches
    .filter(
      ({ fromNs, toNs }) =>
        (lowNs === undefined || toNs === undefined || toNs > lowNs) &&
        (highNs === undefined || fromNs === undefined || fromNs < highNs),
    )
    .map(({ fromNs, toNs, rows }) => ({ fromNs: later(fromNs, lowNs), toNs: earlier(toNs, highNs), rows }));
  return descending ? inside.reverse() : inside;
}

/** The next days in the order of the sort, with at least so many rows. */
function takeSlice(days: Day[], rowsMin: number, descending: boolean): Slice {
  const taken: Day[] = [];
  let rows = 0;
  while (days.length > 0 && (taken.length === 0 || rows < rowsMin)) {
    const day = days.shift()!;
    taken.push(day);
    rows += day.rows;
  }
  const [one, other] = [taken[0]!, taken.at(-1)!];
  return descending
    ? { fromNs: other.fromNs, toNs: one.toNs, rows }
    : { fromNs: one.fromNs, toNs: other.toNs, rows };
}

async function* readSlice(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  { condition, descending, after }: Selecting,
  slice: Slice,
  rowsMax: number,
  signal: AbortSignal,
): AsyncGenerator<FoundRow[]> {
  const source = snapshot.source(slice.fromNs, slice.toNs);
  if (source === null) return;
  const { sql, values } = all([
    condition,
    between(slice),
    ...(after === null ? [] : [beyond(after, descending)]),
  ]);
  const direction = descending ? "DESC" : "ASC";
  const limit = Number.isFinite(rowsMax) ? ` LIMIT ${rowsMax}` : "";
  const text = `SELECT ${COLUMNS} FROM ${source} WHERE ${sql}
    ORDER BY time_ns ${direction}, identity ${direction}, bytes_hash ${direction}, part ${direction}, row ${direction}${limit}`;
  const result = await interruptible(connection, signal, () => connection.stream(text, [...values]));
  for (;;) {
    const chunk = await interruptible(connection, signal, () => result.fetchChunk());
    if (chunk === null || chunk.rowCount === 0) return;
    const columns = chunk.getColumns();
    yield Array.from({ length: chunk.rowCount }, (_, at) => rowAt(columns, at));
  }
}

function rowAt(
  columns: ReturnType<
    NonNullable<
      Awaited<ReturnType<Awaited<ReturnType<DuckDBConnection["stream"]>>["fetchChunk"]>>
    >["getColumns"]
  >,
  at: number,
): FoundRow {
  const texts = columns[1]![at] as string;
  return {
    timeNs: columns[0]![at] as bigint,
    identity: texts.slice(0, HEX_LENGTH),
    bytesHash: texts.slice(HEX_LENGTH, 2 * HEX_LENGTH),
    organization: texts.slice(2 * HEX_LENGTH),
    part: Number(columns[2]![at]),
    row: columns[3]![at] as number,
    frameOffset: Number(columns[4]![at]),
    frameBytes: columns[5]![at] as number,
    start: columns[6]![at] as number,
    length: columns[7]![at] as number,
  };
}

export function between({ fromNs, toNs }: Pick<Slice, "fromNs" | "toNs">): Condition {
  return all([
    ...(fromNs === undefined ? [] : [{ sql: "time_ns >= ?", values: [fromNs] }]),
    ...(toNs === undefined ? [] : [{ sql: "time_ns < ?", values: [toNs] }]),
  ]);
}

function beyond({ timeNs, identity, bytesHash }: OrderPlace, descending: boolean): Condition {
  const sign = descending ? "<" : ">";
  return {
    sql: `(time_ns ${sign} ? OR (time_ns = ? AND (identity ${sign} ? OR (identity = ? AND bytes_hash ${sign} ?))))`,
    values: [timeNs, timeNs, identity, identity, bytesHash],
  };
}

function later(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a;
}

function earlier(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a;
}
