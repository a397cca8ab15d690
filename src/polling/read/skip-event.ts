import { isUnnamed, type NewGap, TOO_LARGE } from "../../core/gap.ts";
import { IDENTITY_BYTES, UNDATED_MS } from "../../core/prepare-page.ts";
import { FIELD, fieldText } from "../../core/scanner.ts";
import type { Window } from "../../core/window.ts";
import { type PollContext, timeText } from "../context.ts";
import { ownerAt } from "./counts.ts";
import type { PageRequest, Served } from "./fetch-page.ts";
import { findReadable } from "./find-readable.ts";
import { warnOfMissing } from "./missing-alarms.ts";
import { isShownAgain, metIn, skippedOne } from "./pass.ts";
import { type EventName, type SkippedEvent, skipGap } from "./skip-gap.ts";
import { UnreadablePageError } from "./source.ts";
import { isBadContent, tried } from "./try-page.ts";

export const IDENTITY_FIELDS = ["id", "timestamp", "service", "event_type", "organization"];

/** The reason of a window in which such an event was passed over. */
const PASSED_OVER = {
  too_large: "an event is larger than the limit of a body and was passed over",
  unreadable: "an event is not readable and was passed over",
} as const;

export function isPassedOver(reason: string | null): boolean {
  return reason === PASSED_OVER.too_large || reason === PASSED_OVER.unreadable;
}

/** A broken answer may be an accident of that one answer: a single event is asked for so often before it is given up. */
const TRIES = 3;
/** The name of an event is asked for so often in a row. Without an answer, the event is passed over without a name. */
const NAME_TRIES = 10;

/** Whether the page is a single event that fails because of its content, and the token leads past it. */
export function canSkip(
  context: PollContext,
  { query, cursor }: Pick<PageRequest, "query" | "cursor">,
  searchAfter: string | undefined,
  error: unknown,
): boolean {
  if (query.limit !== 1 || searchAfter === undefined || searchAfter === cursor) return false;
  return isBadContent(context, error);
}

/**
 * Asks for the event again before it is given up; one that is too large stays that. Where no other event is readable, the
 * service is at fault, not the event: the error is thrown.
 */
export async function retriedSingle(
  context: PollContext,
  request: PageRequest,
  searchAfter: string,
  error: unknown,
): Promise<Served | { readonly skipped: SkippedEvent }> {
  if (context.source.fault(error).kind === "no_room") return readAlone(context, request);
  if (!(error instanceof UnreadablePageError)) return skip(context, request, error);
  for (let tries = 1; tries < TRIES; tries++) {
    const again = await tried(context, request);
    if ("served" in again) return again.served;
  }
  const found = await findReadable(context, request, searchAfter);
  if (found === undefined) throw error;
  return skip(context, request, error, found.timeMs);
}

/** A single event that found no room beside other pages: one at a time may exceed the memory budget. */
async function readAlone(
  context: PollContext,
  request: PageRequest,
): Promise<Served | { readonly skipped: SkippedEvent }> {
  const done = await context.memory.alone(request.signal);
  try {
    const again = await tried(context, { ...request, mayExceed: true });
    return "served" in again ? again.served : await skip(context, request, again.error);
  } finally {
    done();
  }
}

async function skip(
  context: PollContext,
  request: PageRequest,
  error: unknown,
  nextMs?: number,
): Promise<{ readonly skipped: SkippedEvent }> {
  const skipped = skippedOf(error);
  const name = await nameOf(context, request);
  // Nothing says whose it is, so the group is halved until it is read alone.
  if (name === undefined && request.window.stream.organizations.length > 1)
    throw new UnreadablePageError(skipped.message, { cause: error, body: undefined });
  return { skipped: { ...skipped, name, nextMs, isOfFields: request.query.fields !== undefined } };
}

/**
 * Asks for the identity fields alone: they are short, and often readable where the event is not. Without bytes, an
 * event that has a name only once would be counted twice, so a failure that may pass is waited out.
 */
