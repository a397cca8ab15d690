import { type NewWindow, newWindow, type Window } from "../../core/window.ts";
import { type PollContext, timeText } from "../context.ts";
import { reopenRefused } from "./reconcile-windows.ts";
import { sweepDueMs } from "./sweep-times.ts";

/** The estimate of the service's time moves by less than this from one answer to the next. */
const BEYOND_MS = 60_000;

/**
 * Windows that reach beyond now come from a time that was wrong for a while: the service's Date, or the local clock
 * where there is none. Their statements are about a time that has not been yet.
 *
 * 1. Each of them is replaced by an unread window up to now. A live one ends; a new one is placed at now.
 * 2. Windows before them may have been compared too early, so their sweeps are done again.
 * 3. Time that was given up as forgotten is unread again where the service still holds it.
 */
export async function bringBack(context: PollContext, nowMs: number): Promise<void> {
  const { account, journal, log, settings } = context;
  const beyond = await journal.windows({ account, fromMs: nowMs + BEYOND_MS });
  if (beyond.length === 0) return;
  const untilMs = Math.max(...beyond.map(({ toMs }) => toMs));
  log.warn(
    { account, windows: beyond.length, until: timeText(untilMs) },
    "Windows reached beyond the service's time; their time is read again.",
  );
  await journal.changeWindows({
    remove: beyond.map(({ id }) => id),
    add: beyond.flatMap((window) => unreadBefore(window, nowMs)),
  });
  const earliestMs = nowMs - settings.sweepsMs.at(-1)! - (untilMs - nowMs);
  const early = await journal.windows({ account, states: ["read", "sealed"], fromMs: earliestMs });
  const put = early.map(
    (window): Window => ({ ...window, state: "read", sweeps: 0, nextMs: sweepDueMs(window, 0, settings) }),
  );
  if (put.length > 0) await journal.changeWindows({ put });
  await reopenRefused(context, { fromMs: 0, toMs: nowMs });
}

function unreadBefore({ stream, fromMs, reader }: Window, nowMs: number): NewWindow[] {
  return fromMs < nowMs ? [newWindow(stream, fromMs, nowMs, { reader })] : [];
}
