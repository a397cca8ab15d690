import type { LeasedBytes, PageLease } from "../../core/page-lease.ts";
import { ForeignEventsError, type PreparedPage, preparePage } from "../../core/prepare-page.ts";
import { eventBytes, ScanError } from "../../core/scanner.ts";
import { wholeSecondAfter } from "../../core/time.ts";
import type { PassBegin, Window } from "../../core/window.ts";
import { type PollContext, subjectOf, timeText } from "../context.ts";
import type { Priority } from "../limits/pace.ts";
import { askForWindow } from "./apart.ts";
import { noteOrder } from "./order.ts";
import { lastStartMs } from "./pass.ts";
import { InconsistentPageError, type SourcePage, type SourceQuery, UnreadablePageError } from "./source.ts";
import { noteServed, troubledName } from "./troubled.ts";

/** One request of a window. */
export interface PageRequest {
  readonly window: Window;
  readonly query: SourceQuery;
  readonly cursor: string | null;
  readonly priority: Priority;
  readonly signal: AbortSignal;
  /** The caller holds `memory.alone`. */
  readonly mayExceed?: boolean;
}

/** A page whose headers have come, with its share of the memory for pages. */
export interface Fetched {
  readonly page: SourcePage;
  /** When it was asked for, by both clocks. */
  readonly asked: PassBegin;
  /** When its headers came, by the service's clock: after the wait for its turn and the request. */
  readonly answeredMs: number;
  release(): void;
}

/** The local clock has jumped when the answer's own Date differs by more than this from the estimate. */
const CLOCK_DOUBT_MS = 2000;

/**
 * The service documents whole seconds, and may cut a fraction off. The end is rounded up, so that no such range is
 * empty or ends too early. The start needs nothing: cut off, it only gives more. The events behind the stretch
 * are committed too, and are no part of its counts.
 */
export function queryOf(
  window: Window,
  stretch: { readonly startMs: number; readonly endMs: number | null; readonly limit: number },
  fields?: readonly string[],
): SourceQuery {
  return {
    service: window.stream.services,
    // A pass of an earlier version may have its place behind its end.
    startTime: timeText(Math.min(stretch.startMs, lastStartMs(stretch.endMs))),
    endTime: stretch.endMs === null ? undefined : timeText(wholeSecondAfter(stretch.endMs)),
    limit: stretch.limit,
    sort: "ASC",
    fields,
  };
}

/** Asks for a page when there is memory for it, or at once with memory that `release` gives back. */
export async function fetchPage(
  context: PollContext,
  { window, query, cursor, priority, signal, mayExceed }: PageRequest,
  release?: () => void,
): Promise<Fetched> {
  release ??= await context.gate.enter(query.limit, priority, signal, troubledName(context, window.stream));
  try {
    const localMs = context.clock.now();
    const guessMs = context.serviceClock.now();
    const options = { searchAfter: cursor ?? undefined, signal, mayExceed };
    const page = await askForWindow(context, window, query, options, priority);
    const answeredMs = context.serviceClock.now();
    const dateMs = page.head.dateMs ?? guessMs;
    const begunMs = guessMs - dateMs > CLOCK_DOUBT_MS ? dateMs : guessMs;
    return { page, asked: { begunMs, localMs }, answeredMs, release };
  } catch (error) {
    release();
    throw error;
  }
}

/** Asks for the next page, unless there is no memory for it. Its failure shows when its turn comes. */
export function fetchAhead(context: PollContext, request: PageRequest): Promise<Fetched> | undefined {
  if (troubledName(context, request.window.stream) !== undefined) return undefined;
  const release = context.gate.tryEnter(request.query.limit);
  if (release === undefined) return undefined;
  const ahead = fetchPage(context, request, release);
  ahead.catch(() => {});
  return ahead;
}

/** A prepared page, and how many events the service sent in it. The receiver releases the lease. */
export interface Served {
  readonly page: PreparedPage;
  readonly lease: PageLease;
  readonly count: number;
  readonly last: boolean;
  /** A page with four times its bytes would have been read too. */
  readonly isSmall: boolean;
  /** The times of events of a foreign organization, which are not in `page`. */
  readonly foreignMs: readonly number[];
}

