import { DAY_MS } from "../../core/time.ts";
import { newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { leaveUnchecked } from "../read/forgotten.ts";
import { probe } from "../read/probe.ts";
import type { SourceFault } from "../read/source.ts";
import { halvesOf, replaceByGroups } from "../read/split-window.ts";
import { LIMITED, plansOf, warnOfHistoryLimit } from "./history-alarm.ts";
import { SWEEP } from "./pace.ts";

const HOUR_MS = 3_600_000;
/** So that the first read does not run into the limit again while it moves on. */
const MARGIN_MS = 60_000;
/** How exactly the limit is found. */
const PRECISION_MS = HOUR_MS;
/** Each cut takes at least this much: a service that changes its mind must not make thousands of small windows. */
const STEP_MS = 600_000;
/** What is known of an organization's limit is asked again after this. Refused windows are tried again every day. */
const KNOWN_MS = DAY_MS / 2;

const UNCHECKED = `${LIMITED}, so it was not compared again`;

/** Undefined: 402 has another meaning here. A fault: another answer hides how far the plan goes. */
export type LimitConsequence =
  | { readonly next: "again" | "later" }
  | { readonly fault: SourceFault }
  | undefined;

/**
 * The stretch before the plan's limit is refused and tried again every day, since plans change (R34). The rest
 * goes on. What was read of that stretch stays read, with a gap: events that are missing in it cannot be seen.
 * A group is refused as soon as one of its members is, so members whose plans keep more go on by themselves (R32).
 */
export async function limitHistory(
  context: PollContext,
  window: Window,
  fault: SourceFault,
  signal: AbortSignal,
): Promise<LimitConsequence> {
  const limit = await limitOf(context, window, fault, signal);
  if (limit === undefined || "fault" in limit) return limit;
  const { organizations } = window.stream;
  if (organizations.length > 1) {
    const { limited, served, failing } = await membersAt(context, window, limit.refusedMs, signal);
    if (failing.length === organizations.length) return { next: "later" };
    if (limited.length < organizations.length) {
      const groups = [limited, served, failing].filter((group) => group.length > 0);
      // Where each is served and all together are not, the limit is that of a smaller group.
      await replaceByGroups(context, window, groups.length > 1 ? groups : halvesOf(organizations));
      return { next: "again" };
    }
  }
  await cutAtLimit(context, window, fault, limit.servedMs);
  await warnOfHistoryLimit(context);
  return { next: "again" };
}

async function cutAtLimit(
  context: PollContext,
  window: Window,
  fault: SourceFault,
  servedMs: number,
): Promise<void> {
  const reason = `${LIMITED}: ${fault.message}`;
  const { journal, learned, serviceClock } = context;
  const nextMs = serviceClock.now() + DAY_MS;
  for (const id of plansOf(window.stream)) learned.plansKeepMs.set(id, serviceClock.now() - servedMs);
  const limitMs = Math.max(servedMs + MARGIN_MS, window.fromMs + STEP_MS);
  if (window.state !== "unread") {
    const restMs = window.nextMs === 0 ? 0 : undefined;
    const edgeMs = Math.min(limitMs, window.toMs);
    return leaveUnchecked(context, { ...window, nextMs, reason }, edgeMs, { detail: UNCHECKED, restMs });
  }
  const refused = { ...window, state: "refused" as const, pass: null, reason, nextMs };
  if (limitMs >= window.toMs) {
    await journal.changeWindows({ put: [refused] });
    return;
  }
  await journal.changeWindows({
    put: [{ ...refused, toMs: limitMs }],
    add: [newWindow(window.stream, limitMs, window.toMs, { reader: window.reader })],
  });
}

/** How the members of a group fare at a time that the group is refused. Those that fail otherwise hold up no others. */
async function membersAt(
  context: PollContext,
  window: Window,
  refusedMs: number,
  signal: AbortSignal,
): Promise<Record<"limited" | "served" | "failing", readonly string[]>> {
  const { clock, serviceClock, learned } = context;
  const fromMs = Math.max(window.fromMs, Math.min(refusedMs, window.toMs - 1000));
  const ageMs = serviceClock.now() - fromMs;
  const found = { limited: [] as string[], served: [] as string[], failing: [] as string[] };
  for (const id of window.stream.organizations) {
    const known = learned.historyAges.get(id);
    const isFresh = known !== undefined && Math.abs(clock.now() - known.askedMs) < KNOWN_MS;
    const { servedMs, refusedMs: refusedAgeMs } = isFresh ? known : UNKNOWN_AGES;
    if (ageMs >= refusedAgeMs || ageMs <= servedMs) {
      found[ageMs <= servedMs ? "served" : "limited"].push(id);
      continue;
    }
    const answer = await probe(context, { ...window, fromMs }, [id], signal, SWEEP);
    const askedMs = isFresh ? known.askedMs : clock.now();
    if (answer === undefined) {
      found.served.push(id);
      learned.historyAges.set(id, { servedMs: ageMs, refusedMs: refusedAgeMs, askedMs });
    } else if (answer.kind === "not_entitled") {
      found.limited.push(id);
      learned.historyAges.set(id, { servedMs, refusedMs: ageMs, askedMs });
    } else found.failing.push(id);
  }
  return found;
}

const UNKNOWN_AGES = { servedMs: 0, refusedMs: Number.POSITIVE_INFINITY };

/**
 * A time that is served, and one before it that is refused. Both were asked for: a number of days in the message may be
 * that of another plan, or count in calendar days. Another fault than 402 tells nothing about the plan.
 */
async function limitOf(
  context: PollContext,
  { stream, live, fromMs }: Window,
  fault: SourceFault,
  signal: AbortSignal,
): Promise<
  { readonly servedMs: number; readonly refusedMs: number } | { readonly fault: SourceFault } | undefined
> {
  const nowMs = context.serviceClock.now();
  if (live || fromMs > nowMs - DAY_MS) return undefined;
  const first = [nowMs - HOUR_MS, ...namedTimes(fault.message, nowMs)];
  let [refusedMs, servedMs] = [fromMs, nowMs];
  while (first.length > 0 || servedMs - refusedMs > PRECISION_MS) {
    const atMs = first.shift() ?? Math.floor((refusedMs + servedMs) / 2);
    if (atMs <= refusedMs || atMs >= servedMs) continue;
    const answer = await probe(context, { stream, fromMs: atMs, toMs: nowMs }, stream.organizations, signal);
    if (answer === undefined) servedMs = atMs;
    else if (answer.kind !== "not_entitled") return { fault: answer };
    // The plan does not even serve the last hour.
    else if (servedMs === nowMs) return undefined;
    else refusedMs = atMs;
  }
  return { servedMs, refusedMs };
}

/** Shortly behind and before the number of days that the message names. */
function namedTimes(message: string, nowMs: number): number[] {
  const named = /(\d{1,3})[ -]?days?/i.exec(message);
  if (named === null) return [];
  const limitMs = nowMs - Number(named[1]) * DAY_MS;
  return [limitMs + MARGIN_MS, limitMs - MARGIN_MS];
}
