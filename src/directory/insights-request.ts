import type { Auth } from "./auth.ts";
import { type DirectoryError, NotFoundError, UnknownOrganizationError } from "./errors.ts";
import { headerValue } from "./exchange.ts";

export interface InsightsQuery {
  readonly service: readonly string[];
  /** RFC 3339, UTC; sent unchanged, without surrounding blanks. */
  readonly startTime: string;
  readonly endTime?: string | undefined;
  readonly limit?: number | undefined;
  readonly sort?: "ASC" | "DESC" | undefined;
  readonly fields?: readonly string[] | undefined;
  readonly searchTerm?: unknown;
}

/** Organizations, each sent as an x-org-id line of its own; or a provider; or neither (a single tenant). */
export interface InsightsScope {
  readonly organizations?: readonly string[] | undefined;
  readonly provider?: string | undefined;
}

export const BASE_HEADERS = ["content-type", "application/json", "accept", "application/json"] as const;

export function scopeHeaders(scope: InsightsScope): string[] {
  if (scope.provider !== undefined) return ["x-provider-id", headerValue("provider", scope.provider)];
  return (scope.organizations ?? []).flatMap((organization) => [
    "x-org-id",
    headerValue("organization", organization),
  ]);
}

/** The request's JSON. The token is inserted byte for byte and never interpreted. */
export function bodyOf(query: InsightsQuery, searchAfter: string | undefined): Buffer {
  const text = JSON.stringify({
    service: query.service,
    start_time: query.startTime.trim(),
    end_time: query.endTime?.trim(),
    limit: query.limit,
    sort: query.sort,
    fields: query.fields,
    search_term: query.searchTerm,
  });
  if (searchAfter === undefined) return Buffer.from(text);
  return Buffer.concat([
    Buffer.from(`${text.slice(0, -1)},"search_after":`),
    Buffer.from(searchAfter, "latin1"),
    Buffer.from("}"),
  ]);
}

/** The size of the header block that this scope needs. */
export function headerBytesOf(url: URL, scope: InsightsScope, auth: Auth, userAgent: string): number {
  const fixed = `POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\nuser-agent: ${userAgent}\r\naccept-encoding: gzip\r\ncontent-type: application/json\r\naccept: application/json\r\ncontent-length: 1234567\r\n\r\n`;
  const scoped = scopeHeaders(scope);
  let bytes = fixed.length + auth.headerBytes;
  for (let at = 0; at < scoped.length; at += 2) bytes += scoped[at]!.length + scoped[at + 1]!.length + 4;
  return bytes;
}

/** On this API a 404 is about an organization. */
export function asInsightsError(error: unknown): unknown {
  return error instanceof NotFoundError
    ? new UnknownOrganizationError(error.message, { ...factsIn(error), cause: error })
    : error;
}

function factsIn(error: DirectoryError) {
  const { status, serviceMessage, code, requestId, dateMs, retryAfterMs } = error;
  return { status, serviceMessage, code, requestId, dateMs, retryAfterMs };
}
