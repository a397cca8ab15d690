import type { Appended } from "../core/journal.ts";
import { ForeignEventsError, type PreparedPage, prepareScanned } from "../core/page.ts";
import { eventBytes, ScanError, scanPage } from "../core/scanner.ts";
import { newWindow, type Pass, type Window, type WindowChange } from "../core/window.ts";
import { ask, type PollContext, scopeOf, timeText } from "./context.ts";
import type { Priority } from "./pace.ts";
import { piecesOf, settle } from "./plan.ts";
import { InconsistentPageError, type SourcePage, type SourceQuery } from "./source.ts";

const PAGE_EVENTS_MIN = 1;

/**
 * Reads a window to its end, from its cursor if a pass was under way: each page is committed together with
 * the cursor that follows it. The next page is asked for as soon as the headers of this one bring the
 * token, where a slot is free; commits stay in order. A live window is read from a little before its end,
 * and its end moves to the moment at which the pass began.
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
      const fetched: Fetched = await (ahead ?? fetchPage(context, window.pass!, window, priority, signal));
      ahead = undefined;
      try {
        const { head } = fetched.page;
        const limit = head.limit ?? window.pass!.limit;
        const mayHaveMore = head.resultCount === undefined || head.resultCount >= limit;
        // A dense window is cut up after its first page; until then nothing is asked for ahead.
        if (mayHaveMore && head.searchAfter !== undefined && (window.live || window.pass!.pages > 0)) {
          ahead = fetchAhead(context, window, head.searchAfter, priority, signal);
        }
        const served = await prepare(context, window, fetched.page, limit);
        if (served === "too_large") {
          window = await passOver(context, window, head.searchAfter!);
          continue;
        }
        const next = await commitPage(context, window, served, fetched, limit);
        if (next === null) return;
        window = next;
      } finally {
        fetched.release();
      }
    }
  } finally {
    ahead?.then(
      (fetched) => {
        fetched.page.discard();
        fetched.release();
      },
      () => {},
    );
  }
}

function beginPass(context: PollContext, window: Window): Pass {
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

export function queryOf(
  window: Window,
  pass: Pick<Pass, "startMs" | "endMs" | "limit">,
  fields?: readonly string[],
): SourceQuery {
  return {
    service: window.stream.services,
    startTime: timeText(pass.startMs),
    endTime: pass.endMs === null ? undefined : timeText(pass.endMs),
    limit: pass.limit,
    sort: "ASC",
    fields,
  };
}

interface Fetched {
  readonly page: SourcePage;
  release(): void;
}

async function fetchPage(
  context: PollContext,
  pass: Pass,
  window: Window,
  priority: Priority,
  signal: AbortSignal,
): Promise<Fetched> {
  await context.room(signal);
  const release = await context.slots.take(signal);
  return fetchWith(context, pass.cursor ?? undefined, pass, window, priority, signal, release);
}

function fetchAhead(
  context: PollContext,
  window: Window,
  searchAfter: string,
  priority: Priority,
  signal: AbortSignal,
): Promise<Fetched> | undefined {
  const release = context.slots.tryTake();
  if (release === undefined) return undefined;
  const ahead = fetchWith(context, searchAfter, window.pass!, window, priority, signal, release);
  // Its failure is met when its turn comes; until then it must not count as unhandled.
  ahead.catch(() => {});
  return ahead;
}

async function fetchWith(
  context: PollContext,
  searchAfter: string | undefined,
  pass: Pass,
  window: Window,
  priority: Priority,
  signal: AbortSignal,
  release: () => void,
): Promise<Fetched> {
  try {
    return {
      page: await ask(context, queryOf(window, pass), scopeOf(window.stream), searchAfter, priority, signal),
      release,
    };
  } catch (error) {
    release();
    throw error;
  }
}

/** Reads, scans and checks a page; nothing of it is committed when anything does not hold together. */
async function prepare(
  context: PollContext,
  window: Window,
  page: SourcePage,
  limit: number,
): Promise<Served | "too_large"> {
  const body = await page.body().catch((error: unknown) => {
    const alone = window.pass!.limit === PAGE_EVENTS_MIN && page.head.searchAfter !== undefined;
    if (alone && context.source.fault(error).kind === "body_too_large") return "too_large" as const;
    throw error;
  });
  if (body === "too_large") return body;
  context.metrics.add("tidemark_source_received_bytes_total", body.length, { account: context.account });
  const announced = page.head.resultCount;
  const served = await attribute(context, window, body);
  if (announced !== undefined && announced !== served.count) {
    throw new InconsistentPageError(`The service announced ${announced} events and sent ${served.count}.`);
  }
  if (
    served.count >= limit &&
    (page.head.searchAfter === undefined || page.head.searchAfter === window.pass!.cursor)
  ) {
    throw new InconsistentPageError("The service sent a full page without a new token for the next one.");
  }
  return served;
}

