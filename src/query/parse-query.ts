import { createHash } from "node:crypto";
import { QueryError } from "./errors.ts";
import { compareInstants, type Instant, parseTimestamp } from "./instant.ts";
import { isKnown } from "./known-fields.ts";
import { type Predicate, predicateOf } from "./predicate.ts";
import { createProjection, type Projection } from "./projection.ts";
import { parseSearchTerm, type SearchTerm } from "./search-term.ts";
import { wantedServices } from "./service-names.ts";

/** A checked Insights query. */
export interface Query {
  /** The events' own service names; null means every one. */
  readonly services: readonly string[] | null;
  readonly from: Instant;
  readonly to: Instant | null;
  readonly limit: number;
  readonly descending: boolean;
  /** Null returns whole events. */
  readonly projection: Projection | null;
  readonly search: SearchTerm | null;
  readonly predicate: Predicate | null;
  /** The token as it came; undefined on the first page. */
  readonly searchAfter: unknown;
  /** Distinguishes this query from others; search_after and limit are not part of it. */
  readonly digest: Uint8Array;
}

export interface QueryRules {
  readonly nowMs: number;
  readonly limitDefault: number;
  readonly limitMax: number;
  /** A search with more terms, or more than a tenth as many levels, is answered 500. */
  readonly searchTermsMax: number;
  /** Service names that are accepted beside those of the specification. */
  readonly furtherServices: readonly string[];
  /** The organizations that the query is about, as text: a token of other organizations is refused. */
  readonly scope: string;
}

type Body = Readonly<Record<string, unknown>>;

/** Checks the body of a query. JSON null in an optional field means that the field is absent. */
export function parseQuery(body: unknown, rules: QueryRules): Query {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new QueryError(400, "The body must be a JSON object");
  }
  const query = withoutNulls(body as Body);
  const services = wantedServices(query.service, rules.furtherServices);
  const { from, to } = timesOf(query, rules.nowMs);
  const descending = typeof query.sort === "string" && query.sort.toUpperCase() === "DESC";
  const search =
    query.search_term === undefined ? null : parseSearchTerm(query.search_term, rules.searchTermsMax);
  return {
    services,
    from,
    to,
    limit: limitOf(query.limit, rules),
    descending,
    projection: projectionOf(query.fields),
    search,
    predicate: search === null ? null : predicateOf(search),
    searchAfter: query.search_after,
    digest: digestOf(query, descending, rules.scope),
  };
}

function withoutNulls(body: Body): Body {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

function timesOf(query: Body, nowMs: number): { from: Instant; to: Instant | null } {
  const from = timeOf(query.start_time, "start_time");
  if (from.ms > nowMs) throw new QueryError(400, "start_time must not be in the future");
  const to = query.end_time === undefined ? null : timeOf(query.end_time, "end_time");
  if (to !== null && compareInstants(from, to) >= 0) {
    const times = `${String(query.start_time)} ${String(query.end_time)}`;
    throw new QueryError(400, `Start Time not before End Time: ${times}`);
  }
  return { from, to };
}

function timeOf(value: unknown, name: string): Instant {
  if (value === undefined) throw new QueryError(400, `${name} is required`);
  const instant = typeof value === "string" ? parseTimestamp(value) : null;
  if (instant !== null) return instant;
  throw new QueryError(400, `${name} has an invalid date format: use RFC 3339, yyyy-mm-ddTHH:mm:ssZ`);
}

/** A limit that makes no sense gives the default, one that is too large the maximum, without an error. */
function limitOf(value: unknown, rules: QueryRules): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 1) return rules.limitDefault;
  return Math.min(value, rules.limitMax);
}

function projectionOf(fields: unknown): Projection | null {
  if (fields === undefined) return null;
  const names = Array.isArray(fields)
    ? fields.filter((field): field is string => typeof field === "string")
    : [];
  const known = names.filter(isKnown);
  if (known.length === 0) throw new QueryError(400, "fields must name at least one known field");
  return createProjection(known);
}

function digestOf(query: Body, descending: boolean, scope: string): Uint8Array {
  const { service, start_time, end_time, search_term, fields } = query;
  const identity = JSON.stringify([service, start_time, end_time, descending, search_term, fields, scope]);
  return createHash("sha256").update(identity).digest();
}
