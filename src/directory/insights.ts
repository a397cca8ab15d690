import { z } from "zod";
import type { PageMemory } from "../core/buffer-pool.ts";
import type { Clock } from "../core/clock.ts";
import { dateMsOf } from "../core/http/retry-after.ts";
import type { LeasedBytes } from "../core/page-lease.ts";
import type { Connection } from "./account.ts";
import { type Auth, authOf } from "./auth.ts";
import {
  BadRequestError,
  DirectoryError,
  NonsenseError,
  NotFoundError,
  UnknownOrganizationError,
} from "./errors.ts";
import { type Exchange, exchangeOf, headerValue, whereOf } from "./exchange.ts";
import { bounded, requestIdOf } from "./facts.ts";
import { openTransport, type RequestDispatcher, type TransportResponse } from "./transport.ts";

export interface InsightsQuery {
  readonly service: readonly string[];
  /** RFC 3339, UTC; sent as it is, without surrounding blanks. */
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

export interface PageHead {
  readonly status: 200;
  readonly resultCount: number | undefined;
  readonly limit: number | undefined;
  /** The header's bytes as latin1 text; hand it back as it is. */
  readonly searchAfter: string | undefined;
  /** The service's clock. */
  readonly dateMs: number | undefined;
  readonly requestId: string | undefined;
}

export interface Page {
  readonly head: PageHead;
  /** The whole decompressed body; the lease becomes the caller's. It begins with a bracket; the scanner checks the rest. */
  body(): Promise<LeasedBytes>;
  /** Gives the body up and its connection free. */
  discard(): void;
}

/** The Insights API of one account. Rejections are the errors of errors.ts, or the signal's reason. */
export interface InsightsClient {
  /** Resolves when the headers are there, so the next page can be asked for while the body still comes. */
  events(
    query: InsightsQuery,
    scope: InsightsScope,
    options: { searchAfter?: string | undefined; signal: AbortSignal; bodyBytesMax?: number | undefined },
  ): Promise<Page>;
  /** How many events the query has, by the optional endpoint; undefined where the service has none. */
  count(query: InsightsQuery, scope: InsightsScope, signal: AbortSignal): Promise<number | undefined>;
  /** The size of the header block that this scope needs. */
  headerBytes(scope: InsightsScope): number;
  close(): Promise<void>;
}

export interface ClientOptions {
  readonly clock: Clock;
  /** PEM text of the authorities to trust, instead of the system's. */
  readonly ca?: string | undefined;
  readonly userAgent?: string | undefined;
  readonly connectionsMax?: number | undefined;
  readonly dispatcher?: RequestDispatcher | undefined;
  /** Where the bodies of pages are received. */
  readonly memory?: PageMemory | undefined;
}

const EVENTS_PATH = "/insights/directory/v1/events";

export function openInsights(connection: Connection, options: ClientOptions): InsightsClient {
  const transport = openTransport({
    headersTimeoutMs: connection.headersTimeoutMs,
    bodyTimeoutMs: connection.bodyTimeoutMs,
    ca: options.ca,
    userAgent: options.userAgent,
    dispatcher: options.dispatcher,
    ...(options.connectionsMax === undefined ? {} : { connectionsMax: options.connectionsMax }),
  });
  const auth = authOf(connection.credentials, transport, options.clock);
  const exchange = exchangeOf(transport, auth, options.clock);
  const sizes = sizesOf();
  const eventsUrl = new URL(connection.insightsUrl + EVENTS_PATH);
  return {
    events: (query, scope, page) =>
      events(exchange, auth, sizes, eventsUrl, query, scope, {
        bodyBytesMax: connection.bodyBytesMax,
        memory: options.memory,
        ...definedOf(page),
      }),
    count: counter(exchange, new URL(`${eventsUrl.href}/count`)),
    headerBytes: (scope) => headerBytesOf(eventsUrl, scope, auth, options.userAgent ?? "tidemark"),
    close: () => transport.close(),
  };
}

interface PageOptions {
  readonly searchAfter?: string | undefined;
  readonly signal: AbortSignal;
  readonly bodyBytesMax: number;
  readonly memory: PageMemory | undefined;
}

function definedOf(page: {
  searchAfter?: string | undefined;
  signal: AbortSignal;
  bodyBytesMax?: number | undefined;
}) {
  const { bodyBytesMax, ...rest } = page;
  return bodyBytesMax === undefined ? rest : { ...rest, bodyBytesMax };
}

async function events(
  exchange: Exchange,
  auth: Auth,
  sizes: Sizes,
  url: URL,
  query: InsightsQuery,
  scope: InsightsScope,
  page: PageOptions,
): Promise<Page> {
  const request = {
    method: "POST",
    url,
    headers: [...BASE_HEADERS, ...scopeHeaders(scope)],
    body: bodyOf(query, page.searchAfter),
    bodyBytesMax: page.bodyBytesMax,
    bodyBytesGuess: (header: (name: string) => string | undefined) =>
      sizes.guess(Number(header("x-result-count"))),
    memory: page.memory,
    signal: page.signal,
  } as const;
  const where = whereOf(request);
  const response = await exchange(request).catch((error: unknown) => {
    throw asInsightsError(error);
  });
  try {
    const head = headOf(response, where);
    return {
      head,
      async body() {
        const body = await response.leasedBody();
        try {
          checkArray(body.bytes, where, response, auth);
        } catch (error) {
          body.lease.release();
          throw error;
        }
        sizes.learn(body.bytes.length, head.resultCount);
        return body;
      },
      discard: () => response.discard(),
    };
  } catch (error) {
    response.discard();
    throw error;
  }
}

interface Sizes {
  guess(resultCount: number): number;
  learn(bytes: number, resultCount: number | undefined): void;
}

/** How large a page of so many events will likely be, by the last one seen. */
function sizesOf(): Sizes {
  let eventBytes = 1100;
  return {
    guess: (resultCount) =>
      Number.isSafeInteger(resultCount) ? Math.ceil(resultCount * eventBytes * 1.03) : 0,
    learn(bytes, resultCount) {
      if (resultCount !== undefined && resultCount >= 100) eventBytes = bytes / resultCount;
    },
  };
}

const BASE_HEADERS = ["content-type", "application/json", "accept", "application/json"] as const;

function scopeHeaders(scope: InsightsScope): string[] {
  if (scope.provider !== undefined) return ["x-provider-id", headerValue("provider", scope.provider)];
  return (scope.organizations ?? []).flatMap((organization) => [
    "x-org-id",
    headerValue("organization", organization),
  ]);
}

/** The request's JSON; the token is put in as the bytes that it came as, never read. */
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

/** On this API a 404 is about an organization. */
function asInsightsError(error: unknown): unknown {
  return error instanceof NotFoundError
    ? new UnknownOrganizationError(error.message, { ...factsIn(error), cause: error })
    : error;
}

function factsIn(error: DirectoryError) {
  const { status, serviceMessage, code, requestId, dateMs, retryAfterMs } = error;
  return { status, serviceMessage, code, requestId, dateMs, retryAfterMs };
}

function headOf(response: TransportResponse, where: string): PageHead {
  const requestId = requestIdOf(response);
  if (response.status !== 200) {
    throw new NonsenseError(`${where}: the status ${response.status} where 200 is due`, {
      status: response.status,
      requestId,
    });
  }
  return {
    status: 200,
    resultCount: integerOf(response, "x-result-count", where),
    limit: integerOf(response, "x-limit", where),
    searchAfter: tokenOf(response, where),
    dateMs: dateMsOf(response.header("date")),
    requestId,
  };
}

function integerOf(response: TransportResponse, name: string, where: string): number | undefined {
  const text = response.header(name)?.trim();
  if (text === undefined || text === "") return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new NonsenseError(
    `${where}: the header ${name} is ${JSON.stringify(text.slice(0, 50))}, not a count`,
    {
      status: 200,
      requestId: requestIdOf(response),
    },
  );
}

/** Parsed only to see that it is an array, which is what makes it safe to put into a JSON text. */
function tokenOf(response: TransportResponse, where: string): string | undefined {
  const text = response.header("x-search_after") ?? response.header("x-search-after");
  if (text === undefined || text.trim() === "" || text.trim() === "null") return undefined;
  try {
    if (Array.isArray(JSON.parse(text))) return text;
  } catch {
    // Reported below.
  }
  throw new NonsenseError(
    `${where}: the header X-Search_after is ${JSON.stringify(text.slice(0, 50))}, not an array`,
    {
      status: 200,
      requestId: requestIdOf(response),
    },
  );
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

function checkArray(body: Buffer, where: string, response: TransportResponse, auth: Auth): void {
  // JSON allows blanks in front of the array, so the mark needs no copy of the body (R32).
  if (body.subarray(0, 3).equals(BYTE_ORDER_MARK)) body.fill(0x20, 0, 3);
  let at = 0;
  while (isBlank(body[at])) at++;
  if (body[at] === 0x5b) return;
  const beginning = bounded(auth.clean(body.subarray(at, at + 1000).toString("utf8")), 100);
  const what = beginning === "" ? "an empty body" : `a body that begins ${JSON.stringify(beginning)}`;
  throw new NonsenseError(`${where}: ${what}, where an array of events is due`, {
    status: 200,
    requestId: requestIdOf(response),
    dateMs: dateMsOf(response.header("date")),
  });
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

const countSchema = z.looseObject({ count: z.number().int().nonnegative() });

/** The count is not in the specification: it is tried once, and left alone where the path does not exist. */
function counter(exchange: Exchange, url: URL): InsightsClient["count"] {
  let state: "untried" | "there" | "absent" = "untried";
  return async (query, scope, signal) => {
    if (state === "absent") return undefined;
    try {
      const response = await exchange({
        method: "POST",
        url,
        headers: [...BASE_HEADERS, ...scopeHeaders(scope)],
        body: bodyOf(
          {
            service: query.service,
            startTime: query.startTime,
            endTime: query.endTime,
            searchTerm: query.searchTerm,
          },
          undefined,
        ),
        bodyBytesMax: 65_536,
        signal,
      });
      const parsed = countSchema.safeParse(parseJson(await response.body()));
      if (!parsed.success)
        throw new NonsenseError(`POST ${url.href}: the answer holds no count`, { status: response.status });
      state = "there";
      return parsed.data.count;
    } catch (error) {
      if (state === "untried" && meansAbsent(error)) {
        state = "absent";
        return undefined;
      }
      throw asInsightsError(error);
    }
  };
}

/** 404 is also the answer about an unknown organization, which says so. */
function meansAbsent(error: unknown): boolean {
  if (error instanceof NotFoundError) return !/organi[sz]ation/i.test(error.serviceMessage ?? "");
  if (error instanceof BadRequestError) return true;
  return error instanceof NonsenseError || (error instanceof DirectoryError && error.status === 501);
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

function headerBytesOf(url: URL, scope: InsightsScope, auth: Auth, userAgent: string): number {
  const fixed = `POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\nuser-agent: ${userAgent}\r\naccept-encoding: gzip\r\ncontent-type: application/json\r\naccept: application/json\r\ncontent-length: 1234567\r\n\r\n`;
  const scoped = scopeHeaders(scope);
  let bytes = fixed.length + auth.headerBytes;
  for (let at = 0; at < scoped.length; at += 2) bytes += scoped[at]!.length + scoped[at + 1]!.length + 4;
  return bytes;
}