/** A single event above the limit is a gap with a name: the token, which came in the headers, leads past it (R8). */
async function passOver(context: PollContext, window: Window, cursor: string): Promise<Window> {
  const pass = window.pass!;
  const after = pass.pages === 0 ? "its first event" : `the event after the first ${pass.events}`;
  const reason = `${after} is larger than the limit of a body and was passed over`;
  context.alarms.raise({
    kind: "oversized_event",
    subject: `${context.account}/${window.stream.organizations[0] ?? window.stream.provider ?? ""}`,
    message: `In the window from ${timeText(window.fromMs)} to ${timeText(window.toMs)} ${reason}.`,
    remedy: "Raise bodyBytesMax of the account and run `tidemark reconcile` over this time.",
    severity: "critical",
  });
  const passed: Window = { ...window, reason, pass: { ...pass, cursor, pages: pass.pages + 1 } };
  await context.journal.changeWindows({ put: [passed] });
  return passed;
}

/** A page made ready, and how many events the service sent in it. */
export interface Served {
  readonly page: PreparedPage;
  readonly count: number;
}

/** Of a single organization's page a foreign event is kept apart and the rest goes on (R7). */
export async function attribute(context: PollContext, window: Window, body: Buffer): Promise<Served> {
  const { organizations, provider } = window.stream;
  const fetchedAtMs = context.serviceClock.now();
  try {
    const page = await context.preparer.prepare(body, { organizations, provider }, fetchedAtMs);
    return { page, count: page.scanned.count };
  } catch (error) {
    if (error instanceof ScanError) throw new InconsistentPageError(error.message, { cause: error });
    if (!(error instanceof ForeignEventsError) || organizations.length > 1) throw error;
    return keepApart(context, window, error, fetchedAtMs);
  }
}

function keepApart(
  context: PollContext,
  window: Window,
  { scanned, indexes }: ForeignEventsError,
  fetchedAtMs: number,
): Served {
  const { organizations, provider } = window.stream;
  const foreign = new Set(indexes);
  for (const index of foreign) context.keepUnattributed(window.stream, eventBytes(scanned, index));
  context.alarms.raise({
    kind: "foreign_events",
    subject: `${context.account}/${organizations[0] ?? provider ?? ""}`,
    message:
      "The service sent events of an organization that was not asked for; they are kept apart, not delivered.",
    remedy:
      "Compare the organization's id in the config with the service's; ask the vendor why a query for one organization answers with another's events.",
    severity: "critical",
  });
  const rest = Array.from({ length: scanned.count }, (_, index) => index).filter(
    (index) => !foreign.has(index),
  );
  const text = `[${rest.map((index) => eventBytes(scanned, index).toString("latin1")).join(",")}]`;
  const page = prepareScanned(
    scanPage(Buffer.from(text, "latin1")),
    { organizations, provider },
    fetchedAtMs,
  );
  return { page, count: scanned.count };
}

/** Commits a page and what it means for its window; null when the window is done with this pass. */
async function commitPage(
  context: PollContext,
  window: Window,
  { page, count }: Served,
  fetched: Fetched,
  limit: number,
): Promise<Window | null> {
  const { journal, settings, account } = context;
  const pass = window.pass!;
  const last = count < limit;
  const { organizations, provider } = window.stream;
  let next: Window | null = null;
  const appended = await journal.append({
    account,
    provider,
    organization: organizations.length === 1 ? organizations[0]! : null,
    page,
    fetchedAtMs: context.serviceClock.now(),
    edge: pass.edge,
    lateBeforeMs: lateBeforeMs(window),
    reader: window.reader,
    change(found): WindowChange {
      const progressed = progress(window, pass, page, found, fetched.page.head.searchAfter ?? null);
      if (last) return finish(context, progressed);
      const split =
        pass.pages === 0 && !window.live && window.state === "unread"
          ? cutUp(settings, progressed, page)
          : null;
      if (split !== null) return split;
      next = progressed;
      return { put: [progressed] };
    },
  });
  report(context, appended);
  return next;
}

