import { ForeignEventsError } from "../core/page.ts";
import { newWindow, type Window, type WindowChange } from "../core/window.ts";
import { ask, type PollContext, scopeOf, timeText } from "./context.ts";
import { LIVE } from "./pace.ts";
import { withSmallerPages } from "./pass.ts";
import { closed, streamOf } from "./planner.ts";
import { type Fault, InconsistentPageError } from "./source.ts";

const REFUSED_RETRY_MS = 3_600_000;
const DAY_MS = 86_400_000;

/**
 * What follows from a failed read. later: the window waits a little. account: the whole account waits.
 * replan: the ledger or the list of organizations has changed. again: the window goes on at once.
 */
export type Consequence =
  | { readonly next: "later" | "again" | "replan" }
  | { readonly next: "account"; readonly fault: Fault };

/** The organization that lately worked: with it alone a fault of the query or the account is told from one of an organization (R6). */
export interface Canary {
  readonly organization: string | undefined;
}

export async function meetFault(
  context: PollContext,
  id: number,
  error: unknown,
  canary: Canary,
  signal: AbortSignal,
): Promise<Consequence> {
  const window = (await context.journal.windows({ id }))[0];
  if (window === undefined) return { next: "again" };
  if (error instanceof ForeignEventsError) return readSingly(context, window);
  const fault = faultOf(context, error);
  switch (fault.kind) {
    case "throttled":
    case "unavailable":
    case "cut_off":
    case "nonsense":
      return { next: "later" };
    case "unauthorized":
      return { next: "account", fault };
    case "body_too_large": {
      const smaller = withSmallerPages(context, window);
      if (smaller === null) return { next: "later" };
      await context.journal.changeWindows({ put: [smaller] });
      return { next: "again" };
    }
    case "bad_request":
      // A cursor may have grown too old: the same window again without it, with dedupe, before anything else is blamed.
      if (window.pass?.cursor != null) {
        await context.journal.changeWindows({ put: [{ ...window, pass: null }] });
        return { next: "again" };
      }
      return diagnose(context, window, fault, canary, signal);
    case "not_entitled":
      if (await limitHistory(context, window, fault, signal)) return { next: "again" };
      return diagnose(context, window, fault, canary, signal);
    case "forbidden":
    case "unknown_organization":
    case "headers_too_large":
      return diagnose(context, window, fault, canary, signal);
    case "bug":
      throw error;
  }
}

export function faultOf(context: PollContext, error: unknown): Fault {
  if (error instanceof InconsistentPageError) return { kind: "nonsense", message: error.message };
  return context.source.fault(error);
}

async function diagnose(
  context: PollContext,
  window: Window,
  fault: Fault,
  canary: Canary,
  signal: AbortSignal,
): Promise<Consequence> {
  const { organizations } = window.stream;
  if (fault.kind !== "headers_too_large" && (await canaryFails(context, window, fault, canary, signal))) {
    return { next: "account", fault };
  }
  if (organizations.length === 0) return { next: "account", fault };
  if (organizations.length === 1) {
    await refuse(context, window, organizations[0]!, fault);
    return { next: "replan" };
  }
  const middle = Math.ceil(organizations.length / 2);
  const halves = [organizations.slice(0, middle), organizations.slice(middle)];
  if (canary.organization === undefined && fault.kind !== "headers_too_large") {
    const answers = [];
    for (const half of halves) answers.push(await probe(context, window, half, signal));
    if (answers.every((answer) => answer?.kind === fault.kind)) return { next: "account", fault };
  }
  await replace(context, window, halves);
  return { next: "again" };
}

async function canaryFails(
  context: PollContext,
  window: Window,
  fault: Fault,
  canary: Canary,
  signal: AbortSignal,
): Promise<boolean> {
  if (canary.organization === undefined) return false;
  if (window.stream.organizations.length === 1 && window.stream.organizations[0] === canary.organization)
    return false;
  const answer = await probe(context, window, [canary.organization], signal);
  return answer?.kind === fault.kind;
}

/** The window's own body with other organizations and one event a page; the fault it meets, or undefined. */
export async function probe(
  context: PollContext,
  window: Pick<Window, "stream" | "fromMs" | "toMs">,
  organizations: readonly string[],
  signal: AbortSignal,
): Promise<Fault | undefined> {
  const query = {
    service: window.stream.services,
    startTime: timeText(window.fromMs),
    endTime: window.toMs > window.fromMs ? timeText(window.toMs) : undefined,
    limit: 1,
    sort: "ASC" as const,
  };
  const scope = organizations.length === 0 ? scopeOf(window.stream) : { organizations };
  try {
    (await ask(context, query, scope, undefined, LIVE, signal)).discard();
    return undefined;
  } catch (error) {
    if (signal.aborted) throw error;
    return faultOf(context, error);
  }
}

