import { UsageError } from "../../core/errors.ts";
import { aggregate, isAggregate } from "../../query/aggregates.ts";
import { QueryError } from "../../query/errors.ts";
import { parseQuery, type Query } from "../../query/parse-query.ts";
import { readPage, selectionOf } from "../../query/read-page.ts";
import type { TokenCodec } from "../../query/token.ts";
import type { Search } from "../engine/search.ts";
import { costOf, refuseBroad } from "../find/cost.ts";
import type { Hit } from "../find/fetch.ts";
import { prefilterOf } from "../find/text.ts";
import { createHeldStore, distinctColumn, runsOf, selectedRange } from "./store.ts";

export interface InsightsQuestion {
  /** "page", or an aggregate. */
  readonly operation: string;
  readonly owners: readonly string[];
  readonly body: unknown;
}

export interface InsightsAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Events that the answer holds or is about, for the access entry. */
  readonly events: number;
}

export interface InsightsContext {
  readonly search: Search;
  readonly tokens: TokenCodec;
  readonly scanMax: number;
  nowMs(): number;
}

const LIMIT_DEFAULT = 1000;
const LIMIT_MAX = 10_000;
const TERMS_MAX = 1000;
/** Names that clients ask for although the specification does not list them. */
const FURTHER_SERVICES = ["alerts", "di_events", "saas_app_management", "workflows", "pam"];

/** Answers as the service would, over everything that is held. Refusals of a query become 400 or 500. */
export async function answerInsights(
  context: InsightsContext,
  question: InsightsQuestion,
  signal: AbortSignal,
): Promise<InsightsAnswer> {
  try {
    return await answered(context, question, signal);
  } catch (error) {
    if (error instanceof QueryError) return refusal(error.status, error.message, error.extra);
    if (error instanceof UsageError) return refusal(400, error.message);
    throw error;
  }
}

export function refusal(
  status: number,
  message: string,
  extra: Readonly<Record<string, unknown>> = {},
): InsightsAnswer {
  return { status, headers: JSON_TYPE, body: Buffer.from(JSON.stringify({ message, ...extra })), events: 0 };
}

const JSON_TYPE = { "Content-Type": "application/json" };

async function answered(
  context: InsightsContext,
  question: InsightsQuestion,
  signal: AbortSignal,
): Promise<InsightsAnswer> {
  const { operation, owners, body } = question;
  const query = parseQuery(body, {
    nowMs: context.nowMs(),
    limitDefault: LIMIT_DEFAULT,
    limitMax: LIMIT_MAX,
    searchTermsMax: TERMS_MAX,
    furtherServices: FURTHER_SERVICES,
    scope: owners.join(),
  });
  await refuseCostly(context, query, question, signal);
  const limit = operation === "page" ? query.limit : Number.POSITIVE_INFINITY;
  const store = createHeldStore(context.search, { owners, limit, signal });
  if (isAggregate(operation)) {
    const result = await aggregate(operation, store, query, body);
    return { status: 200, headers: JSON_TYPE, body: Buffer.from(JSON.stringify(result)), events: 0 };
  }
  const page = await readPage(store, query, context.tokens);
  return {
    status: 200,
    headers: {
      ...JSON_TYPE,
      "X-Result-Count": String(page.events.length),
      "X-Limit": String(query.limit),
      "X-Sort": query.descending ? "DESC" : "ASC",
      "X-Search_after": page.token,
    },
    body: bodyOf(query, page.events),
    events: page.events.length,
  };
}

/** Refuses a query that has to read more events than the limit, because the index cannot answer it. */
async function refuseCostly(
  { search, scanMax }: InsightsContext,
  query: Query,
  { operation, owners, body }: InsightsQuestion,
  signal: AbortSignal,
): Promise<void> {
  const isDistinct = operation === "distinct" && isReadToCount(body);
  if (query.search === null && !isDistinct) return;
  const range = selectedRange(owners, selectionOf(query, null));
  const cost = await costOf(search, range, signal);
  const isParsed = query.search === null || prefilterOf(runsOf(query.search)) === null;
  // An event that has to be parsed costs about four times as much as one that is looked through.
  refuseBroad(
    cost,
    isParsed ? scanMax / 4 : scanMax,
    `Ask for a shorter time with start_time and end_time, for fewer organizations or services, or add a term on id, event_type, service or correlation.id.${isDistinct ? " The values of event_type, service and id are counted from the index, whatever the time." : ""}`,
  );
}

function isReadToCount(body: unknown): boolean {
  const { field } = body as { readonly field?: unknown };
  return typeof field === "string" && distinctColumn(field) === undefined;
}

function bodyOf(query: Query, hits: readonly Hit[]): Buffer {
  const { projection } = query;
  if (projection !== null)
    return Buffer.from(`[${hits.map(({ bytes }) => projection(bytes.toString("utf8"))).join(",")}]`);
  const pieces: Buffer[] = [OPEN];
  for (const [at, { bytes }] of hits.entries()) pieces.push(...(at === 0 ? [bytes] : [COMMA, bytes]));
  return Buffer.concat([...pieces, CLOSE]);
}

const OPEN = Buffer.from("[");
const COMMA = Buffer.from(",");
const CLOSE = Buffer.from("]");