/** Reads, scans and checks a page. When an answer contradicts itself that is an error, and nothing of it is committed. */
export async function servedOf(
  context: PollContext,
  { window, query, cursor }: Pick<PageRequest, "window" | "query" | "cursor">,
  { head, body }: SourcePage,
): Promise<Served> {
  const leased = await body();
  try {
    const fourfold = 4 * leased.bytes.length;
    const isSmall = fourfold <= context.settings.bodyBytesMax && context.memory.hasRoom(fourfold);
    const received = { account: context.account };
    context.metrics.add("tidemark_source_received_bytes_total", leased.bytes.length, received);
    const { page, count, foreignMs } = await attribute(context, window, leased, query);
    const last = isLastPage({ query, cursor }, head, count);
    noteServed(context, window.stream);
    await noteOrder(context, page, head.sort);
    return { page, lease: leased.lease, count, last, isSmall, foreignMs };
  } catch (error) {
    leased.lease.release();
    throw error;
  }
}

/** Judges a page by its headers; throws where they contradict it. */
function isLastPage(
  { query, cursor }: Pick<PageRequest, "query" | "cursor">,
  head: SourcePage["head"],
  count: number,
): boolean {
  if (head.resultCount !== undefined && head.resultCount !== count) {
    throw new InconsistentPageError(`The service announced ${head.resultCount} events and sent ${count}.`);
  }
  const last = isLast(count, query.limit, head.limit);
  if (!last && (head.searchAfter === undefined || head.searchAfter === cursor)) {
    throw new InconsistentPageError("The service sent a page without a new token for the next one.");
  }
  return last;
}

/**
 * The last page has fewer events than the smaller of what was asked for and what X-Limit says. Without an
 * X-Limit the service may have a limit of its own, so only an empty page is the last (R31).
 */
export function isLast(count: number, asked: number, limit: number | undefined): boolean {
  return limit === undefined ? count === 0 : count < Math.min(asked, limit);
}

/** A foreign event on a single organization's page is kept apart, and the rest goes on (R7). */
async function attribute(
  context: PollContext,
  window: Window,
  body: LeasedBytes,
  query: SourceQuery,
): Promise<Pick<Served, "page" | "count" | "foreignMs">> {
  const { organizations, provider } = window.stream;
  // The preparer owns the body from here on, so a single event that may turn out bad is copied.
  const single = query.limit === 1 ? Buffer.from(body.bytes) : undefined;
  try {
    const page = await context.preparer.prepare(body, { organizations, provider });
    return { page, count: page.scanned.count, foreignMs: [] };
  } catch (error) {
    if (error instanceof ScanError)
      throw new UnreadablePageError(error.message, { cause: error, body: single });
    if (!(error instanceof ForeignEventsError) || organizations.length > 1) throw error;
    if (query.fields === undefined) await keepApart(context, window, error);
    const { scanned, indexes } = error;
    const foreignMs = indexes.map((index) => scanned.timesMs[index]!).filter(Number.isFinite);
    return { page: withoutForeign(window, error), count: scanned.count, foreignMs };
  }
}

async function keepApart(
  context: PollContext,
  window: Window,
  { scanned, indexes }: ForeignEventsError,
): Promise<void> {
  for (const index of indexes)
    await context.keepUnattributed(window.stream, eventBytes(scanned, index), null);
  context.alarms.raise({
    kind: "foreign_events",
    subject: subjectOf(context, window.stream),
    message:
      "The service sent events of an organization that was not asked for; they are kept apart, not delivered.",
    remedy:
      "Compare the organization's id in the config with the service's; ask the vendor why a query for one organization answers with another's events.",
    severity: "critical",
  });
}

function withoutForeign(window: Window, { scanned, indexes }: ForeignEventsError): PreparedPage {
  const foreign = new Set(indexes);
  const rest: Uint8Array[] = [];
  for (let index = 0; index < scanned.count; index++) {
    if (foreign.has(index)) continue;
    rest.push(Buffer.from(rest.length === 0 ? "[" : ","), eventBytes(scanned, index));
  }
  rest.push(Buffer.from(rest.length === 0 ? "[]" : "]"));
  const { organizations, provider } = window.stream;
  return preparePage(Buffer.concat(rest), { organizations, provider });
}
