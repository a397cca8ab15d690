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
  narrow?(slice: Slice): Promise<Condition>;
}

export interface OrderPlace {
  readonly timeNs: bigint;
  readonly identity: string;
  readonly bytesHash: string;
}

const SLICE_ROWS = 200_000;
/** A slice that brings less than this share of its rows makes the next one larger. */
const SPARSE = 0.1;
const COLUMNS =
  "time_ns, identity, bytes_hash, organization, part, row, frame_offset, frame_bytes, start, length";

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
  let sliceRows = SLICE_ROWS;
  const days = daysWithin(snapshot, query);
  while (days.length > 0 && left > 0) {
    const slice = takeSlice(days, sliceRows);
    let found = 0;
    const narrowed = query.narrow === undefined ? query : await narrowedBy(query, slice);
    for await (const rows of readSlice(connection, snapshot, narrowed, slice, left, signal)) {
      found += rows.length;
      left -= rows.length;
      yield rows;
    }
    if (found < slice.rows * SPARSE) sliceRows *= 2;
  }
}

export interface Slice {
  readonly fromNs: bigint | undefined;
  readonly toNs: bigint | undefined;
  readonly rows: number;
}
type Day = { readonly fromNs: bigint | undefined; readonly toNs: bigint | undefined; readonly rows: number };

async function narrowedBy(query: Selecting, slice: Slice): Promise<Selecting> {
  return { ...query, condition: all([query.condition, await query.narrow!(slice)]) };
}

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

function takeSlice(days: Day[], rowsMin: number): Slice {
  const taken: Day[] = [];
  let rows = 0;
  while (days.length > 0 && (taken.length === 0 || rows < rowsMin)) {
    const day = days.shift()!;
    taken.push(day);
    rows += day.rows;
  }
  const [one, other] = [taken[0]!, taken.at(-1)!];
  const isAscending =
    taken.length === 1 || (one.toNs !== undefined && one.toNs <= (other.fromNs ?? one.toNs));
  const [first, last] = isAscending ? [one, other] : [other, one];
  return { fromNs: first.fromNs, toNs: last.toNs, rows };
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
  return {
    timeNs: columns[0]![at] as bigint,
    identity: columns[1]![at] as string,
    bytesHash: columns[2]![at] as string,
    organization: columns[3]![at] as string,
    part: Number(columns[4]![at]),
    row: columns[5]![at] as number,
    frameOffset: Number(columns[6]![at]),
    frameBytes: columns[7]![at] as number,
    start: columns[8]![at] as number,
    length: columns[9]![at] as number,
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
