import { type NewWindow, newWindow, type Window } from "../../core/window.ts";
import { type PollContext, timeText } from "../context.ts";
import { BEYOND_MS } from "../limits/service-clock.ts";
import { HORIZON_MARGIN_MS, horizonMs } from "../read/forgotten.ts";
import { sweepDueMs } from "./sweep-times.ts";

/** A window that is beyond the service's time, but not beyond this machine's, is brought back by up to this. */
const FALL_MS_MAX = 6 * 3_600_000;

/** Gaps of a time that has not been yet are no gaps. */
const LOSSES = ["expired", "refused", "unchecked"] as const;

/**
 * Repairs windows that a wrong time has left behind: the service's Date, or the local clock where there is none.
 *
 * 1. A window that reaches beyond now is replaced by an unread one up to now. A live one ends; a new one is placed
 *    at now. Where only the service's time calls it the future, that may be the wrong one: then the cost of reading
 *    the time again is limited, and sealed windows stay, because both clocks have vouched for them.
 * 2. A window that was compared at a time that has not been yet is compared again.
 * 3. A window that was given up as forgotten, and that the service still holds, is unread again.
 */
export async function bringBack(context: PollContext, nowMs: number): Promise<void> {
  const { account, journal, log } = context;
  const beyond = (await journal.windows({ account, fromMs: nowMs + BEYOND_MS })).filter((window) =>
    isPlacedWrong(context, window, nowMs),
  );
  if (beyond.length > 0) {
    const untilMs = Math.max(...beyond.map(({ toMs }) => toMs));
    log.warn(
      { account, windows: beyond.length, until: timeText(untilMs) },
      "Windows reached beyond the service's time; their time is read again.",
    );
    await journal.changeWindows({
      remove: beyond.map(({ id }) => id),
      add: beyond.flatMap((window) => unreadBefore(window, nowMs)),
      filled: beyond.map(({ stream, toMs }) => ({ stream, fromMs: nowMs, toMs, reasons: LOSSES })),
    });
    await compareAnew(context, nowMs, untilMs - nowMs);
  }
  await readHeld(context, nowMs);
}

/** Whether both clocks call the end of the window the future. */
export function isBeyondBoth({ clock }: PollContext, { toMs }: Window, nowMs: number): boolean {
  return toMs > Math.max(nowMs, clock.now()) + BEYOND_MS;
}

function isPlacedWrong(context: PollContext, window: Window, nowMs: number): boolean {
  if (isBeyondBoth(context, window, nowMs)) return true;
  return window.state !== "sealed" && window.toMs <= nowMs + FALL_MS_MAX;
}

function unreadBefore({ stream, fromMs, reader }: Window, nowMs: number): NewWindow[] {
  return fromMs < nowMs ? [newWindow(stream, fromMs, nowMs, { reader })] : [];
}

/** Only where both clocks were wrong, or the one that there is. */
async function compareAnew(context: PollContext, nowMs: number, aheadMs: number): Promise<void> {
  const { account, journal, settings } = context;
  const fromMs = nowMs - settings.sweepsMs.at(-1)! - aheadMs;
  const put = (await journal.windows({ account, states: ["read", "sealed"], fromMs }))
    .filter(({ askedMs }) => askedMs !== null && askedMs > nowMs + BEYOND_MS)
    .map(
      (window): Window => ({ ...window, state: "read", sweeps: 0, nextMs: sweepDueMs(window, 0, settings) }),
    );
  if (put.length > 0) await journal.changeWindows({ put });
}

/** The newest forgotten window ends at the horizon, or a little ahead of it. */
async function readHeld(context: PollContext, nowMs: number): Promise<void> {
  const { account, journal } = context;
  const fromMs = horizonMs(context, nowMs) + 2 * HORIZON_MARGIN_MS;
  const expired = await journal.windows({ account, states: ["expired"], live: false, fromMs });
  const put = expired.map((window): Window => ({ ...window, state: "unread", pass: null, reason: null }));
  if (put.length > 0) await journal.changeWindows({ put });
}
