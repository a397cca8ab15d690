import { eventsOf, type ModelEvent } from "./events.ts";
import type { Effect } from "./faults.ts";
import { organizationId, type Plan, START_MS } from "./plan.ts";
import { type Random, randomOf } from "./random.ts";

/** A request as it leaves the program. */
export interface Request {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Every x-org-id line. */
  readonly organizations: readonly string[];
  readonly key: string | undefined;
  readonly body: string;
}

/** An answer, or the way in which there is none. */
export type Answer =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    }
  | { readonly kind: "refused" | "cut_head" | "hang" }
  | {
      readonly kind: "cut_body";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    };

export interface ModelService {
  answer(request: Request): Answer;
  /** Every event of the life. */
  readonly events: readonly ModelEvent[];
  requests: number;
  isListed(organization: number, nowMs: number): boolean;
}

const EVENTS_PATH = "/insights/directory/v1/events";
const LIMIT_DEFAULT = 1000;

interface Query {
  readonly service: readonly string[];
  readonly start_time: string;
  readonly end_time?: string;
  readonly limit?: number;
  readonly fields?: readonly string[];
  readonly search_after?: readonly [number, number, string, number];
}

/** A model of the service, written from its specification alone. Its clock is the true time. */
export function createService(plan: Plan, nowMs: () => number): ModelService {
  const byOrganization = eventsOf(plan);
  const random = randomOf(plan.seed, "service");
  const known = new Map(
    plan.organizations.map((organization) => [organizationId(organization.index), organization]),
  );
  const { habits, retentionMs } = { habits: plan.service, retentionMs: plan.settings.retentionMs };

  function effects(): readonly Effect[] {
    const atMs = nowMs() - START_MS;
    return plan.faults.flatMap((fault) =>
      fault.kind === "service" && fault.fromMs <= atMs && atMs < fault.toMs ? [fault.effect] : [],
    );
  }

  function isListed(index: number, atMs: number): boolean {
    const organization = plan.organizations.find((candidate) => candidate.index === index)!;
    const relative = atMs - START_MS;
    return (
      organization.joinsMs <= relative && (organization.leavesMs === null || relative < organization.leavesMs)
    );
  }

  function list(path: string): Answer {
    const query = new URLSearchParams(path.split("?")[1] ?? "");
    const [skip, limit] = [Number(query.get("skip") ?? 0), Number(query.get("limit") ?? 100)];
    const here = plan.organizations.filter(({ index }) => isListed(index, nowMs()));
    const ids = here.map(({ index }) => organizationId(index)).sort();
    const named = ids.map((_id) => ({ _id, displayName: nameOf(known.get(_id)!.index, nowMs()) }));
    return json(200, { results: named.slice(skip, skip + limit), totalCount: named.length });
  }

  /** A refusal of any of the organizations is one of the whole request. */
  function refusalOf(
    { organizations }: Request,
    query: Query,
    standing: readonly Effect[],
  ): Answer | undefined {
    for (const id of organizations) {
      const organization = known.get(id.toLowerCase());
      if (organization === undefined || !isListed(organization.index, nowMs()))
        return json(404, { message: `Organization ${id} not found` });
      for (const effect of standing) {
        if (effect.type === "tenant" && effect.organization === organization.index)
          return json(effect.status, { message: MESSAGES[effect.status] });
        if (effect.type === "history" && effect.organization === organization.index)
          if (Date.parse(query.start_time) < nowMs() - effect.keptMs)
            return json(402, { message: "Your plan does not include this much history" });
      }
    }
    return organizations.length === 0 ? json(401, { message: "x-org-id is missing" }) : undefined;
  }

  function events(request: Request, standing: readonly Effect[]): Answer {
    const query = JSON.parse(request.body) as Query;
    const refusal = refusalOf(request, query, standing);
    if (refusal !== undefined) return refusal;
    const [startMs, endMs] = [
      Date.parse(query.start_time),
      query.end_time === undefined ? Number.POSITIVE_INFINITY : Date.parse(query.end_time),
    ];
    if (Number.isNaN(startMs) || Number.isNaN(endMs)) return json(400, { message: "Invalid date" });
    if (startMs > nowMs()) return json(400, { message: "Start Time is in the future" });
    if (endMs < startMs) return json(400, { message: "Start Time not after End Time" });
    const isIllegible = standing.some(({ type }) => type === "cursors") || isStale(query);
    if (query.search_after !== undefined && isIllegible)
      return json(400, { message: "Invalid search_after" });
    const asked =
      Number.isSafeInteger(query.limit) && query.limit! > 0 ? Math.min(10_000, query.limit!) : LIMIT_DEFAULT;
    const limit = Math.min(asked, habits.cap);
    const found = matching(request, query, startMs, endMs, limit);
    return page(found, query, limit, standing);
  }

  /** A token names its query: with another one the service does not say so, but goes on from elsewhere. */
  function isStale({ search_after: token }: Query): boolean {
    return token !== undefined && habits.tokenMs !== null && nowMs() - token[3] > habits.tokenMs;
  }

  function matching(
    { organizations }: Request,
    query: Query,
    startMs: number,
    endMs: number,
    limit: number,
  ): ModelEvent[] {
    const token = query.search_after;
    const isSame = token === undefined || token[2] === queryKey(organizations, query);
    const found: ModelEvent[] = [];
    for (const id of organizations) {
      for (const event of byOrganization.get(known.get(id.toLowerCase())!.index)!) {
        if (
          event.timeMs < startMs ||
          event.timeMs > endMs ||
          (event.timeMs === endMs && !habits.endInclusive)
        )
          continue;
        if (!isVisible(event, nowMs(), retentionMs) || !isAskedFor(event, query.service)) continue;
        if (token !== undefined && !isAfter(event, token)) continue;
        found.push(event);
      }
    }
    found.sort((a, b) => a.timeMs - b.timeMs || a.number - b.number);
    return isSame ? found.slice(0, limit) : found.slice(3, 3 + limit);
  }

  function page(
    found: readonly ModelEvent[],
    query: Query,
    limit: number,
    standing: readonly Effect[],
  ): Answer {
    const last = found.at(-1);
    const token = last === undefined ? query.search_after : [last.timeMs, last.number, keyOfLast, nowMs()];
    const headers: Record<string, string> = {
      "x-result-count": String(found.length),
      "x-limit": String(habits.claimedLimit ?? limit),
    };
    if (token !== undefined && (last !== undefined || habits.emptyToken === "echoed"))
      headers["x-search_after"] = JSON.stringify(token);
    if (hits(standing, "wrong_count", random)) headers["x-result-count"] = String(found.length + 1);
    if (hits(standing, "wrong_token", random) && query.search_after !== undefined)
      headers["x-search_after"] = JSON.stringify(query.search_after);
    for (const name of habits.without) delete headers[name];
    const texts = found.map((event) =>
      query.fields === undefined ? event.text : projected(event.text, query.fields),
    );
    return { kind: "answer", status: 200, headers, body: `[${texts.join(",")}]` };
  }
  let keyOfLast = "";

  /** Troubles that do not depend on what was asked. */
  function troubleOf(standing: readonly Effect[]): Answer | undefined {
    for (const effect of standing) {
      switch (effect.type) {
        case "refuse":
          return { kind: "refused" };
        case "unauthorized":
          return json(401, { message: "Unauthorized" });
        case "bad_request":
          return json(400, { message: "Bad Request" });
        case "throttle":
          if (random.chance(effect.share))
            return json(
              429,
              { message: "Too many requests" },
              effect.retryAfterS === null ? {} : { "retry-after": String(effect.retryAfterS) },
            );
          break;
        case "unavailable":
          if (random.chance(effect.share)) return json(effect.status, { message: "Try again" });
          break;
        case "hang":
          if (random.chance(effect.share)) return { kind: "hang" };
          break;
        case "nonsense":
          if (random.chance(effect.share))
            return { kind: "answer", status: 200, headers: {}, body: "<html>Welcome</html>" };
          break;
        case "cut":
          if (effect.where === "head" && random.chance(effect.share)) return { kind: "cut_head" };
          break;
      }
    }
    return undefined;
  }

  function respond(request: Request, standing: readonly Effect[]): Answer {
    if (request.key !== "key") return json(401, { message: "Unauthorized" });
    if (request.path.startsWith("/api/organizations")) {
      const broken = standing.find((effect) => effect.type === "list");
      return broken === undefined
        ? list(request.path)
        : json(broken.status, { message: "The list is not available" });
    }
    if (request.path === `${EVENTS_PATH}/count` && habits.hasCount) return count(request, standing);
    if (request.path !== EVENTS_PATH) return json(404, { message: "Not found" });
    keyOfLast = queryKey(request.organizations, JSON.parse(request.body) as Query);
    const answer = events(request, standing);
    const cuts = standing.some(
      (effect) => effect.type === "cut" && effect.where === "body" && random.chance(effect.share),
    );
    return cuts && answer.kind === "answer" ? { ...answer, kind: "cut_body" } : answer;
  }

  function count(request: Request, standing: readonly Effect[]): Answer {
    const query = JSON.parse(request.body) as Query;
    const refusal = refusalOf(request, query, standing);
    if (refusal !== undefined) return refusal;
    const endMs = query.end_time === undefined ? Number.POSITIVE_INFINITY : Date.parse(query.end_time);
    const found = matching(
      request,
      { ...query },
      Date.parse(query.start_time),
      endMs,
      Number.MAX_SAFE_INTEGER,
    );
    return json(200, { count: found.length });
  }

  const service: ModelService = {
    requests: 0,
    events: [...byOrganization.values()].flat(),
    isListed,
    answer(request) {
      service.requests++;
      const standing = effects();
      const answer = troubleOf(standing) ?? respond(request, standing);
      if (answer.kind !== "answer" && answer.kind !== "cut_body") return answer;
      const skew = standing.find((effect) => effect.type === "date")?.skewMs ?? 0;
      const date = habits.without.includes("date") ? {} : { date: new Date(nowMs() + skew).toUTCString() };
      return { ...answer, headers: { ...date, "x-request-id": `r${service.requests}`, ...answer.headers } };
    },
  };
  return service;
}

