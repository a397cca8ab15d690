import { describe, expect, test } from "vitest";
import { aggregate } from "../../src/query/aggregates.ts";
import { compareInstants, parseTimestamp } from "../../src/query/instant.ts";
import { parseQuery, type QueryRules } from "../../src/query/parse-query.ts";
import { readPage } from "../../src/query/read-page.ts";
import type { EventPlace, QueryStore } from "../../src/query/store.ts";
import { createTokenCodec } from "../../src/query/token.ts";

const RULES: QueryRules = {
  nowMs: Date.parse("2026-01-02T00:00:00Z"),
  limitDefault: 1000,
  limitMax: 10_000,
  searchTermsMax: 1000,
  furtherServices: [],
  scope: "one",
};
const WHOLE = { service: ["all"], start_time: "2026-01-01T00:00:00Z" };

interface Row {
  readonly id: string;
  readonly timestamp: string;
  readonly service: string;
  readonly [field: string]: unknown;
}

/** Events that share milliseconds, and two that share a timestamp to the nanosecond. */
const ROWS: readonly Row[] = [
  { id: "a", timestamp: "2026-01-01T10:00:00.000000001Z", service: "sso", tags: ["x", "y"] },
  { id: "b", timestamp: "2026-01-01T10:00:00.000000002Z", service: "directory", tags: ["y"] },
  { id: "c", timestamp: "2026-01-01T10:00:00.000000002Z", service: "directory", success: false },
  { id: "d", timestamp: "2026-01-01T10:00:00.5Z", service: "sso", success: true },
  { id: "e", timestamp: "2026-01-01T11:30:00Z", service: "radius", success: false },
];

/** Another store than the simulator's: asynchronous, its key is nanoseconds and identity. */
function storeOf(rows: readonly Row[]): QueryStore<Row> & { readonly parsed: string[] } {
  const parsed: string[] = [];
  const keyOf = (row: Row) =>
    Buffer.from(`${String(parseTimestamp(row.timestamp)!.ns).padStart(6, "0")}${row.id}`);
  const order = (row: Row, place: EventPlace) =>
    parseTimestamp(row.timestamp)!.ms - place.ms || Buffer.compare(keyOf(row), Buffer.from(place.key ?? []));
  return {
    parsed,
    async *select({ services, from, to, descending, after }) {
      const found = rows.filter((row) => {
        const at = parseTimestamp(row.timestamp)!;
        if (services !== null && !services.includes(row.service)) return false;
        if (compareInstants(at, from) < 0 || (to !== null && compareInstants(at, to) > 0)) return false;
        if (after === null || after.key === null) return true;
        return descending ? order(row, after) < 0 : order(row, after) > 0;
      });
      yield* descending ? found.toReversed() : found;
    },
    async parse(events) {
      parsed.push(...events.map(({ id }) => id));
      return events;
    },
    timeMs: (row) => parseTimestamp(row.timestamp)!.ms,
    keyOf,
  };
}

async function ids(body: object, rows = ROWS): Promise<string> {
  const page = await readPage(
    storeOf(rows),
    parseQuery({ ...WHOLE, ...body }, RULES),
    createTokenCodec("secret"),
  );
  return page.events.map(({ id }) => id).join("");
}

