import type { Step } from "./step.ts";
import type { Wake } from "./wake.ts";

const IDLE_MS = 1000;

export interface StepLoop {
  readonly step: Step;
  readonly wake: Wake;
  /** How long the step asked to be left alone; 0 and less: until it is woken. */
  waitMs?(): number;
  /** How long it may be idle without a wake, where that is less than a second. */
  idleMs?(): number | undefined;
  /** Checked when there is nothing to do at once. */
  isDone?(): boolean | Promise<boolean>;
}

/**
 * The loop around a step: again at once while there is work, otherwise after a wake, a second, or the wait that
 * the step asked for. Ends when the signal aborts or when it is done.
 */
export async function runSteps(loop: StepLoop, signal: AbortSignal): Promise<void> {
  const { step, wake, waitMs = () => 0, idleMs = () => undefined, isDone = () => false } = loop;
  while (!signal.aborted) {
    const mark = wake.mark();
    if ((await step(signal)) === "again") continue;
    if (await isDone()) return;
    const leftMs = waitMs();
    // A wake does not shorten a wait that an error asked for.
    await wake.waitSince(
      leftMs > 0 ? wake.mark() : mark,
      Math.min(IDLE_MS, Math.max(10, leftMs > 0 ? leftMs : (idleMs() ?? IDLE_MS))),
      signal,
    );
  }
}
