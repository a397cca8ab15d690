import { type Answer, json, type Request } from "./answer.ts";
import { eventsOf, type ModelEvent } from "./events.ts";
import { organizationId, type Plan, PORTAL, PROVIDER_ID, START_MS, sourcesOf } from "./plan.ts";
import { randomOf } from "./random.ts";
import type { Tally } from "./tally.ts";
import { createTroubles } from "./troubles.ts";

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
export function createService(plan: Plan, nowMs: () => number, tally: Tally): ModelService {
  const byOrganization = eventsOf(plan);
  const troubles = createTroubles(plan, nowMs, randomOf(plan.seed, "service"), tally);
  const known = new Map(
    plan.organizations.map((organization) => [organizationId(organization.index), organization]),
  );
  const { habits, retentionMs } = { habits: plan.service, retentionMs: plan.settings.retentionMs };

  function isListed(index: number, atMs: number): boolean {
    const organization = sourcesOf(plan).find((candidate) => candidate.index === index)!;
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
  function refusalOf({ organizations, provider }: Request, query: Query): Answer | undefined {
    if (provider !== undefined) {
      if (organizations.length > 0) return json(400, { message: "x-org-id and x-provider-id" });
      if (plan.portal === undefined || provider !== PROVIDER_ID)
        return json(404, { message: "Provider not found" });
      return troubles.refusal(PORTAL, Date.parse(query.start_time));
    }
    for (const id of organizations) {
      const organization = known.get(id.toLowerCase());
      if (organization === undefined || !isListed(organization.index, nowMs()))
        return json(404, { message: `Organization ${id} not found` });
      const refusal = troubles.refusal(organization.index, Date.parse(query.start_time));
      if (refusal !== undefined) return refusal;
    }
    return organizations.length === 0 ? json(401, { message: "x-org-id is missing" }) : undefined;
  }

  function events(request: Request): Answer {
    const query = JSON.parse(request.body) as Query;
    const refusal = refusalOf(request, query);
    if (refusal !== undefined) return refusal;
    const [startMs, endMs] = stretchOf(query);
    if (Number.isNaN(startMs) || Number.isNaN(endMs)) return json(400, { message: "Invalid date" });
    if (startMs > nowMs()) return json(400, { message: "Start Time is in the future" });
    if (endMs < startMs) return json(400, { message: "Start Time not after End Time" });
    if (query.search_after !== undefined && (troubles.hits("cursors") || isStale(query)))
      return json(400, { message: "Invalid search_after" });
    const asked =
      Number.isSafeInteger(query.limit) && query.limit! > 0 ? Math.min(10_000, query.limit!) : LIMIT_DEFAULT;
    const limit = Math.min(asked, habits.cap);
    const found = matching(request, query, startMs, endMs, limit);
    return page(found, query, limit);
  }

  function stretchOf({ start_time, end_time }: Query): [number, number] {
    const msOf = (text: string) => {
      const ms = Date.parse(text);
      return habits.wholeSeconds ? Math.floor(ms / 1000) * 1000 : ms;
    };
    return [msOf(start_time), end_time === undefined ? Number.POSITIVE_INFINITY : msOf(end_time)];
  }

  /** A token names its query: with another one the service does not say so, but goes on from elsewhere. */
  function isStale({ search_after: token }: Query): boolean {
    return token !== undefined && habits.tokenMs !== null && nowMs() - token[3] > habits.tokenMs;
  }

  function matching(
    request: Request,
    query: Query,
    startMs: number,
    endMs: number,
    limit: number,
  ): ModelEvent[] {
    const token = query.search_after;
    const indexedMs = query.fields === undefined ? nowMs() - troubles.lagMs() : nowMs();
    const isSame = token === undefined || token[2] === queryKey(request, query);
    const found: ModelEvent[] = [];
    for (const source of sourcesIn(request)) {
      for (const event of byOrganization.get(source)!) {
        if (
          event.timeMs < startMs ||
          event.timeMs > endMs ||
          (event.timeMs === endMs && !habits.endInclusive)
        )
          continue;
        if (event.shownMs > indexedMs || !isKept(event, nowMs(), retentionMs)) continue;
        if (!isAskedFor(event, query.service)) continue;
        if (token !== undefined && !isAfter(event, token, habits.descending)) continue;
        found.push(event);
      }
    }
    found.sort((a, b) => a.timeMs - b.timeMs || a.number - b.number);
    if (habits.descending) found.reverse();
    return isSame ? found.slice(0, limit) : found.slice(3, 3 + limit);
  }

  function sourcesIn({ organizations, provider }: Request): readonly number[] {
    return provider === undefined ? organizations.map((id) => known.get(id.toLowerCase())!.index) : [PORTAL];
  }

  function page(readable: readonly ModelEvent[], query: Query, limit: number): Answer {
    const isShort = query.fields === undefined && readable.length > 1 && troubles.hits("short_page");
    const found = isShort ? readable.slice(0, readable.length >> 1) : readable;
    const last = found.at(-1);
    const token = last === undefined ? query.search_after : [last.timeMs, last.number, keyOfLast, nowMs()];
    const headers: Record<string, string> = {
      "x-result-count": String(found.length),
      "x-limit": String(habits.claimedLimit ?? limit),
    };
    if (token !== undefined && (last !== undefined || habits.emptyToken === "echoed"))
      headers["x-search_after"] = JSON.stringify(token);
    if (troubles.hits("wrong_count")) headers["x-result-count"] = String(found.length + 1);
    if (query.search_after !== undefined && troubles.hits("wrong_token"))
      headers["x-search_after"] = JSON.stringify(query.search_after);
    for (const name of habits.without) delete headers[name];
    const texts = found.map((event) =>
      query.fields === undefined ? event.text : projected(event.text, query.fields),
    );
    return { kind: "answer", status: 200, headers, body: `[${texts.join(",")}]` };
  }
  let keyOfLast = "";

  function respond(request: Request): Answer {
    if (request.key !== "key") return json(401, { message: "Unauthorized" });
    if (request.path.startsWith("/api/organizations")) return troubles.listAnswer() ?? list(request.path);
    if (request.path === `${EVENTS_PATH}/count` && habits.hasCount) return count(request);
    if (request.path !== EVENTS_PATH) return json(404, { message: "Not found" });
    keyOfLast = queryKey(request, JSON.parse(request.body) as Query);
    const answer = events(request);
    return answer.kind === "answer" && troubles.hits("cut_body") ? { ...answer, kind: "cut_body" } : answer;
  }

  function count(request: Request): Answer {
    const query = JSON.parse(request.body) as Query;
    const refusal = refusalOf(request, query);
    if (refusal !== undefined) return refusal;
    const found = matching(request, query, ...stretchOf(query), Number.MAX_SAFE_INTEGER);
    return json(200, { count: found.length });
  }

  const service: ModelService = {
    requests: 0,
    events: [...byOrganization.values()].flat(),
    isListed,
    answer(request) {
      service.requests++;
      const answer = troubles.answer() ?? respond(request);
      if (answer.kind !== "answer" && answer.kind !== "cut_body") return answer;
      const date = habits.without.includes("date")
        ? {}
        : { date: new Date(nowMs() + troubles.skewMs()).toUTCString() };
      return { ...answer, headers: { ...date, "x-request-id": `r${service.requests}`, ...answer.headers } };
    },
  };
  return service;
}

function isKept({ timeMs }: ModelEvent, nowMs: number, retentionMs: number): boolean {
  return timeMs >= nowMs - retentionMs;
}

/** `all` leaves out the newest service. */
export function isAskedFor({ service }: ModelEvent, asked: readonly string[]): boolean {
  return asked.includes(service) || (asked.includes("all") && service !== "workflows");
}

function isAfter(
  event: ModelEvent,
  [timeMs, number]: readonly [number, number, string, number],
  descending = false,
): boolean {
  const order = event.timeMs - timeMs || event.number - number;
  return descending ? order < 0 : order > 0;
}

function queryKey({ organizations, provider }: Request, { service, start_time, end_time }: Query): string {
  const whom = provider ?? organizations.map((id) => id.toLowerCase()).sort();
  return JSON.stringify([whom, service, start_time, end_time]);
}

/** Organizations are renamed now and then. */
function nameOf(index: number, nowMs: number): string {
  return `Organization ${index}, ${Math.floor((nowMs - START_MS) / (20 * 86_400_000))}`;
}

/** Only these fields, each as its bytes are. */
function projected(text: string, fields: readonly string[]): string {
  const kept = [...text.matchAll(/[{,]("(?:[^"\\]|\\.)*"):("(?:[^"\\]|\\.)*"|null)/g)]
    .filter(([, name]) => fields.includes(JSON.parse(name!) as string))
    .map(([, name, value]) => `${name}:${value}`);
  return `{${kept.join(",")}}`;
}
