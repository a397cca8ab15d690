/**
 * Decides the next step of a poller from a few times. Its states:
 *
 * - paused: the account or the disk refused; nothing is done until the pause is over.
 * - plan: the plan is missing or old. A failure pauses, or makes it due again.
 * - upkeep: once a minute, when there is a plan.
 * - work: a piece of the agenda.
 */
export interface PollState {
  readonly pausedUntilMs: number | null;
  readonly planDueMs: number;
  readonly hasPlan: boolean;
  readonly upkeptMs: number;
}

export type Turn = "paused" | "plan" | "upkeep" | "work";

const UPKEEP_MS = 60_000;

/** `planEveryMs`: a due time further away than this comes from a clock that was set back. */
export function turnOf(state: PollState, nowMs: number, planEveryMs: number): Turn {
  if (state.pausedUntilMs !== null && nowMs < state.pausedUntilMs) return "paused";
  if (nowMs >= state.planDueMs || state.planDueMs - nowMs > planEveryMs) return "plan";
  if (state.hasPlan && Math.abs(nowMs - state.upkeptMs) >= UPKEEP_MS) return "upkeep";
  return "work";
}
