import { ForeignEventsError } from "../../core/prepare-page.ts";
import { StaleWindowError, type Window, type WindowChange } from "../../core/window.ts";
import { type PollContext, subjectOf } from "../context.ts";
import { limitHistory } from "../limits/history-limit.ts";
import { isBeyondBoth } from "../plan/bring-back.ts";
import { endedWindow } from "./commit-page.ts";
import {
  asksForLongWait,
  type Failure,
  type FaultConsequence,
  isolate,
  isolateThrottled,
  passOf,
} from "./isolate.ts";
import { begunAnew, halved, hasMoved, hasPlace, restarted } from "./pass.ts";
import { type Canaries, faultIn, probe, verdictOfOthers } from "./probe.ts";
import { REFUSED_RETRY_MS, raiseRefused } from "./refused.ts";
import { RepeatedPageError, type SourceFault, UnreadablePageError } from "./source.ts";
import { halvesOf, readAlone, replaceByGroups, splitSuspects } from "./split-window.ts";
import { passTakenOver } from "./take-over.ts";
import { markTroubled } from "./troubled.ts";
import { isBadContent } from "./try-page.ts";

/** No group is made so small by a refused header block that an organization could not be asked for. */
const HEADER_BYTES_MIN = 512;
/**
 * Decides what follows from a failure. Each kind of fault has one consequence:
 *
 * - throttled, unavailable, cut_off, nonsense: again, when the pace allows. When it repeats while other
 *   organizations are served, the group is halved down to the organization, and that one is read alone, at its own
 *   pace and with smaller pages (R32). A body that stalls needs no second failure.
 * - body_too_large, no_room, or a page that cannot be scanned: a group is halved, a single organization's page is
 *   halved down to the event (R8, R32).
 * - bad_request with a cursor, or a cursor that was ignored: the pass restarts without it. Without one: see
 *   `diagnose` (R6).
 * - not_entitled, forbidden, unknown_organization: `diagnose`; a limit of history refuses only the old part.
 * - headers_too_large: smaller groups.
 * - unauthorized: the account waits.
 * - bug: thrown on.
 */
