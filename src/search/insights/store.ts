import { distinctValues } from "../../query/aggregates.ts";
import { QueryError } from "../../query/errors.ts";
import type { Instant } from "../../query/instant.ts";
import type { FieldTerm, SearchTerm } from "../../query/search-term.ts";
import type { EventPlace, QueryStore, Selection } from "../../query/store.ts";
import type { Search } from "../engine/search.ts";
import { countByTime, countRows, topValues } from "../find/counts.ts";
import type { Hit } from "../find/fetch.ts";
import { all, type Condition } from "../find/filter.ts";
import type { OrderPlace } from "../find/select.ts";
import { prefilterOf, safeRun } from "../find/text.ts";

/** Owners as the index has them: organizations in lower case, or `provider:ID`. */
export interface ArchiveScope {
  readonly owners: readonly string[];
  /** No more events are needed than this where no search_term decides. */
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** Three bytes of nanoseconds, then identity and hash: with the milliseconds, the order of A28. */
const KEY_BYTES = 35;

/** Everything that is held, as the query language reads it. */
export function createHeldStore(search: Search, scope: ArchiveScope): QueryStore<Hit> {
  const { owners, limit, signal } = scope;

  const rangeOf = (selection: Selection) => selectedRange(owners, selection);

  return {
    async *select(selection) {
      const { descending, after, search: term } = selection;
      const prefilter = term === null ? null : prefilterOf(runsOf(term));
      const query = {
        ...rangeOf(selection),
        descending,
        after: resultPlaceOf(after),
        prefilter,
        // The caller's predicate decides; here nothing is left out but what cannot match.
        ...(term === null ? { limit } : { test: () => true }),
      };
      for await (const hits of search.find(query, signal)) yield* hits;
    },
    parse: (hits) => hits.map(({ bytes }) => parsed(bytes)),
    timeMs: ({ timeNs }) => Number(floorDivide(timeNs)),
    keyOf: sortKeyOf,
    count: (selection) =>
      search.query(signal, (connection, snapshot) => countRows(connection, snapshot, rangeOf(selection))),
    countByTime: (selection, stepMs, offsetMs, stepsMax) =>
      search.query(signal, async (connection, snapshot) => {
        const range = rangeOf(selection);
        const buckets = await countByTime(connection, snapshot, range, stepMs, offsetMs, stepsMax);
        return new Map(buckets.map(({ startMs, count }) => [startMs, count]));
      }),
    async distinct(selection, field, valuesMax) {
      const column = distinctColumn(field);
      if (column === undefined) return undefined;
      const range = rangeOf(selection);
      const narrowed = (sql: string) => ({
        ...range,
        condition: all([range.condition, { sql, values: [] }]),
      });
      const isKnown = narrowed(`"${column}" IS NOT NULL`);
      const values = await search.query(signal, (connection, snapshot) =>
        topValues(connection, snapshot, isKnown, column, valuesMax),
      );
      const counts = new Map(values.map(({ value, count }) => [value!, count]));
      // The column is empty where the field is no text. There are hardly any such events.
      for await (const hits of search.find(narrowed(`"${column}" IS NULL`), signal))
        for (const { bytes } of hits)
          for (const value of distinctValues(parsed(bytes), field.split(".")))
            counts.set(value, (counts.get(value) ?? 0) + 1);
      return counts;
    },
  };
}

/** The rows of a selection, as far as the index can tell. */
export function selectedRange(owners: readonly string[], { services, from, to, search: term }: Selection) {
  const condition = all([
    inList("organization", owners),
    ...(services === null ? [] : [inList("service", services)]),
    { sql: "time_ns >= ?", values: [nsOf(from)] },
    ...(to === null ? [] : [{ sql: "time_ns <= ?", values: [nsOf(to)] }]),
    ...(term === null ? [] : narrowing(term)),
  ]);
  return { condition, fromNs: nsOf(from), toNs: to === null ? undefined : nsOf(to) + 1n };
}

function inList(column: string, values: readonly string[]): Condition {
  return values.length === 0
    ? { sql: "false", values: [] }
    : { sql: `"${column}" IN (${values.map(() => "?").join(", ")})`, values };
}

/** Columns that are the event's own top-level fields, by their names in a search_term. */
const OWN_COLUMNS: Readonly<Record<string, string>> = {
  id: "id",
  event_type: "event_type",
  service: "service",
  "correlation.id": "correlation",
};

/** The column that holds the field's value wherever that is a text and not empty. */
function ownColumn(field: string): string | undefined {
  return Object.hasOwn(OWN_COLUMNS, field) ? OWN_COLUMNS[field] : undefined;
}

/** The column that lists the values of a field. Many events have no correlation, and all of them would be read. */
export function distinctColumn(field: string): string | undefined {
  return field === "correlation.id" ? undefined : ownColumn(field);
}

/**
 * Conditions that every matching event fulfils (A27). A column is null where the field is no text, and the
 * comparison of the engine may differ for letters beyond ASCII: such rows stay.
 */
export function narrowing(term: SearchTerm): Condition[] {
  if ("logic" in term) return term.logic === "and" ? term.terms.flatMap(narrowing) : [];
  const column = ownColumn(term.field);
  const values = valuesOf(term);
  if (column === undefined || values === null) return [];
  const isOther = `"${column}" IS NULL OR strlen("${column}") <> length("${column}")`;
  const list = values.map(() => "?").join(", ");
  return [
    {
      sql: `(${isOther} OR lower("${column}") IN (${list}))`,
      values: values.map((one) => one.toLowerCase()),
    },
  ];
}

/** The ASCII texts of which an event must have one to match by equality; null where there is no such list. */
function valuesOf({ kind, operator, value }: FieldTerm): string[] | null {
  if (kind !== "string" || (operator !== "eq" && operator !== "in")) return null;
  const values = Array.isArray(value) ? value : [value];
  const texts = values.filter((one): one is string => typeof one === "string" && /^[\x20-\x7e]+$/.test(one));
  return texts.length === values.length ? texts : null;
}

/** Texts of which every matching event contains at least one in its bytes; null in the list where none is known. */
export function runsOf(term: SearchTerm): (string | null)[] {
  if ("logic" in term) {
    const inner = term.terms.map(runsOf);
    if (term.logic === "or") return inner.flat();
    return inner.find((runs) => !runs.includes(null)) ?? [null];
  }
  const { kind, operator, value } = term;
  const isPositive = ["eq", "in", "contains", "startsWith", "endsWith"].includes(operator);
  if (kind !== "string" || !isPositive) return [null];
  return (Array.isArray(value) ? value : [value]).map((one) =>
    typeof one === "string" && !isSpelledInManyWays(one) ? safeRun(one) : null,
  );
}

/** A number in an event compares by its value, whatever its digits. */
function isSpelledInManyWays(text: string): boolean {
  return /^[-+.\deE]+$/.test(text);
}

function nsOf({ ms, ns }: Instant): bigint {
  return BigInt(ms) * 1_000_000n + BigInt(ns);
}

function floorDivide(timeNs: bigint): bigint {
  const rest = timeNs % 1_000_000n;
  return (timeNs - (rest < 0n ? rest + 1_000_000n : rest)) / 1_000_000n;
}

export function sortKeyOf({ timeNs, identity, bytesHash }: OrderPlace): Uint8Array {
  const key = Buffer.alloc(KEY_BYTES);
  key.writeUIntBE(Number(timeNs - floorDivide(timeNs) * 1_000_000n), 0, 3);
  key.write(identity, 3, "hex");
  key.write(bytesHash, 19, "hex");
  return key;
}

export function resultPlaceOf(after: EventPlace | null): OrderPlace | null {
  if (after === null || after.key === null) return null;
  if (after.key.length !== KEY_BYTES || !Number.isSafeInteger(after.ms))
    throw new QueryError(400, "Invalid search_after: it does not belong to this query");
  const key = Buffer.from(after.key);
  return {
    timeNs: BigInt(after.ms) * 1_000_000n + BigInt(key.readUIntBE(0, 3)),
    identity: key.toString("hex", 3, 19),
    bytesHash: key.toString("hex", 19),
  };
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}
