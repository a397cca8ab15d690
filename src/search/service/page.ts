import { UsageError } from "../../core/errors.ts";
import { indexRowOf } from "../columns.ts";
import { type FindQuery, findQueryOf } from "../engine/search.ts";
import { costOf, refuseBroad } from "../find/cost.ts";
import { type Bucket, countByTime, countRows } from "../find/counts.ts";
import type { Hit } from "../find/fetch.ts";
import type { Filter } from "../find/filter.ts";
import { type ShownEvent, sessionsOf, shownOf } from "../find/story.ts";
import { type InsightsAnswer, refusal } from "../insights/answer.ts";
import { resultPlaceOf, sortKeyOf } from "../insights/store.ts";
import type { ServiceOptions } from "./options.ts";
import { eventOf, json } from "./reply.ts";

/** A question of the page. Times are milliseconds; `owners` limits all of it, null where the token sees all. */
export interface PageQuestion {
  readonly operation: "events" | "event" | "story";
  readonly owners: readonly string[] | null;
  readonly filter: Omit<Filter, "fromNs" | "toNs"> & {
    readonly fromMs?: number | undefined;
    readonly toMs?: number | undefined;
  };
  readonly newestFirst: boolean;
  readonly limit: number;
  readonly after: string | null;
}

const BUCKETS = 60;
const WEEK_MS = 604_800_000;
const STEPS_MS = [1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, WEEK_MS];

export async function answerPage(
  options: ServiceOptions,
  question: PageQuestion,
  signal: AbortSignal,
): Promise<InsightsAnswer> {
  try {
    const query = queryOf(question);
    if (query.test != null)
      refuseBroad(
        await costOf(options.search, query, signal),
        options.scanMax,
        "Choose a shorter time, an organization, a user, a service or an event type.",
      );
    switch (question.operation) {
      case "events":
        return await listEvents(options, question, query, signal);
      case "event":
        return await showEvent(options, query, signal);
      case "story":
        return await tellStory(options, question, query, signal);
    }
  } catch (error) {
    if (error instanceof UsageError) return refusal(400, error.message);
    throw error;
  }
}

function queryOf({ owners, filter, newestFirst, limit, after }: PageQuestion): FindQuery {
  const { fromMs, toMs, ...rest } = filter;
  const ns = (ms: number | undefined) => (ms === undefined ? undefined : BigInt(ms) * 1_000_000n);
  const asked = rest.organizations?.map((one) => one.toLowerCase());
  const allowed = owners === null ? asked : (asked ?? owners).filter((one) => owners.includes(one));
  const query = findQueryOf({ ...rest, organizations: allowed, fromNs: ns(fromMs), toNs: ns(toMs) });
  return { ...query, descending: newestFirst, limit, after: placeText(after) };
}

async function listEvents(
  options: ServiceOptions,
  { limit, after }: PageQuestion,
  query: FindQuery,
  signal: AbortSignal,
): Promise<InsightsAnswer> {
  const hits: Hit[] = [];
  for await (const some of options.search.find({ ...query, limit: limit + 1 }, signal)) hits.push(...some);
  const shown = hits.slice(0, limit);
  // Counts of a text search would need all of it to be read.
  const isCounted = query.test == null && after === null;
  const counts = isCounted
    ? await options.search.query(signal, async (connection, snapshot) => ({
        total: await countRows(connection, snapshot, query),
        histogram: await histogramOf(connection, snapshot, query),
      }))
    : { total: null, histogram: null };
  const last = shown.at(-1);
  return json(
    {
      ...counts,
      events: shown.map((hit) => rowFor(options, hit)),
      next: hits.length > limit && last !== undefined ? textOfPlace(last) : null,
    },
    shown.length,
  );
}

async function histogramOf(
  connection: Parameters<typeof countByTime>[0],
  snapshot: Parameters<typeof countByTime>[1],
  query: FindQuery,
): Promise<{ stepMs: number; buckets: Bucket[] }> {
  const { days } = snapshot;
  const dated = days.filter(({ startNs }) => startNs > 0n);
  const firstNs = query.fromNs ?? dated[0]?.startNs ?? 0n;
  const lastNs = query.toNs ?? (dated.at(-1)?.startNs ?? 0n) + 86_400_000_000_000n;
  const spanMs = Number((lastNs - firstNs) / 1_000_000n);
  // One event of the year 9999 must not make half a million bars.
  const stepMs =
    STEPS_MS.find((step) => spanMs / step <= BUCKETS) ?? Math.ceil(spanMs / BUCKETS / WEEK_MS) * WEEK_MS;
  const buckets = await countByTime(connection, snapshot, query, stepMs);
  return { stepMs, buckets: buckets.filter(({ startMs }) => startMs > -8e12) };
}

async function showEvent(
  options: ServiceOptions,
  query: FindQuery,
  signal: AbortSignal,
): Promise<InsightsAnswer> {
  for await (const hits of options.search.find({ ...query, limit: 1 }, signal)) {
    const hit = hits[0]!;
    const event = eventOf(hit);
    const { facts } = options;
    return json(
      {
        ...rowFor(options, hit),
        raw: hit.bytes.toString("utf8"),
        ocsf: JSON.parse(facts.ocsf(event)) as unknown,
        closed: hit.part >= 0,
        deliveries: facts.journey(event),
        proof: hit.part < 0 ? null : ((await facts.prove(hit)) ?? null),
      },
      1,
    );
  }
  return refusal(404, "There is no such event, or this token may not see it.");
}

async function tellStory(
  options: ServiceOptions,
  { limit }: PageQuestion,
  query: FindQuery,
  signal: AbortSignal,
): Promise<InsightsAnswer> {
  let count = 0;
  async function* events(): AsyncGenerator<ShownEvent> {
    for await (const hits of options.search.find({ ...query, descending: false, limit }, signal))
      for (const hit of hits) {
        count++;
        yield shownHit(options, hit);
      }
  }
  const sessions = [];
  for await (const { firstNs, lastNs, events: own, ...session } of sessionsOf(events()))
    sessions.push({ firstMs: msOf(firstNs), lastMs: msOf(lastNs), ...session, events: own.map(cellsOf) });
  return json({ sessions, events: count, isCut: count === limit }, count);
}

function shownHit({ describe }: ServiceOptions, hit: Hit): ShownEvent {
  return shownOf(indexRowOf(hit.organization, "", eventOf(hit), hit, describe));
}

function rowFor(options: ServiceOptions, hit: Hit) {
  return cellsOf(shownHit(options, hit));
}

/** The cells of the page's tables. */
function cellsOf(shown: ShownEvent) {
  const { time_ns, organization, service, event_type, outcome, actor, target, ip, country } = shown;
  const { application, device, id, identity } = shown;
  return {
    timeMs: msOf(time_ns as bigint),
    ...{
      organization,
      service,
      event_type,
      outcome,
      actor,
      target,
      ip,
      country,
      application,
      device,
      id,
      identity,
    },
  };
}

function msOf(timeNs: bigint): number | null {
  return timeNs < -8_000_000_000_000_000_000n ? null : Number(timeNs / 1_000_000n);
}

function textOfPlace(hit: Hit): string {
  return `${Number(hit.timeNs / 1_000_000n)}.${Buffer.from(sortKeyOf(hit)).toString("base64url")}`;
}

function placeText(text: string | null) {
  if (text === null) return null;
  const [ms, key] = text.split(".");
  if (!/^-?\d{1,15}$/.test(ms ?? "") || key === undefined)
    throw new UsageError("The place to go on from is not one of ours.");
  try {
    return resultPlaceOf({ ms: Number(ms), key: Buffer.from(key, "base64url") });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