export async function meetFault(
  context: PollContext,
  id: number,
  error: unknown,
  failures: number,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<FaultConsequence> {
  const window = (await context.journal.windows({ id }))[0];
  if (window === undefined || error instanceof StaleWindowError) return { next: "replan" };
  if (error instanceof ForeignEventsError) return readSingly(context, window);
  const fault = faultIn(context, error);
  const failure = { window, error, fault, failures };
  if (isBadContent(context, error)) return searchBadEvent(context, failure);
  if (error instanceof RepeatedPageError) {
    // In a group nothing says whose pages these are (R32).
    const isOften = failures > 1 && window.stream.organizations.length > 1;
    return isOften ? isolate(context, failure, canaries, signal) : leaveCircle(context, window);
  }
  return consequenceOf(context, failure, canaries, signal);
}

async function consequenceOf(
  context: PollContext,
  failure: Failure,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<FaultConsequence> {
  const { window, error, fault } = failure;
  switch (fault.kind) {
    case "throttled":
      return isolateThrottled(context, failure, canaries, signal);
    case "unavailable":
      // The others must not wait until then to be looked at.
      return asksForLongWait(fault)
        ? isolateThrottled(context, failure, canaries, signal)
        : isolate(context, failure, canaries, signal);
    case "cut_off":
    case "nonsense":
    case "body_too_large":
    case "no_room":
      return isolate(context, failure, canaries, signal);
    case "unauthorized":
      return { next: "account", fault };
    case "bad_request":
      if (window.pass?.cursor != null) return restartWithoutCursor(context, window);
      // The service refuses a start in the future. That is no fault of the account: the window is brought back.
      if (isBeyondBoth(context, window, context.serviceClock.now())) return { next: "replan" };
      return diagnose(context, window, fault, canaries, signal);
    case "not_entitled":
      return meetLimit(context, failure, canaries, signal);
    case "headers_too_large":
      return shrink(context, window, fault);
    case "forbidden":
    case "unknown_organization":
      return diagnose(context, window, fault, canaries, signal);
    case "bug":
      throw error;
  }
}

/** 402 may mean that the plan keeps less history. A fault that hides this is met like one of its own. */
async function meetLimit(
  context: PollContext,
  failure: Failure,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<FaultConsequence> {
  const { window, fault } = failure;
  const found = await limitHistory(context, window, fault, signal);
  if (found === undefined) return diagnose(context, window, fault, canaries, signal);
  return "fault" in found
    ? consequenceOf(context, { ...failure, fault: found.fault }, canaries, signal)
    : found;
}

/** The bad event is in the page for certain: no other organization needs to be asked. */
async function searchBadEvent(
  context: PollContext,
  { window, error, fault }: Failure,
): Promise<FaultConsequence> {
  const { organizations } = window.stream;
  const isUnreadable = error instanceof UnreadablePageError;
  if (organizations.length > 1 && isUnreadable) {
    await splitSuspects(context, window);
    return { next: "again" };
  }
  if (organizations.length === 1 && isUnreadable) readAlone(context, organizations);
  // Where there is no memory for it, others may be at fault.
  if (organizations.length === 1 && fault.kind !== "no_room") markTroubled(context, window.stream);
  return halvePages(context, window);
}

/** later: it is a single event already, and there is no token that leads past it. */
async function halvePages(context: PollContext, window: Window): Promise<FaultConsequence> {
  const smaller = halved(passOf(context, window));
  if (smaller === null) return { next: "later" };
  await context.journal.changeWindows({ put: [{ ...window, pass: smaller }] });
  return { next: "again" };
}

/**
 * A cursor may have grown too old: the request starts again from the last event's time, with dedupe, before
 * anything else is blamed (R6). Where a whole page has one and the same time, a larger page gets past it.
 */
async function restartWithoutCursor(context: PollContext, window: Window): Promise<FaultConsequence> {
  const pass = passOf(context, window);
  const isStuck = !hasMoved(pass);
  const limit = isStuck ? Math.min(LIMIT_MAX, pass.limit * 2) : pass.limit;
  await context.journal.changeWindows({ put: [{ ...window, pass: restarted(pass, limit) }] });
  return { next: isStuck ? "later" : "again" };
}

/** Tokens lead back to an earlier page. Where a new request does not help, the pass begins anew, and so do its counts. */
async function leaveCircle(context: PollContext, window: Window): Promise<FaultConsequence> {
  const pass = passOf(context, window);
  if (hasMoved(pass) || !hasPlace(pass)) return restartWithoutCursor(context, window);
  await context.journal.changeWindows({ put: [{ ...window, pass: begunAnew(pass, [], pass.fresh) }] });
  return { next: "later" };
}

/** The most that the service puts into one page. */
const LIMIT_MAX = 10_000;

/** Tells a fault of an organization from one of the query or the account, by asking for others (R6). */
async function diagnose(
  context: PollContext,
  window: Window,
  fault: SourceFault,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<FaultConsequence> {
  const { organizations, provider } = window.stream;
  const verdict = await verdictOfOthers(context, window, fault, canaries, signal);
  if (verdict === "unclear") return { next: "later" };
  if (verdict === "same") return { next: "account", fault };
  if (provider !== null && verdict === "works") {
    raiseRefused(context, subjectOf(context, window.stream), fault.message);
    return { next: "later" };
  }
  if (organizations.length === 0) return { next: "account", fault };
  if (organizations.length === 1) {
    if (verdict === "alone" && fault.kind === "bad_request") return { next: "account", fault };
    await refuse(context, window, organizations[0]!, fault);
    return { next: "replan" };
  }
  const halves = halvesOf(organizations);
  if (fault.kind === "bad_request" && (await areServed(context, window, halves, signal)))
    return shrink(context, window, fault);
  await replaceByGroups(context, window, halves);
  return { next: "again" };
}

/** Where each half is served and the whole is not, its header block was too large: some servers answer 400 then. */
async function areServed(
  context: PollContext,
  window: Window,
  groups: readonly (readonly string[])[],
  signal: AbortSignal,
): Promise<boolean> {
  for (const group of groups) if ((await probe(context, window, group, signal)) !== undefined) return false;
  return true;
}

/** The header block was too large: the group is halved, and no larger one is sent from now on. */
async function shrink(context: PollContext, window: Window, fault: SourceFault): Promise<FaultConsequence> {
  const { organizations } = window.stream;
  if (organizations.length < 2) return { next: "account", fault };
  const halves = halvesOf(organizations);
  const bytes = context.source.headerBytes({ organizations: halves[0] });
  if (bytes < context.learned.headerBytesMax) {
    context.learned.headerBytesMax = Math.max(HEADER_BYTES_MIN, bytes);
    context.log.warn(
      { headerBytesMax: bytes },
      "The service refused a header block; groups are smaller now.",
    );
  }
  await replaceByGroups(context, window, halves);
  return { next: "replan" };
}

/** In a group nothing says which member an event without an organization belongs to: they are read one by one (R7). */
async function readSingly(context: PollContext, window: Window): Promise<FaultConsequence> {
  context.alarms.raise({
    kind: "foreign_events",
    subject: context.account,
    message:
      "An answer for several organizations held events of none of them; these organizations are read one by one.",
    remedy: "Nothing is lost. If it stays, ask the vendor why such events are served.",
    severity: "warning",
  });
  const { organizations } = window.stream;
  readAlone(context, organizations);
  await replaceByGroups(
    context,
    window,
    organizations.map((id) => [id]),
  );
  return { next: "again" };
}

/** One organization is set aside with its reason and tried again later; the others go on. */
async function refuse(
  context: PollContext,
  window: Window,
  organization: string,
  fault: SourceFault,
): Promise<void> {
  const { journal, roster, account, clock } = context;
  const nextMs = clock.now() + REFUSED_RETRY_MS;
  await roster.setState(account, [organization], "refused", fault.message, nextMs);
  raiseRefused(context, subjectOf(context, window.stream), fault.message);
  await journal.changeWindows(refusedChange(context, window, fault, nextMs));
}

/** A window that was read stays read. */
function refusedChange(
  context: PollContext,
  window: Window,
  fault: SourceFault,
  nextMs: number,
): WindowChange {
  if (window.live) return { remove: [window.id], add: endedWindow(context, window, window.toMs) };
  if (window.state === "read" || window.state === "sealed")
    return { put: [{ ...window, pass: null, nextMs: context.serviceClock.earlierNow() + REFUSED_RETRY_MS }] };
  const pass = passTakenOver(context, window, window.toMs);
  return { put: [{ ...window, state: "refused", pass, reason: fault.message, nextMs }] };
}
