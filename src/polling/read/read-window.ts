import type { Pass, Window } from "../../core/window.ts";
import { type PollContext, subjectOf, timeText } from "../context.ts";
import type { Priority } from "../limits/pace.ts";
import { commitPage } from "./commit-page.ts";
import {
  type Fetched,
  fetchAhead,
  fetchPage,
  type PageRequest,
  queryOf,
  type Served,
  servedOf,
} from "./fetch-page.ts";

const PAGE_EVENTS_MIN = 1;
/** One is committed, one is made ready and one is on its way. */
const COMING_MAX = 3;

/**
 * Reads a window to its end, from its cursor if a pass was under way: each page is committed together with
 * the cursor that follows it. The next page is asked for as soon as the headers of this one bring the
 * token, where there is room for it, and made ready while this one is; commits stay in order. A live window
 * is read from a little before its end, and its end moves to the moment at which the pass began.
 */
export async function readWindow(
  context: PollContext,
  start: Window,
  priority: Priority,
  signal: AbortSignal,
): Promise<void> {
  let window: Window = start.pass === null ? { ...start, pass: beginPass(context, start) } : start;
  const coming: Coming[] = [];
  let over = false;

  function add(request: PageRequest, page: Promise<Fetched>, mayBeCut: boolean): void {
    const served = page.then((fetched) => {
      // A dense window is cut up after its first page; until then nothing is asked for ahead.
      if (!mayBeCut && mayHaveMore(request, fetched))
        entry.next = { ...request, cursor: fetched.page.head.searchAfter! };
      askAhead();
      return servedOrTooLarge(context, request, fetched);
    });
    // A failure is met when the turn of its page comes.
    served.catch(() => {});
    const entry: Coming = { page, served, next: undefined };
    coming.push(entry);
  }

  function askAhead(): void {
    const next = coming.at(-1)?.next;
    if (over || next === undefined || coming.length >= COMING_MAX) return;
    const ahead = fetchAhead(context, next);
    if (ahead !== undefined) add(next, ahead, false);
  }

  try {
    for (;;) {
      if (coming.length === 0) {
        const request = requestOf(window, window.pass!.cursor, priority, signal);
        add(request, fetchPage(context, request), !window.live && window.pass!.pages === 0);
      }
      const { page, served } = coming[0]!;
      const fetched = await page;
      try {
        window = begunWith(window, fetched);
        const ready = await served;
        const { searchAfter } = fetched.page.head;
        const next =
          ready === "too_large"
            ? await passOver(context, window, searchAfter!)
            : await commitPage(context, window, ready, searchAfter ?? null).finally(() =>
                ready.lease.release(),
              );
        if (next === null) return;
        window = next;
      } finally {
        coming.shift();
        fetched.release();
      }
      askAhead();
    }
  } finally {
    over = true;
    for (const entry of coming) giveUp(entry);
  }
}

/** A page that was asked for, and what it is made into as soon as it is there. */
interface Coming {
  readonly page: Promise<Fetched>;
  readonly served: Promise<Served | "too_large">;
  /** What to ask for after it, once its headers say that there is more. */
  next: PageRequest | undefined;
}

function giveUp({ page, served }: Coming): void {
  page.then(
    (fetched) => {
      fetched.page.discard();
      served
        .then(
          (ready) => ready !== "too_large" && ready.lease.release(),
          () => {},
        )
        .finally(fetched.release);
    },
    () => {},
  );
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

function mayHaveMore({ query }: PageRequest, { page }: Fetched): boolean {
  const { resultCount, limit = query.limit, searchAfter } = page.head;
  return searchAfter !== undefined && (resultCount === undefined || resultCount >= limit);
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
