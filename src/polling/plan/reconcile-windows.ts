import type { Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { closedWindow } from "../read/commit-page.ts";
import type { Stretch } from "./sweep-times.ts";

export interface ReconcileRequest extends Stretch {
  /** Only windows that hold one of these; absent: all. */
  readonly organizations?: readonly string[] | undefined;
}

/**
 * Makes every window that overlaps the stretch due now, to be compared by identities as for sealing; what the
 * live windows have read becomes windows of their own for it. What the service has begun to forget is left
 * as it is: an answer about it proves nothing (R5). Gives how many are due.
 */
export async function reconcile(
  context: PollContext,
  { fromMs, toMs, organizations }: ReconcileRequest,
  isRunning: (window: Window) => boolean,
): Promise<number> {
  const { account, journal, serviceClock, settings } = context;
  const wanted = organizations && new Set(organizations);
  const horizonMs = serviceClock.now() - settings.retentionMs;
  let count = 0;
  for (const window of await journal.windows({ account, fromMs, toMs })) {
    const isAsked = wanted === undefined || window.stream.organizations.some((id) => wanted.has(id));
    if (!isAsked || window.reader !== null || window.fromMs < horizonMs || isRunning(window)) continue;
    if (window.live) {
      const closed = closedWindow(context, window).map((read) => ({ ...read, nextMs: 0 }));
      const moved = { ...window, fromMs: window.toMs, late: 0, repeated: 0, changed: 0 };
      await journal.changeWindows({ put: [moved], add: closed });
      count += closed.length;
    } else if (window.state === "read" || window.state === "sealed") {
      const sweeps = Math.min(window.sweeps, settings.sweepsMs.length - 1);
      await journal.changeWindows({ put: [{ ...window, sweeps, nextMs: 0 }] });
      count++;
    }
  }
  return count;
}