/** In one transaction, by smaller ones without cursors that are read anew with dedupe (R1). */
async function replace(
  context: PollContext,
  window: Window,
  groups: readonly (readonly string[])[],
): Promise<void> {
  const add = [];
  for (const group of groups) {
    const stream = await streamOf(context, window.stream, group);
    const { live, state, sweeps, nextMs, askedMs, reader } = window;
    add.push(newWindow(stream, window.fromMs, window.toMs, { live, state, sweeps, nextMs, askedMs, reader }));
  }
  await context.journal.changeWindows({ remove: [window.id], add });
}

async function readSingly(context: PollContext, window: Window): Promise<Consequence> {
  context.alarms.raise({
    kind: "foreign_events",
    subject: context.account,
    message:
      "An answer for several organizations held events of none of them; these organizations are read one by one.",
    remedy: "Nothing is lost. If it stays, ask the vendor why such events are served.",
    severity: "warning",
  });
  await replace(
    context,
    window,
    window.stream.organizations.map((id) => [id]),
  );
  return { next: "again" };
}

/** One organization is set aside with its reason and tried again later; the others go on. */
async function refuse(
  context: PollContext,
  window: Window,
  organization: string,
  fault: Fault,
): Promise<void> {
  const { journal, roster, account, clock, alarms } = context;
  const nextMs = clock.now() + REFUSED_RETRY_MS;
  roster.setState(account, [organization], "refused", fault.message, nextMs);
  const changes: WindowChange = window.live
    ? { remove: [window.id], add: closed(context, window) }
    : { put: [{ ...window, state: "refused", pass: null, reason: fault.message, nextMs }] };
  await journal.changeWindows(changes);
  alarms.raise({
    kind: "organization_refused",
    subject: `${account}/${organization}`,
    message: fault.message,
    remedy:
      "Check the id, the key's role and whether Insights is enabled for this organization; it is tried again every hour.",
    severity: "warning",
  });
}

/**
 * 402 may mean that the plan keeps less history: when the last hour is served, the stretch before the
 * limit is refused for good and the rest goes on. True when the window was changed.
 */
async function limitHistory(
  context: PollContext,
  window: Window,
  fault: Fault,
  signal: AbortSignal,
): Promise<boolean> {
  const nowMs = context.serviceClock.now();
  if (window.live || window.fromMs > nowMs - DAY_MS) return false;
  const recent = { stream: window.stream, fromMs: nowMs - 3_600_000, toMs: nowMs };
  if ((await probe(context, recent, window.stream.organizations, signal)) !== undefined) return false;
  const limitMs = await historyLimitMs(context, window, fault, nowMs, signal);
  const refused = {
    state: "refused" as const,
    pass: null,
    reason: `the plan keeps less history: ${fault.message}`,
    nextMs: null,
  };
  if (limitMs >= window.toMs) {
    await context.journal.changeWindows({ put: [{ ...window, ...refused }] });
    return true;
  }
  const { stream, reader } = window;
  await context.journal.changeWindows({
    put: [{ ...window, ...refused, toMs: limitMs }],
    add: [newWindow(stream, limitMs, window.toMs, { reader })],
  });
  return true;
}

/** The number of days that the message names, or else found by halving to the day. */
async function historyLimitMs(
  context: PollContext,
  window: Window,
  fault: Fault,
  nowMs: number,
  signal: AbortSignal,
): Promise<number> {
  const named = /(\d{1,3})[ -]?days?/i.exec(fault.message);
  if (named !== null) return Math.max(window.fromMs + 1, nowMs - Number(named[1]) * DAY_MS + 60_000);
  let refusedMs = window.fromMs;
  let servedMs = nowMs - 3_600_000;
  while (servedMs - refusedMs > DAY_MS / 4) {
    const middleMs = Math.floor((refusedMs + servedMs) / 2);
    const answer = await probe(
      context,
      { ...window, fromMs: middleMs, toMs: nowMs },
      window.stream.organizations,
      signal,
    );
    if (answer === undefined) servedMs = middleMs;
    else refusedMs = middleMs;
  }
  return servedMs;
}
