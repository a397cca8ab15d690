import { QueryError } from "./errors.ts";
import type { Query } from "./parse-query.ts";
import { valuesAt } from "./predicate.ts";
import { matching, selectionOf, slices } from "./read-page.ts";
import type { QueryStore } from "./store.ts";

/** Operations of the vendor's OpenAPI that the specification does not list. */
export const AGGREGATES = ["count", "interval", "distinct"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

export function isAggregate(name: string): name is Aggregate {
  return (AGGREGATES as readonly string[]).includes(name);
}

const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
};
const BUCKETS_MAX = 10_000;
/** What different values may take in memory while they are counted, in number and in characters. */
const VALUES_MAX = 200_000;
const VALUES_LENGTH_MAX = 20_000_000;

type Body = Readonly<Record<string, unknown>>;

/** The answer's body. `body` is the same request body that the query was parsed from. */
export async function aggregate<Event>(
  operation: Aggregate,
  store: QueryStore<Event>,
  query: Query,
  body: unknown,
): Promise<object> {
  switch (operation) {
    case "count":
      return { count: await count(store, query) };
    case "interval":
      return { buckets: await interval(store, query, body as Body) };
    case "distinct":
      return { buckets: await distinct(store, query, body as Body) };
  }
}

async function count<Event>(store: QueryStore<Event>, query: Query): Promise<number> {
  if (query.predicate === null && store.count !== undefined) return store.count(selectionOf(query, null));
  const events = matching(store, query, null);
  let found = 0;
  if (Symbol.iterator in events) for (const _ of events) found++;
  else for await (const _ of events) found++;
  return found;
}

async function interval<Event>(store: QueryStore<Event>, query: Query, body: Body) {
  const unitMs = UNITS_MS[String(body.interval_unit)];
  const value = Number(body.interval_value ?? 1);
  if (unitMs === undefined || !Number.isInteger(value) || value < 1) {
    throw new QueryError(400, "interval_unit must be s, m, h, d or w and interval_value a positive integer");
  }
  const stepMs = unitMs * value;
  const offsetMs = zoneOffsetMs(body.timezone);
  const buckets = await bucketsOf(store, query, stepMs, offsetMs);
  if (buckets.size > BUCKETS_MAX) throw tooManyBuckets();
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  return sorted.map(([key, docCount]) => ({
    key,
    key_as_string: new Date(key).toISOString(),
    doc_count: docCount,
  }));
}

async function bucketsOf<Event>(
  store: QueryStore<Event>,
  query: Query,
  stepMs: number,
  offsetMs: number,
): Promise<Map<number, number>> {
  if (query.predicate === null && store.countByTime !== undefined)
    return store.countByTime(selectionOf(query, null), stepMs, offsetMs, BUCKETS_MAX + 1);
  const buckets = new Map<number, number>();
  for await (const event of matching(store, query, null)) {
    const key = Math.floor((store.timeMs(event) + offsetMs) / stepMs) * stepMs - offsetMs;
    buckets.set(key, (buckets.get(key) ?? 0) + 1);
    if (buckets.size > BUCKETS_MAX) throw tooManyBuckets();
  }
  return buckets;
}

function tooManyBuckets(): QueryError {
  return new QueryError(400, "The interval makes too many buckets");
}

/** "+0530" or "-07:00"; anything else counts as UTC. */
function zoneOffsetMs(zone: unknown): number {
  const match = typeof zone === "string" ? /^([+-])(\d\d):?(\d\d)$/.exec(zone) : null;
  if (match === null) return 0;
  const minutes = Number(match[2]) * 60 + Number(match[3]);
  return (match[1] === "-" ? -minutes : minutes) * 60_000;
}

async function distinct<Event>(store: QueryStore<Event>, query: Query, body: Body) {
  const { field } = body;
  if (typeof field !== "string" || field === "") throw new QueryError(400, "field is required");
  const known =
    query.predicate === null
      ? await store.distinct?.(selectionOf(query, null), field, BUCKETS_MAX)
      : undefined;
  const buckets = known ?? (await countValues(store, query, field));
  const sorted = [...buckets].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return sorted.slice(0, BUCKETS_MAX).map(([key, docCount]) => ({ key, doc_count: docCount }));
}

async function countValues<Event>(store: QueryStore<Event>, query: Query, field: string) {
  const path = field.split(".");
  const buckets = new Map<string, number>();
  let length = 0;
  for await (const slice of slices(matching(store, query, null))) {
    for (const event of await store.parse(slice)) {
      for (const value of distinctValues(event, path)) {
        const before = buckets.get(value);
        buckets.set(value, (before ?? 0) + 1);
        if (before === undefined) length += value.length;
      }
      if (buckets.size > VALUES_MAX || length > VALUES_LENGTH_MAX) throw tooManyValues(field, buckets.size);
    }
  }
  return buckets;
}

/** An event counts once for each different value, as a search index counts documents. */
export function distinctValues(event: unknown, path: readonly string[]): Set<string> {
  const values = valuesAt(event, path, 0).filter((value) => value !== null && typeof value !== "object");
  return new Set(values.map(String));
}

function tooManyValues(field: string, found: number): QueryError {
  return new QueryError(
    400,
    `${field} has too many different values to count them: ${found.toLocaleString("en")} were found before the query was stopped. Ask for a shorter time with start_time and end_time, for fewer services, or add a search_term.`,
  );
}
