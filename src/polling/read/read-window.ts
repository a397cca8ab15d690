import type { Pass, Window } from "../../core/window.ts";
import { StaleWindowError } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import type { Priority } from "../limits/pace.ts";
import { commitPage, endedWindow } from "./commit-page.ts";
import {
  type Fetched,
  fetchAhead,
  fetchPage,
  isLast,
  type PageRequest,
  queryOf,
  type Served,
  servedOf,
} from "./fetch-page.ts";
import { cutForgotten, horizonMs, warnOfGaps } from "./forgotten.ts";
import { isUnordered } from "./order.ts";
import { createPageTrail, type PageTrail } from "./page-names.ts";
import { beginPass } from "./pass.ts";
import { canSkip, commitSkip, retriedSingle } from "./skip-event.ts";
import type { SkippedEvent } from "./skip-gap.ts";

/** One page is committed, one is prepared and one is on its way. */
const COMING_MAX = 3;

/**
 * Reads a window to its end, from its cursor if a pass was under way. Each page is committed together with
 * the cursor that follows it.
 *
 * 1. Ask for the page at the cursor. Its headers bring the token of the next page, which is asked for at
 *    once where memory allows, and prepared while this one is committed. Commits stay in order.
 * 2. A page that came after the service had forgotten a part of what is left ends the pass there (R30).
 * 3. A single event that cannot be read is skipped and recorded as a gap (R8, R32).
 * 4. A page may end the window, cut it up, or restart its pass; pages that were asked for ahead are dropped then.
 *
 * Gives false where the service forgot a part before it was read, so that the pass did not reach its end.
 *
 * A live window is read from a little before its end, and its end moves to the moment at which the pass began.
 */
export async function readWindow(
  context: PollContext,
  start: Window,
  priority: Priority,
  signal: AbortSignal,
): Promise<boolean> {
  let window: Window = start.pass === null ? { ...start, pass: firstPass(context, start) } : start;
  const coming: Coming[] = [];
  const trail = createPageTrail();
  let over = false;

  function add(request: PageRequest, page: Promise<Fetched>, mayBeCut: boolean): void {
    const served = page.then((fetched) => {
      // A dense window is cut up after its first page, so nothing is asked for ahead before that. Nor is anything behind a
      // single event: what is found out about it holds for the next ones too.
      if (!mayBeCut && request.query.limit > 1 && mayHaveMore(request, fetched))
        entry.next = { ...request, cursor: fetched.page.head.searchAfter! };
      askAhead();
      return servedOf(context, request, fetched.page).catch((error: unknown) =>
        skipped(context, request, fetched, error),
      );
    });
    // A failure is handled when the turn of its page comes.
    served.catch(() => {});
    const entry: Coming = { request, page, served, next: undefined };
    coming.push(entry);
  }

  function askAhead(): void {
    const next = coming.at(-1)?.next;
    if (over || next === undefined || coming.length >= COMING_MAX) return;
    const ahead = fetchAhead(context, next);
    if (ahead !== undefined) add(next, ahead, false);
  }

  function dropComing(): void {
    for (const entry of coming.splice(0)) giveUp(entry);
  }

  try {
    for (;;) {
      const { cursor, limit, pages } = window.pass!;
      const ahead = coming[0]?.request;
      if (ahead !== undefined && (ahead.cursor !== cursor || ahead.query.limit !== limit)) dropComing();
      if (coming.length === 0) {
        const request = requestOf(window, cursor, priority, signal);
        add(request, fetchPage(context, request), !window.live && pages === 0);
      }
      const { page, served } = coming[0]!;
      const fetched = await page;
      window = begunWith(window, fetched);
      if (await endForgotten(context, window, fetched.answeredMs)) return false;
      try {
        const ready = await served;
        noteIn(trail, cursor, ready);
        const { searchAfter } = fetched.page.head;
        const next =
          "skipped" in ready
            ? await commitSkip(context, window, ready.skipped, searchAfter!)
            : await context.gate
                .commit(priority, signal, () => commitPage(context, window, ready, searchAfter ?? null))
                .finally(() => ready.lease.release());
        if (next === null) return true;
        window = next;
      } finally {
        coming.shift();
        fetched.release();
      }
      askAhead();
    }
  } finally {
    over = true;
    dropComing();
  }
}

function noteIn(trail: PageTrail, cursor: string | null, ready: Served | Skipped): void {
  const served = "skipped" in ready ? undefined : ready;
  try {
    trail.add(cursor, served?.page);
  } catch (error) {
    served?.lease.release();
    throw error;
  }
}

interface Skipped {
  readonly skipped: SkippedEvent;
}

/** A page that was asked for, and what becomes of it once it has come. */
interface Coming {
  readonly request: PageRequest;
  readonly page: Promise<Fetched>;
  readonly served: Promise<Served | Skipped>;
  /** The request after it, once its headers say that there is more. */
  next: PageRequest | undefined;
}

function giveUp({ page, served }: Coming): void {
  page.then(
    (fetched) => {
      fetched.page.discard();
      served
        .then(
          (ready) => "lease" in ready && ready.lease.release(),
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

export function firstPass(context: PollContext, window: Window): Pass {
  const { settings, serviceClock, clock } = context;
  const startMs = window.live ? window.toMs - settings.overlapMs : window.fromMs;
  const endMs = window.live ? null : window.toMs;
  const begun = { begunMs: serviceClock.now(), localMs: clock.now() };
  const pass = beginPass(startMs, endMs, settings.pageSize, begun);
  return isUnordered(context) ? { ...pass, isUnordered: true } : pass;
}

/** The pass began when its first page was asked for, however long it waited before that. */
function begunWith(window: Window, { asked }: Fetched): Window {
  const pass = window.pass!;
  return pass.pages > 0 ? window : { ...window, pass: { ...pass, ...asked } };
}

function mayHaveMore({ query }: PageRequest, { page }: Fetched): boolean {
  const { resultCount, limit, searchAfter } = page.head;
  return searchAfter !== undefined && (resultCount === undefined || !isLast(resultCount, query.limit, limit));
}

/** The consequence of a page that cannot be read: a single event may be skipped, every other error remains. */
async function skipped(
  context: PollContext,
  request: PageRequest,
  { page }: Fetched,
  error: unknown,
): Promise<Served | Skipped> {
  const { searchAfter } = page.head;
  if (!canSkip(context, request, searchAfter, error)) throw error;
  return retriedSingle(context, request, searchAfter!, error);
}

/**
 * Ends the pass where the service had forgotten a part of what is left when it answered. A live window that
 * far behind is closed, and the plan makes windows for what it missed. A window that was read before is left to
 * its sweep, which cuts off the part that can no longer be compared.
 */
export async function endForgotten(
  context: PollContext,
  window: Window,
  answeredMs: number,
): Promise<boolean> {
  if (window.live) {
    if (window.toMs >= horizonMs(context, answeredMs)) return false;
    await context.journal.changeWindows({
      remove: [window.id],
      add: endedWindow(context, window, window.toMs),
    });
    throw new StaleWindowError(window.id);
  }
  if (window.state !== "unread") {
    if ((window.pass?.reachedMs ?? window.fromMs) >= horizonMs(context, answeredMs)) return false;
    await context.journal.changeWindows({ put: [{ ...window, pass: null }] });
    return true;
  }
  const change = cutForgotten(context, window, answeredMs);
  if (change === null) return false;
  await context.journal.changeWindows(change);
  await warnOfGaps(context);
  return true;
}
