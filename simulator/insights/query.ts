import { createHash } from "node:crypto";
import { Problem } from "../http/problem.ts";
import { compareInstants, type Instant, parseTimestamp } from "../timestamps.ts";
import { isKnown } from "./known-fields.ts";
import { createProjection } from "./project.ts";
import { compileSearchTerm, type Predicate } from "./search-term.ts";
import { wantedServices } from "./services.ts";

/** A checked Insights query. */
export interface Query {
  readonly services: readonly string[] | null;
  readonly from: Instant;
  readonly to: Instant | null;
  readonly limit: number;
  readonly descending: boolean;
  readonly projection: ((json: string) => string) | null;
  readonly predicate: Predicate | null;
  readonly searchAfter: unknown;
  /** Tells this query from every other one; search_after and limit are not part of it. */
  readonly digest: Buffer;
}

export interface QueryRules {
  readonly nowMs: number;
  readonly limitDefault: number;
  readonly limitMaximum: number;
  readonly searchTermsMax: number;
}

export function parseQuery(body: unknown, organizations: readonly number[], rules: QueryRules): Query {
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new Problem(400, "The body must be a JSON object");
  const query = body as Readonly<Record<string, unknown>>;
  const services = wantedServices(query.service);
  const from = time(query.start_time, "start_time");
  if (from.ms > rules.nowMs) throw new Problem(400, "start_time must not be in the future");
  const to = query.end_time === undefined ? null : time(query.end_time, "end_time");
  if (to !== null && compareInstants(from, to) >= 0) {
    throw new Problem(
      400,
      `Start Time not before End Time: ${String(query.start_time)} ${String(query.end_time)}`,
    );
  }
  const descending = typeof query.sort === "string" && query.sort.toUpperCase() === "DESC";
  return {
    services,
    from,
    to,
    limit: limit(query.limit, rules),
    descending,
    projection: projection(query.fields),
    predicate:
      query.search_term === undefined ? null : compileSearchTerm(query.search_term, rules.searchTermsMax),
    searchAfter: query.search_after,
    digest: digest(query, descending, organizations),
  };
}

function time(value: unknown, name: string): Instant {
  if (value === undefined) throw new Problem(400, `${name} is required`);
  const instant = typeof value === "string" ? parseTimestamp(value) : null;
  if (instant === null)
    throw new Problem(400, `${name} has an invalid date format: use RFC 3339, yyyy-mm-ddTHH:mm:ssZ`);
  return instant;
}

/** Nonsense gives the default, too much the maximum, both silently. */
function limit(value: unknown, rules: QueryRules): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 1) return rules.limitDefault;
  return Math.min(value, rules.limitMaximum);
}

function projection(fields: unknown): ((json: string) => string) | null {
  if (fields === undefined) return null;
  const names = Array.isArray(fields)
    ? fields.filter((field): field is string => typeof field === "string")
    : [];
  const known = names.filter(isKnown);
  if (known.length === 0) throw new Problem(400, "fields must name at least one known field");
  return createProjection(known);
}

function digest(
  query: Readonly<Record<string, unknown>>,
  descending: boolean,
  organizations: readonly number[],
): Buffer {
  const { service, start_time, end_time, search_term, fields } = query;
  const identity = JSON.stringify([service, start_time, end_time, descending, search_term, fields]);
  return createHash("sha256").update(identity).update(Uint32Array.from(organizations)).digest();
}
