import type { IncomingMessage } from "node:http";
import type { Access } from "../access.ts";
import type { SimulatorClock } from "../clock.ts";
import { createBufferPool } from "../http/buffer-pool.ts";
import type { Answer } from "../http/exchange.ts";
import type { Effects } from "../http/faults.ts";
import { Problem } from "../http/problem.ts";
import type { Ongoing } from "../http/statistics.ts";
import type { Settings } from "../options.ts";
import type { EventStore } from "../store/event-store.ts";
import { answerOptional, optionalEndpoints } from "./optional.ts";
import { readPage, type View } from "./page.ts";
import { parseQuery, type Query } from "./query.ts";
import { createTokenCodec } from "./token.ts";

export interface InsightsParts {
  readonly settings: Settings;
  readonly clock: SimulatorClock;
  readonly store: EventStore;
  readonly access: Access;
  /** Brings live traffic up to the clock. */
  readonly advance: () => void;
}

export interface InsightsCall {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly parseBody: () => unknown;
  readonly effects: Effects;
  readonly ongoing: Ongoing;
}

export type Insights = (call: InsightsCall) => Promise<Answer>;

export const insightsPath = "/insights/directory/v1/events";

/** POST {insights_url}/insights/directory/v1/events, and its optional siblings. */
export function createInsights(parts: InsightsParts): Insights {
  const { settings, clock, store, access } = parts;
  const tokens = createTokenCodec(settings.seed);
  const pool = createBufferPool();
  let previousToken = "[]";

  return async (call) => {
    const { request, path, effects, ongoing } = call;
    const endpoint = path.slice(insightsPath.length + 1);
    const optional = settings.optionalEndpoints && optionalEndpoints.includes(endpoint);
    if (path !== insightsPath && !optional) throw new Problem(404, "Not found");
    if (request.method !== "POST")
      throw new Problem(405, "Method not allowed", { headers: { Allow: "POST" } });
    const caller = access.authenticate(request);
    if (caller.role === "command_runner")
      throw new Problem(403, "Forbidden: the role may not read Directory Insights");
    const organizations = access.insightsScope(request, caller);
    const body = call.parseBody();
    ongoing.note({ query: body });
    const query = parseQuery(body, organizations, {
      nowMs: clock.now(),
      limitDefault: settings.pageLimitDefault,
      limitMaximum: settings.pageLimitMaximum,
      searchTermsMax: settings.searchTermsMax,
    });
    parts.advance();
    const view = viewOf(organizations);
    if (optional) return answerOptional(endpoint, view, query, body);
    if (query.searchAfter !== undefined && effects.get("refused_cursor"))
      throw new Problem(400, "Invalid search_after");
    const page = await readPage(view, query, tokens);
    ongoing.note({ events: page.count });
    const shown = bodyOf(query, page.events, page.count, effects, organizations);
    const token = effects.get("same_token") ? repeatedToken(query, previousToken) : page.token;
    previousToken = page.token;
    return { status: 200, headers: headers(query, page.count, token, effects), ...shown };
  };

  function viewOf(organizations: readonly number[]): View {
    return {
      store,
      organizations,
      nowMs: clock.now(),
      indexedUntil: clock.indexedUntil(),
      retentionMs: settings.retentionMs,
      endTimeInclusive: settings.endTimeInclusive,
    };
  }

  function bodyOf(
    query: Query,
    events: Uint32Array,
    count: number,
    effects: Effects,
    asked: readonly number[],
  ) {
    const { projection } = query;
    if (projection !== null) {
      const texts = Array.from(events.subarray(0, count), (event) =>
        projection(store.read(event).toString()),
      );
      return { body: Buffer.from(`[${texts.join(",")}]`) };
    }
    let release = () => {};
    let body = store.readArray(events, count, (bytes) => {
      const taken = pool.take(bytes);
      release = taken.release;
      return taken.buffer;
    });
    if (effects.get("foreign_event")) body = withForeignEvent(body, asked);
    if (effects.get("broken_json")) body = body.subarray(0, Math.max(1, body.length - 2));
    return { body, release };
  }

  function withForeignEvent(body: Buffer, asked: readonly number[]): Buffer {
    for (let event = 0; event < store.count(); event++) {
      if (asked.includes(store.organizationOf(event))) continue;
      const comma = body.length > 2 ? "," : "";
      return Buffer.concat([body.subarray(0, -1), Buffer.from(comma), store.read(event), Buffer.from("]")]);
    }
    return body;
  }
}

function headers(query: Query, count: number, token: string, effects: Effects): Record<string, string> {
  const foreign = effects.get("foreign_event") ? 1 : 0;
  const shown = count + foreign + (effects.get("wrong_count")?.by ?? 0);
  return {
    "Content-Type": "application/json",
    "X-Result-Count": String(Math.max(0, shown)),
    "X-Limit": String(query.limit),
    "X-Sort": query.descending ? "DESC" : "ASC",
    ...(effects.get("missing_token") ? {} : { "X-Search_after": token }),
  };
}

function repeatedToken(query: Query, previous: string): string {
  return query.searchAfter === undefined ? previous : JSON.stringify(query.searchAfter);
}
