import { ForeignEventsError } from "../../core/prepare-page.ts";
import { newWindow, StaleWindowError, type Window, type WindowChange } from "../../core/window.ts";
import { type PollContext, subjectOf } from "../context.ts";
import { isLimitOfHistory, limitHistory } from "../limits/history-limit.ts";
import { streamOf } from "../plan/scope.ts";
import { DAY_MS } from "../plan/sweep-times.ts";
import { endedWindow } from "./commit-page.ts";
import { type Canaries, faultOf, probe, verdictOfOthers } from "./probe.ts";
import { withSmallerPages } from "./read-window.ts";
import type { Fault } from "./source.ts";

export const REFUSED_RETRY_MS = 3_600_000;
const ALONE_MS = DAY_MS;
/** No group is made so small by a refused header block that an organization could not be asked for. */
const HEADER_BYTES_MIN = 512;

/**
 * What follows from a failed read. again: the window, or what replaced it, goes on at once. soon: the same,
 * when the pace allows. later: the window waits, a little longer with each failure in a row. replan: the
 * list of organizations has changed. account: the whole account waits.
 */
export type Consequence =
  | { readonly next: "again" | "soon" | "later" | "replan" }
  | { readonly next: "account"; readonly fault: Fault };

/** Every kind of fault has one consequence; those of an organization are told from those of the account (R6). */
export async function meetFault(
  context: PollContext,
  id: number,
  error: unknown,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<Consequence> {
  const window = (await context.journal.windows({ id }))[0];
  if (window === undefined || error instanceof StaleWindowError) return { next: "again" };
  if (error instanceof ForeignEventsError) return readSingly(context, window);
  const fault = faultOf(context, error);
  switch (fault.kind) {
    case "throttled":
    case "unavailable":
      return { next: "soon" };
    case "cut_off":
    case "nonsense":
      return { next: "later" };
    case "unauthorized":
      return { next: "account", fault };
    case "body_too_large":
      return readSmaller(context, window);
    case "bad_request":
      // A cursor may have grown too old: the same window again without it, with dedupe, before anything else is blamed.
      if (window.pass?.cursor != null) {
        await context.journal.changeWindows({ put: [{ ...window, pass: null }] });
        return { next: "later" };
      }
      return diagnose(context, window, fault, canaries, signal);
    case "not_entitled":
      if (await isLimitOfHistory(context, window, signal))
        return limit(context, window, fault, canaries, signal);
      return diagnose(context, window, fault, canaries, signal);
    case "headers_too_large":
      return shrink(context, window, fault);
    case "forbidden":
    case "unknown_organization":
      return diagnose(context, window, fault, canaries, signal);
    case "bug":
      throw error;
  }
}

async function readSmaller(context: PollContext, window: Window): Promise<Consequence> {
  const smaller = withSmallerPages(context, window);
  if (smaller === null) return { next: "later" };
  await context.journal.changeWindows({ put: [smaller] });
  return { next: "again" };
}

async function diagnose(
  context: PollContext,
  window: Window,
  fault: Fault,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<Consequence> {
  const { organizations, provider } = window.stream;
  const verdict = await verdictOfOthers(context, window, fault, canaries, signal);
  if (verdict === "unclear") return { next: "later" };
  if (verdict === "same") return { next: "account", fault };
  if (provider !== null && verdict === "works") {
    raiseRefused(context, window, fault);
    return { next: "later" };
  }
  if (organizations.length === 0) return { next: "account", fault };
  if (organizations.length === 1) {
    if (verdict === "nobody" && fault.kind === "bad_request") return { next: "account", fault };
    await refuse(context, window, organizations[0]!, fault);
    return { next: "replan" };
  }
  const halves = halvesOf(organizations);
  if (fault.kind === "bad_request" && (await areServed(context, window, halves, signal)))
    return shrink(context, window, fault);
  await replace(context, window, halves);
  return { next: "again" };
}

/** Where each half is served and the whole is not, its header block was too large: some servers say 400 for it. */
async function areServed(
  context: PollContext,
  window: Window,
  groups: readonly (readonly string[])[],
  signal: AbortSignal,
): Promise<boolean> {
  for (const group of groups) if ((await probe(context, window, group, signal)) !== undefined) return false;
  return true;
}

export function halvesOf(organizations: readonly string[]): readonly (readonly string[])[] {
  const middle = Math.ceil(organizations.length / 2);
  return [organizations.slice(0, middle), organizations.slice(middle)];
}

/** The header block was too large: the group is halved, and no larger one is sent from now on. */
async function shrink(context: PollContext, window: Window, fault: Fault): Promise<Consequence> {
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
  await replace(context, window, halves);
  return { next: "replan" };
}

/** The plan's limit of one organization is not that of the others in its group. */
async function limit(
  context: PollContext,
  window: Window,
  fault: Fault,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<Consequence> {
  const { organizations } = window.stream;
  if (
    organizations.length > 1 &&
    (await verdictOfOthers(context, window, fault, canaries, signal)) !== "same"
  )
    await replace(context, window, halvesOf(organizations));
  else await limitHistory(context, window, fault, signal);
  return { next: "again" };
}

/** In one transaction, by smaller ones without cursors that are read anew with dedupe (R1). */
export async function replace(
  context: PollContext,
  window: Window,
  groups: readonly (readonly string[])[],
): Promise<void> {
  const { live, state, sweeps, nextMs, askedMs, reason, reader } = window;
  const add = [];
  for (const group of groups) {
    const stream = await streamOf(context, window.stream, group);
    const kept = { live, state, sweeps, nextMs, askedMs, reason, reader };
    add.push(newWindow(stream, window.fromMs, window.toMs, kept));
  }
  await context.journal.changeWindows({ remove: [window.id], add });
}

/** Which of several an event without an organization belongs to cannot be known: they are read one by one (R7). */
async function readSingly(context: PollContext, window: Window): Promise<Consequence> {
  context.alarms.raise({
    kind: "foreign_events",
    subject: context.account,
    message:
      "An answer for several organizations held events of none of them; these organizations are read one by one.",
    remedy: "Nothing is lost. If it stays, ask the vendor why such events are served.",
    severity: "warning",
  });
  const { organizations } = window.stream;
  for (const id of organizations) context.learned.aloneUntilMs.set(id, context.clock.now() + ALONE_MS);
  const singles = organizations.map((id) => [id]);
  await replace(context, window, singles);
  return { next: "again" };
}

/** One organization is set aside with its reason and tried again later; the others go on, and what was read stays read. */
async function refuse(
  context: PollContext,
  window: Window,
  organization: string,
  fault: Fault,
): Promise<void> {
  const { journal, roster, account, clock } = context;
  const nextMs = clock.now() + REFUSED_RETRY_MS;
  await roster.setState(account, [organization], "refused", fault.message, nextMs);
  raiseRefused(context, window, fault);
  await journal.changeWindows(refusedChange(context, window, fault, nextMs));
}

function refusedChange(context: PollContext, window: Window, fault: Fault, nextMs: number): WindowChange {
  if (window.live) return { remove: [window.id], add: endedWindow(context, window) };
  if (window.state === "read" || window.state === "sealed")
    return { put: [{ ...window, pass: null, nextMs: context.serviceClock.now() + REFUSED_RETRY_MS }] };
  return { put: [{ ...window, state: "refused", pass: null, reason: fault.message, nextMs }] };
}

function raiseRefused(context: PollContext, window: Window, fault: Fault): void {
  context.alarms.raise({
    kind: "organization_refused",
    subject: subjectOf(context, window.stream),
    message: fault.message,
    remedy:
      "Check the id, the key's role and whether Insights is enabled for this organization; it is tried again every hour.",
    severity: "warning",
  });
}
