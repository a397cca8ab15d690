import { DAY_MS } from "../../core/time.ts";
import { newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
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

/** Whether a window is refused for this reason. */
export function isHistoryLimit(reason: string | null): boolean {
  return reason?.startsWith(LIMITED) ?? false;
}

/**
 * The stretch before the plan's limit is refused and tried again every day, since plans change (R34). The rest
 * goes on, and a window that was read stays read.
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
  if (window.state !== "unread") {
    await journal.changeWindows({ put: [{ ...window, pass: null, nextMs, reason }] });
    return;
  }
  const limitMs = await limitOf(context, window, fault, signal);
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
