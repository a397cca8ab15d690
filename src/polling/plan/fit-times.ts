import type { Window } from "../../core/window.ts";
import { sweepDueMs, type Times } from "./sweep-times.ts";

/** What a window that was read knows of its sweeps. */
export type WindowTimes = Pick<Window, "fromMs" | "toMs" | "state" | "sweeps" | "nextMs">;

/**
 * The sweeps of a window under a new config. Windows number their sweeps by the list, so with a shorter list a sweep
 * that is still owed would count as done, and the window would never be compared again (R3). `listedBefore`: the length
 * of the list by which it was numbered. Nothing is put off: where the new config has a later time, the old one stays.
 */
export function fittedTimes(
  window: WindowTimes,
  listedBefore: number,
  times: Times,
): Pick<Window, "sweeps" | "nextMs"> {
  const { state, sweeps, nextMs } = window;
  const listed = times.sweepsMs.length;
  if (nextMs === null) return { sweeps, nextMs };
  // A comparison that was asked for is due at once.
  if (nextMs === 0) return { sweeps: Math.min(sweeps, listed - 1), nextMs };
  const earlier = (dueMs: number | null) => Math.min(nextMs, dueMs ?? nextMs);
  if (sweeps >= listedBefore) return { sweeps: listed, nextMs: earlier(sweepDueMs(window, listed, times)) };
  // History that waits for its second look.
  if (state === "sealed") return { sweeps: listed - 1, nextMs: earlier(sweepDueMs(window, listed, times)) };
  const next = Math.min(sweeps, listed - 1);
  return { sweeps: next, nextMs: earlier(sweepDueMs(window, next, times)) };
}
