import { DAY_MS, formatDuration } from "../../core/time.ts";
import { newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { leaveUnchecked } from "../read/forgotten.ts";
import { probe } from "../read/probe.ts";
import type { SourceFault } from "../read/source.ts";

const HOUR_MS = 3_600_000;
/** So that the first read does not run into the limit again while it moves on. */
const MARGIN_MS = 60_000;
/** How exactly the limit is found where the service does not name it. */
const PRECISION_MS = DAY_MS / 4;

/** 402 may mean that the plan keeps less history: then the last hour is served. */
export async function isLimitOfHistory(
  context: PollContext,
  window: Window,
  signal: AbortSignal,
): Promise<boolean> {
  const nowMs = context.serviceClock.now();
  if (window.live || window.fromMs > nowMs - DAY_MS) return false;
  const recent = { stream: window.stream, fromMs: nowMs - HOUR_MS, toMs: nowMs };
  return (await probe(context, recent, window.stream.organizations, signal)) === undefined;
}

const LIMITED = "the plan keeps less history";
const UNCHECKED = `${LIMITED}, so it was not compared again`;

/** Whether a window is refused for this reason. */
export function isHistoryLimit(reason: string | null): boolean {
  return reason?.startsWith(LIMITED) ?? false;
}

/**
 * The stretch before the plan's limit is refused and tried again every day, since plans change (R34). The rest
 * goes on. What was read of that stretch stays read, with a gap: events that are missing in it cannot be seen.
 */
export async function limitHistory(
  context: PollContext,
  window: Window,
  fault: SourceFault,
  signal: AbortSignal,
): Promise<void> {
  const reason = `${LIMITED}: ${fault.message}`;
  const { journal, serviceClock } = context;
  const nextMs = serviceClock.now() + DAY_MS;
  const limitMs = await limitOf(context, window, fault, signal);
  warnOfLimit(context, limitMs);
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

/** With a longer retention the last comparison of a window comes when the plan no longer serves it. */
function warnOfLimit({ account, alarms, serviceClock, settings }: PollContext, limitMs: number): void {
  const days = Math.max(1, Math.round((serviceClock.now() - limitMs) / DAY_MS));
  alarms.raise({
    kind: "history_limited",
    subject: account,
    message: `The plan serves only about the last ${days === 1 ? "day" : `${days} days`}, and the config says that the service keeps ${formatDuration(settings.retentionMs)}. What is older is not read, and what was read of it is not compared again.`,
    remedy: `Set the account's "retention" to what the plan keeps (about ${days}d), and "since" to no more: then every window is compared before the service forgets it. \`tidemark coverage\` lists the gaps.`,
    severity: "warning",
  });
}

/** The number of days that the message names, or else found by halving. */
async function limitOf(
  context: PollContext,
  window: Window,
  fault: SourceFault,
  signal: AbortSignal,
): Promise<number> {
  const nowMs = context.serviceClock.now();
  const named = /(\d{1,3})[ -]?days?/i.exec(fault.message);
  const namedMs = named === null ? 0 : nowMs - Number(named[1]) * DAY_MS + MARGIN_MS;
  if (namedMs > window.fromMs) return namedMs;
  let refusedMs = window.fromMs;
  let servedMs = nowMs - HOUR_MS;
  while (servedMs - refusedMs > PRECISION_MS) {
    const middleMs = Math.floor((refusedMs + servedMs) / 2);
    const asked = { ...window, fromMs: middleMs, toMs: nowMs };
    const answer = await probe(context, asked, window.stream.organizations, signal);
    if (answer === undefined) servedMs = middleMs;
    else refusedMs = middleMs;
  }
  return servedMs;
}