const MESSAGES: Readonly<Record<number, string>> = {
  402: "Directory Insights is not enabled for this organization",
  403: "Forbidden",
  404: "Organization not found",
  500: "Internal Server Error",
};

function isVisible(event: ModelEvent, nowMs: number, retentionMs: number): boolean {
  return event.shownMs <= nowMs && event.timeMs >= nowMs - retentionMs;
}

/** `all` leaves out the newest service. */
export function isAskedFor({ service }: ModelEvent, asked: readonly string[]): boolean {
  return asked.includes(service) || (asked.includes("all") && service !== "workflows");
}

function isAfter(event: ModelEvent, [timeMs, number]: readonly [number, number, string, number]): boolean {
  return event.timeMs > timeMs || (event.timeMs === timeMs && event.number > number);
}

function queryKey(organizations: readonly string[], { service, start_time, end_time }: Query): string {
  return JSON.stringify([organizations.map((id) => id.toLowerCase()).sort(), service, start_time, end_time]);
}

/** Organizations are renamed now and then. */
function nameOf(index: number, nowMs: number): string {
  return `Organization ${index}, ${Math.floor((nowMs - START_MS) / (20 * 86_400_000))}`;
}

function hits(standing: readonly Effect[], type: "wrong_count" | "wrong_token", random: Random): boolean {
  return standing.some((effect) => effect.type === type && random.chance(effect.share));
}

/** Only these fields, each as its bytes are. */
function projected(text: string, fields: readonly string[]): string {
  const kept = [...text.matchAll(/[{,]("(?:[^"\\]|\\.)*"):("(?:[^"\\]|\\.)*"|null)/g)]
    .filter(([, name]) => fields.includes(JSON.parse(name!) as string))
    .map(([, name, value]) => `${name}:${value}`);
  return `{${kept.join(",")}}`;
}

function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return { kind: "answer", status, headers, body: JSON.stringify(body) };
}