async function nameOf(context: PollContext, request: PageRequest): Promise<EventName | undefined> {
  const { nameFailures } = context.learned;
  const { stream } = request.window;
  const query = { ...request.query, fields: IDENTITY_FIELDS };
  const asked = await tried(context, { ...request, query }).catch((error: unknown) => {
    if (request.signal.aborted) throw error;
    const failures = (nameFailures.get(stream.id) ?? 0) + 1;
    // A service may bind a token to the fields that were asked for: waiting would not help.
    const isRefused = context.source.fault(error).kind === "bad_request";
    if (isRefused || failures >= NAME_TRIES) return { error };
    nameFailures.set(stream.id, failures);
    throw error;
  });
  nameFailures.delete(stream.id);
  if (!("served" in asked)) return undefined;
  const { page, lease } = asked.served;
  try {
    const timeMs = page.timesMs[0];
    if (page.scanned.count !== 1 || timeMs === undefined || timeMs === UNDATED_MS) return undefined;
    const id = fieldText(page.scanned, 0, FIELD.id);
    const identity = page.identities.toString("hex", 0, IDENTITY_BYTES);
    return { timeMs, owner: ownerAt(page, 0), id, identity };
  } finally {
    lease.release();
  }
}

function skippedOf(error: unknown): SkippedEvent {
  const { message } = error as Error;
  if (!(error instanceof UnreadablePageError)) return { reason: "too_large", message, bytes: undefined };
  return {
    reason: "unreadable",
    message,
    bytes: error.body === undefined ? undefined : elementOf(error.body),
  };
}

/** The bytes between the brackets of an array of one element; undefined where there is no closing bracket. */
function elementOf(body: Buffer): Buffer | undefined {
  let from = 0;
  let to = body.length;
  const trim = () => {
    while (from < to && isBlank(body[from]!)) from++;
    while (to > from && isBlank(body[to - 1]!)) to--;
  };
  trim();
  if (to - from < 2 || body[from] !== 0x5b || body[to - 1] !== 0x5d) return undefined;
  from++;
  to--;
  trim();
  return from === to ? undefined : body.subarray(from, to);
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Moves past the event: its bytes are kept apart where there are any, and a gap names it (R8, R32). */
export async function commitSkip(
  context: PollContext,
  window: Window,
  skipped: SkippedEvent,
  cursor: string,
): Promise<Window> {
  await keepSkipped(context, window, skipped);
  const reason = PASSED_OVER[skipped.reason];
  const gap = await skipGap(context, window, skipped);
  const isOwn = isSkippedIn(
    skipped,
    gap,
    window.fromMs,
    window.live ? Number.POSITIVE_INFINITY : window.toMs,
  );
  const begun = window.pass!;
  const counted = isOwn && !isShownAgain(begun) ? gap : undefined;
  const pass = skippedOne(begun, cursor, counted);
  const passed: Window = { ...window, ...(isOwn && { reason }), pass };
  if (window.reader !== null) {
    await context.journal.changeWindows({ put: [passed] });
    warnOfReader(context, window, gap.detail);
  } else {
    // One without a name that is of the next window gets its gap there.
    const [named, next] = isUnnamed(gap) ? [[], counted] : [[gap], gap];
    await context.journal.changeWindows({
      put: [passed],
      gaps: named,
      met: metIn(begun, window.stream, next),
    });
    await warnOfMissing(context);
  }
  return passed;
}

/**
 * Whether the event is of this time. A request begins and ends at whole seconds, so it also shows events of its
 * neighbours. One without a readable time is where its place begins: the events before it are known.
 */
export function isSkippedIn({ name }: SkippedEvent, gap: NewGap, fromMs: number, toMs: number): boolean {
  return name === undefined ? gap.fromMs < toMs : name.timeMs >= fromMs && name.timeMs < toMs;
}

/** Keeps the bytes; the ledger is changed by the caller. */
export async function keepSkipped(
  context: PollContext,
  { stream }: Window,
  { bytes, message }: SkippedEvent,
): Promise<void> {
  if (bytes !== undefined) await context.keepUnattributed(stream, bytes, `not readable: ${message}`);
}

/** What is read for one sink alone leaves no gap. */
function warnOfReader(context: PollContext, { reader, pass, fromMs, toMs }: Window, detail: string): void {
  context.alarms.raise({
    kind: detail.includes(TOO_LARGE) ? "oversized_event" : "unreadable_event",
    subject: reader!,
    message: `An event between ${timeText(pass?.reachedMs ?? fromMs)} and ${timeText(toMs)} was passed over: ${detail}.`,
    remedy: "Ask the vendor to correct the event, or raise `bodyMax`, and read the time for this sink again.",
    severity: "critical",
  });
}