describe("the Insights query language", () => {
  test.each(["ASC", "DESC"])("A28 pages of one event, %s, see every event once", async (sort) => {
    const tokens = createTokenCodec("secret");
    const seen: string[] = [];
    for (let after: unknown; ; ) {
      const query = parseQuery({ ...WHOLE, sort, limit: 1, search_after: after ?? null }, RULES);
      const page = await readPage(storeOf(ROWS), query, tokens);
      if (page.events.length === 0) break;
      seen.push(page.events[0]!.id);
      after = JSON.parse(page.token);
    }
    expect(seen.join("")).toBe(sort === "ASC" ? "abcde" : "edcba");
  });

  test("a token belongs to its query, its organizations and the secret it was made with", async () => {
    const tokens = createTokenCodec("secret");
    const query = parseQuery({ ...WHOLE, limit: 2 }, RULES);
    const { token } = await readPage(storeOf(ROWS), query, tokens);
    const read = (body: object, rules: QueryRules, codec = tokens) =>
      codec.read(JSON.parse(token), parseQuery({ ...WHOLE, ...body }, rules).digest);
    expect(read({ limit: 5 }, RULES).ms).toBe(Date.parse("2026-01-01T10:00:00Z"));
    expect(() => read({ sort: "DESC" }, RULES)).toThrow(/search_after/);
    expect(() => read({}, { ...RULES, scope: "two" })).toThrow(/search_after/);
    expect(() => read({}, RULES, createTokenCodec("other"))).toThrow(/search_after/);
    for (const made of [[], [1, ""], [1, "x".repeat(500)], "text", [1, 2]])
      expect(() => tokens.read(made, query.digest)).toThrow(/search_after/);
  });

  test("A27 the predicate decides over the event, whatever the store offers", async () => {
    const search_term = { and: [{ field: "tags", operator: "contains", value: "Y" }] };
    expect(await ids({ search_term })).toBe("ab");
    expect(await ids({ search_term: { or: [{ success: "false" }, { and: [{ service: "sso" }] }] } })).toBe(
      "acde",
    );
    expect(await ids({ search_term: { and: [{ field: "success", operator: "ne", value: true }] } })).toBe(
      "abce",
    );
    expect(await ids({ search_term: { and: [{ __proto__: "x", constructor: "y" }] } })).toBe("");
  });

  test("the parsed term is there for a store that narrows", () => {
    const query = parseQuery({ ...WHOLE, search_term: { and: [{ id: ["a", "b"] }] } }, RULES);
    expect(query.search).toEqual({
      logic: "and",
      terms: [{ field: "id", kind: "string", operator: "in", value: ["a", "b"] }],
    });
  });

  test("null in an optional field means that it is absent", async () => {
    const nothing = {
      end_time: null,
      limit: null,
      sort: null,
      fields: null,
      search_after: null,
      search_term: null,
    };
    expect(await ids(nothing)).toBe("abcde");
    expect(() => parseQuery({ ...WHOLE, start_time: null }, RULES)).toThrow("start_time is required");
  });

  test("counts, distinct values and intervals come from the same events", async () => {
    const query = (body: object) => parseQuery({ ...WHOLE, ...body }, RULES);
    const store = storeOf(ROWS);
    expect(await aggregate("count", store, query({ service: ["sso"] }), {})).toEqual({ count: 2 });
    expect(await aggregate("distinct", store, query({}), { field: "tags" })).toEqual({
      buckets: [
        { key: "y", doc_count: 2 },
        { key: "x", doc_count: 1 },
      ],
    });
    expect(await aggregate("interval", store, query({}), { interval_unit: "h" })).toMatchObject({
      buckets: [
        { key_as_string: "2026-01-01T10:00:00.000Z", doc_count: 4 },
        { key_as_string: "2026-01-01T11:00:00.000Z", doc_count: 1 },
      ],
    });
  });

  test("distinct asks a store that knows the values, and is refused before it fills the memory", async () => {
    const query = (body: object) => parseQuery({ ...WHOLE, ...body }, RULES);
    const knowing = { ...storeOf(ROWS), distinct: async () => new Map([["known", 7]]) };
    const known = { buckets: [{ key: "known", doc_count: 7 }] };
    expect(await aggregate("distinct", knowing, query({}), { field: "tags" })).toEqual(known);
    const term = { search_term: { and: [{ id: "a" }] } };
    expect(await aggregate("distinct", knowing, query(term), { field: "tags" })).not.toEqual(known);
    const many = (length: number, value: (at: number) => string) =>
      aggregate(
        "distinct",
        storeOf(Array.from({ length }, (_, at) => ({ ...ROWS[0]!, name: value(at) }))),
        query({}),
        { field: "name" },
      );
    await expect(many(200_500, String)).rejects.toThrow(
      /name has too many different values .* 200,\d+ were found .* Ask for a shorter time/,
    );
    const long = "x".repeat(100_000);
    await expect(many(300, (at) => `${at}${long}`)).rejects.toThrow(/too many different values/);
    expect(await many(300, () => long)).toEqual({ buckets: [{ key: long, doc_count: 300 }] });
  });
});