/** Before this time every new event of the window is late. */
function lateBeforeMs(window: Window): number {
  if (window.live) return window.askedMs === null ? Number.NEGATIVE_INFINITY : window.toMs;
  return window.state === "unread" ? Number.NEGATIVE_INFINITY : window.toMs;
}

function progress(
  window: Window,
  pass: Pass,
  page: PreparedPage,
  found: Appended,
  cursor: string | null,
): Window {
  const inside = countInside(window, page);
  return {
    ...window,
    late: window.late + found.late,
    repeated: window.repeated + found.repeated,
    changed: window.changed + found.changed,
    pass: {
      ...pass,
      cursor,
      pages: pass.pages + 1,
      events: pass.events + inside,
      repeated: pass.repeated + found.repeated,
      changed: pass.changed + found.changed,
      fresh: pass.fresh + found.fresh,
      edge: found.edge,
    },
  };
}

function countInside(window: Window, page: PreparedPage): number {
  if (window.live) return page.scanned.count;
  let inside = 0;
  for (const timeMs of page.timesMs) if (timeMs >= window.fromMs && timeMs < window.toMs) inside++;
  return inside;
}

/** A whole pass has reached its last page (R3). */
function finish(context: PollContext, window: Window): WindowChange {
  const { settings } = context;
  const pass = window.pass!;
  // Read again for one reader alone: nothing of it is left to compare later.
  if (window.reader !== null) return { remove: [window.id] };
  if (!window.live) {
    const count = pass.events - pass.repeated;
    const foundLate = window.state === "unread" ? 0 : pass.fresh;
    const read = { ...window, pass: null, apiCount: count, heldCount: count };
    return { put: [settle(read, pass.begunMs, foundLate, settings)] };
  }
  const toMs = Math.max(window.toMs, pass.begunMs);
  const moved: Window = { ...window, pass: null, toMs, askedMs: pass.begunMs };
  if (toMs - window.fromMs < settings.windowMs) return { put: [moved] };
  // Grown long enough: it becomes a window of its own, and the live one goes on behind it.
  const closed = settle(
    newWindow(window.stream, window.fromMs, toMs, {
      late: window.late,
      repeated: window.repeated,
      changed: window.changed,
    }),
    pass.begunMs,
    0,
    settings,
  );
  return { put: [{ ...moved, fromMs: toMs, late: 0, repeated: 0, changed: 0 }], add: [closed] };
}

/** All before the last timestamp of a full first page has been read; the rest is cut up for parallel reading (R2). */
function cutUp(settings: PollContext["settings"], window: Window, page: PreparedPage): WindowChange | null {
  const reachedMs = page.timesMs[page.scanned.count - 1]!;
  const pieces = piecesOf(window, reachedMs, page.scanned.count);
  if (pieces === null || window.pass!.begunMs < reachedMs) return null;
  let before = 0;
  for (const timeMs of page.timesMs) if (timeMs >= window.fromMs && timeMs < reachedMs) before++;
  const count = before - window.pass!.repeated;
  const { stream, reader } = window;
  const add = pieces.map(({ fromMs, toMs }) => newWindow(stream, fromMs, toMs, { reader }));
  if (reader !== null) return { remove: [window.id], add };
  const read = settle(
    { ...window, pass: null, toMs: reachedMs, apiCount: count, heldCount: count },
    window.pass!.begunMs,
    0,
    settings,
  );
  return { put: [read], add };
}

function report(context: PollContext, appended: Appended): void {
  const { account, metrics, roster } = context;
  if (appended.fresh > 0) {
    roster.addEvents(account, appended.byOrganization);
    metrics.add("tidemark_journal_appended_events_total", appended.fresh, { account });
  }
  if (appended.known > 0) metrics.add("tidemark_journal_known_events_total", appended.known, { account });
  if (appended.repeated > 0)
    metrics.add("tidemark_journal_repeated_events_total", appended.repeated, { account });
  if (appended.changed > 0)
    metrics.add("tidemark_journal_changed_events_total", appended.changed, { account });
  if (appended.late > 0) metrics.add("tidemark_journal_late_events_total", appended.late, { account });
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
