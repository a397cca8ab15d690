import type { Pass, Window } from "../core/window.ts";
import { commitPage } from "./commit.ts";
import { type PollContext, subjectOf, timeText } from "./context.ts";
import {
  type Fetched,
  fetchAhead,
  fetchPage,
  type PageRequest,
  queryOf,
  type Served,
  servedOf,
} from "./fetch.ts";
import type { Priority } from "./pace.ts";

const PAGE_EVENTS_MIN = 1;

/**
 * Reads a window to its end, from its cursor if a pass was under way: each page is committed together with
 * the cursor that follows it. The next page is asked for as soon as the headers of this one bring the
 * token, where there is room for it; commits stay in order. A live window is read from a little before its
 * end, and its end moves to the moment at which the pass began.
 */
export async function readWindow(
  context: PollContext,
  start: Window,
  priority: Priority,
  signal: AbortSignal,
): Promise<void> {
  let window: Window = start.pass === null ? { ...start, pass: beginPass(context, start) } : start;
  let ahead: Promise<Fetched> | undefined;
  try {
    for (;;) {
      const request = requestOf(window, window.pass!.cursor, priority, signal);
      const fetched: Fetched = await (ahead ?? fetchPage(context, request));
      ahead = undefined;
      try {
        window = begunWith(window, fetched);
        if (goesOn(window, fetched))
          ahead = fetchAhead(context, { ...request, cursor: fetched.page.head.searchAfter! });
        const served = await servedOrTooLarge(context, request, fetched);
        const next =
          served === "too_large"
            ? await passOver(context, window, fetched.page.head.searchAfter!)
            : await commitPage(context, window, served, fetched.page.head.searchAfter ?? null);
        if (next === null) return;
        window = next;
      } finally {
        fetched.release();
      }
    }
  } finally {
    ahead?.then(giveUp, () => {});
  }
}

function giveUp(fetched: Fetched): void {
  fetched.page.discard();
  fetched.release();
}

function requestOf(
  window: Window,
  cursor: string | null,
  priority: Priority,
  signal: AbortSignal,
): PageRequest {
  return { window, query: queryOf(window, window.pass!), cursor, priority, signal };
}

export function beginPass(context: PollContext, window: Window): Pass {
  const { settings, serviceClock } = context;
  return {
    startMs: window.live ? window.toMs - settings.overlapMs : window.fromMs,
    endMs: window.live ? null : window.toMs,
    limit: settings.pageSize,
    begunMs: serviceClock.now(),
    cursor: null,
    pages: 0,
    events: 0,
    repeated: 0,
    changed: 0,
    fresh: 0,
    edge: [],
  };
}

/** The pass began when its first page was asked for, whatever waiting there was before it. */
function begunWith(window: Window, { askedMs }: Fetched): Window {
  const pass = window.pass!;
  return pass.pages > 0 || pass.begunMs === askedMs
    ? window
    : { ...window, pass: { ...pass, begunMs: askedMs } };
}

/** A dense window is cut up after its first page; until then nothing is asked for ahead. */
function goesOn({ live, pass }: Window, { page }: Fetched): boolean {
  const { resultCount, limit = pass!.limit, searchAfter } = page.head;
  const mayHaveMore = resultCount === undefined || resultCount >= limit;
  return mayHaveMore && searchAfter !== undefined && (live || pass!.pages > 0);
}

async function servedOrTooLarge(
  context: PollContext,
  request: PageRequest,
  { page }: Fetched,
): Promise<Served | "too_large"> {
  try {
    return await servedOf(context, request, page);
  } catch (error) {
    if (isTooLargeAlone(context, request, page.head.searchAfter, error)) return "too_large";
    throw error;
  }
}

/** Whether a page of one event is larger than the limit, and the token leads past it. */
export function isTooLargeAlone(
  context: PollContext,
  { query, cursor }: Pick<PageRequest, "query" | "cursor">,
  searchAfter: string | undefined,
  error: unknown,
): boolean {
  if (query.limit !== PAGE_EVENTS_MIN || searchAfter === undefined || searchAfter === cursor) return false;
  return context.source.fault(error).kind === "body_too_large";
}

/** A single event above the limit is a gap with a name: the token, which came in the headers, leads past it (R8). */
async function passOver(context: PollContext, window: Window, cursor: string): Promise<Window> {
  const pass = window.pass!;
  const reason = "an event is larger than the limit of a body and was passed over";
  raiseOversized(context, window);
  const passed: Window = {
    ...window,
    reason,
    pass: {
      ...pass,
      cursor,
      pages: pass.pages + 1,
      events: pass.events + 1,
      skipped: (pass.skipped ?? 0) + 1,
    },
  };
  await context.journal.changeWindows({ put: [passed] });
  return passed;
}

export function raiseOversized(context: PollContext, window: Window): void {
  context.alarms.raise({
    kind: "oversized_event",
    subject: subjectOf(context, window.stream),
    message: `Between ${timeText(window.fromMs)} and ${timeText(window.toMs)} there is an event that is larger than the limit of a body; it was passed over.`,
    remedy: "Raise `bodyMax` of the account and run `tidemark reconcile` over this time.",
    severity: "critical",
  });
}

/** The window again from its beginning with half the page size; null when a single event is too large (R8). */
export function withSmallerPages(context: PollContext, window: Window): Window | null {
  const limit = window.pass?.limit ?? context.settings.pageSize;
  if (limit <= PAGE_EVENTS_MIN) return null;
  return {
    ...window,
    pass: { ...beginPass(context, window), limit: Math.max(PAGE_EVENTS_MIN, Math.floor(limit / 2)) },
  };
}
