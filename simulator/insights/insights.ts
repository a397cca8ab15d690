import type { IncomingMessage } from "node:http";
import { aggregate, isAggregate } from "../../src/query/aggregates.ts";
import { parseQuery, type Query } from "../../src/query/parse-query.ts";
import { readPage } from "../../src/query/read-page.ts";
import { createTokenCodec } from "../../src/query/token.ts";
import type { Access } from "../access.ts";
import type { SimulatorClock } from "../clock.ts";
import { createBufferPool } from "../http/buffer-pool.ts";
import { type Answer, json } from "../http/exchange.ts";
import type { Effects } from "../http/faults.ts";
import { Problem } from "../http/problem.ts";
import type { Ongoing } from "../http/statistics.ts";
import type { Settings } from "../options.ts";
import type { EventStore } from "../store/event-store.ts";
import { createSnapshot, parseOne } from "./snapshot.ts";
import { spoil } from "./spoil.ts";

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

const insightsPath = "/insights/directory/v1/events";

/** POST {insights_url}/insights/directory/v1/events, and its optional siblings. */
export function createInsights(parts: InsightsParts): Insights {
  const { settings, clock, store, access } = parts;
  const tokens = createTokenCodec(settings.seed);
  const pool = createBufferPool();
  let previousToken = "[]";

  return async (call) => {
    const { request, effects, ongoing } = call;
    const operation = operationOf(call);
    const caller = access.authenticate(request);
    if (caller.role === "command_runner")
      throw new Problem(403, "Forbidden: the role may not read Directory Insights");
    const organizations = access.insightsScope(request, caller);
    const body = call.parseBody();
    ongoing.note({ query: body });
    const asked = parseQuery(body, {
      nowMs: clock.now(),
      limitDefault: settings.pageLimitDefault,
      limitMax: settings.pageLimitMaximum,
      searchTermsMax: settings.searchTermsMax,
      furtherServices: settings.furtherServices,
      scope: organizations.join(),
    });
    access.checkHistory(organizations, asked.from.ms, clock.now());
    parts.advance();
    const snapshot = createSnapshot({
      store,
      organizations,
      nowMs: clock.now(),
      indexedUntil: clock.indexedUntil(),
      retentionMs: settings.retentionMs,
      endTimeInclusive: settings.endTimeInclusive,
    });
    if (operation !== "page") return json(200, await aggregate(operation, snapshot, asked, body));
    if (asked.searchAfter !== undefined && effects.get("refused_cursor"))
      throw new Problem(400, "Invalid search_after");
    const cap = effects.get("page_cap")?.events ?? asked.limit;
    const query = { ...asked, limit: Math.min(asked.limit, Math.max(1, cap)) };
    const page = await readPage(snapshot, query, tokens);
    ongoing.note({ events: page.events.length });
    const whole = bodyOf(query, page.events);
    const { body: shown, count } = spoil(whole.body, page.events.length, effects, () =>
      foreignEvent(organizations),
    );
    const token = effects.get("same_token") ? repeatedToken(query, previousToken) : page.token;
    previousToken = page.token;
    return {
      status: 200,
      headers: headers(query, count, token, effects),
      body: shown,
      release: whole.release,
    };
  };

  function operationOf({ request, path }: InsightsCall) {
    const name = path.slice(insightsPath.length + 1);
    const isOptional = settings.optionalEndpoints && isAggregate(name);
    if (path !== insightsPath && !isOptional) throw new Problem(404, "Not found");
    if (request.method !== "POST")
      throw new Problem(405, "Method not allowed", { headers: { Allow: "POST" } });
    return isOptional ? name : "page";
  }

  function bodyOf(query: Query, events: readonly number[]): { body: Buffer; release: () => void } {
    const { projection } = query;
    let release = () => {};
    if (projection !== null) {
      const texts = events.map((event) => {
        const bytes = store.read(event);
        return parseOne(bytes) === undefined ? bytes.toString() : projection(bytes.toString());
      });
      return { body: Buffer.from(`[${texts.join(",")}]`), release };
    }
    const body = store.readArray(Uint32Array.from(events), events.length, (bytes) => {
      const taken = pool.take(bytes);
      release = taken.release;
      return taken.buffer;
    });
    return { body, release };
  }

  function foreignEvent(asked: readonly number[]): Buffer | null {
    for (let event = 0; event < store.count(); event++)
      if (!asked.includes(store.organizationOf(event))) return store.read(event);
    return null;
  }
}

function headers(query: Query, count: number, token: string, effects: Effects): Record<string, string> {
  const shown = count + (effects.get("wrong_count")?.by ?? 0);
  const wrongLimit = effects.get("wrong_limit");
  const limit = wrongLimit === undefined ? query.limit : wrongLimit.value;
  return {
    "Content-Type": "application/json",
    "X-Result-Count": String(Math.max(0, shown)),
    ...(limit === null ? {} : { "X-Limit": String(limit) }),
    "X-Sort": query.descending ? "DESC" : "ASC",
    ...(effects.get("missing_token") ? {} : { "X-Search_after": token }),
  };
}

function repeatedToken(query: Query, previous: string): string {
  return query.searchAfter === undefined ? previous : JSON.stringify(query.searchAfter);
}
