import type { PageMemory } from "../core/buffer-pool.ts";
import type { Clock } from "../core/clock.ts";
import type { LeasedBytes } from "../core/page-lease.ts";
import type { ServiceConnection } from "./account.ts";
import { type Auth, authOf } from "./auth.ts";
import { type Exchange, exchangeOf, whereOf } from "./exchange.ts";
import { createCounter, type EventCounter } from "./insights-count.ts";
import { checkArray, headOf, type PageHead, type Sizes, sizesOf } from "./insights-page.ts";
import {
  asInsightsError,
  BASE_HEADERS,
  bodyOf,
  headerBytesOf,
  type InsightsQuery,
  type InsightsScope,
  scopeHeaders,
} from "./insights-request.ts";
import { openTransport, type RequestDispatcher } from "./transport.ts";

export type { PageHead } from "./insights-page.ts";
export type { InsightsQuery, InsightsScope } from "./insights-request.ts";

export interface Page {
  readonly head: PageHead;
  /** The whole decompressed body; the lease becomes the caller's. It begins with a bracket; the scanner checks the rest. */
  body(): Promise<LeasedBytes>;
  /** Gives the body up and its connection free. */
  discard(): void;
}

export interface EventsOptions {
  readonly searchAfter?: string | undefined;
  readonly signal: AbortSignal;
  readonly bodyBytesMax?: number | undefined;
  /** The budget of the memory for pages does not bind this body. */
  readonly mayExceed?: boolean | undefined;
  /** Where the answer has to begin sooner than the config says, and may not pause for as long. */
  readonly patienceMs?: number | undefined;
}

/** The Insights API of one account. Rejections are the errors of errors.ts, or the signal's reason. */
export interface InsightsClient {
  /** Resolves when the headers are there, so the next page can be asked for while the body still comes. */
  events(query: InsightsQuery, scope: InsightsScope, options: EventsOptions): Promise<Page>;
  /** How many events the query has, by the optional endpoint; undefined where the service has none. */
  count: EventCounter;
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

export function openInsights(connection: ServiceConnection, options: ClientOptions): InsightsClient {
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
      events({ exchange, auth, sizes, url: eventsUrl, memory: options.memory }, query, scope, {
        ...page,
        bodyBytesMax: page.bodyBytesMax ?? connection.bodyBytesMax,
      }),
    count: createCounter(exchange, new URL(`${eventsUrl.href}/count`)),
    headerBytes: (scope) => headerBytesOf(eventsUrl, scope, auth, options.userAgent ?? "tidemark"),
    close: () => transport.close(),
  };
}

interface Client {
  readonly exchange: Exchange;
  readonly auth: Auth;
  readonly sizes: Sizes;
  readonly url: URL;
  readonly memory: PageMemory | undefined;
}

async function events(
  { exchange, auth, sizes, url, memory }: Client,
  query: InsightsQuery,
  scope: InsightsScope,
  {
    searchAfter,
    bodyBytesMax,
    mayExceed,
    patienceMs,
    signal,
  }: EventsOptions & { readonly bodyBytesMax: number },
): Promise<Page> {
  const { limit = Number.POSITIVE_INFINITY } = query;
  const request = {
    method: "POST",
    url,
    headers: [...BASE_HEADERS, ...scopeHeaders(scope)],
    body: bodyOf(query, searchAfter),
    bodyBytesMax,
    bodyBytesGuess: (header: (name: string) => string | undefined) =>
      sizes.guess(Math.min(limit, Number(header("x-result-count")))),
    memory,
    mayExceed,
    patienceMs,
    signal,
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
