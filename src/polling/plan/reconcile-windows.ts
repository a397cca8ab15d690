import type { LedgerNow } from "../../core/journal.ts";
import { newWindow, type Window, type WindowChange } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { closedWindow } from "../read/commit-page.ts";
import { countsOfParts, HORIZON_MARGIN_MS, horizonMs } from "../read/forgotten.ts";
import type { TimeStretch } from "./sweep-times.ts";

export interface ReconcileRequest extends TimeStretch {
  /** Only windows that hold one of these; absent: all. */
  readonly organizations?: readonly string[] | undefined;
}

/**
 * Makes every window that overlaps the stretch due now, to be compared by identities as for sealing; what the
 * live windows have read becomes windows of their own for it. Refused and expired windows that the service may
 * still hold are read again (R34). Of a window that the service has begun to forget, only the part that it holds is due:
 * an answer about the rest proves nothing (R5). Gives how many are due.
 */
export async function compareAgain(
  context: PollContext,
  { fromMs, toMs, organizations }: ReconcileRequest,
  isRunning: (window: Window) => boolean,
): Promise<number> {
  const { account, journal, settings } = context;
  const wanted = organizations && new Set(organizations);
  const edgeMs = horizonMs(context);
  let count = await reopenRefused(context, { fromMs, toMs, organizations });
  for (const { id } of await journal.windows({ account, fromMs, toMs }))
    await journal.changeWindows((now) => {
      // Reads and merges go on meanwhile, so each window is looked at as it is now.
      const window = now.window(id);
      if (window === undefined || isRunning(window)) return {};
      if (!isAskedFor(window, wanted)) return {};
      if (window.fromMs < edgeMs) {
        const change = heldPart(now, window, edgeMs + HORIZON_MARGIN_MS);
        if (change !== undefined) count++;
        return change ?? {};
      }
      if (window.live) {
        const closed = closedWindow(context, window).map((read) => ({ ...read, nextMs: 0 }));
        count += closed.length;
        return { put: [{ ...window, fromMs: window.toMs, late: 0, repeated: 0, changed: 0 }], add: closed };
      }
      if (window.state !== "read" && window.state !== "sealed") return {};
      count++;
      return { put: [{ ...window, sweeps: listedSweeps(window), nextMs: 0 }] };
    });
  return count;

  function listedSweeps({ sweeps }: Window): number {
    return Math.min(sweeps, settings.sweepsMs.length - 1);
  }

  /** The forgotten part stays as due as it was. */
  function heldPart(now: LedgerNow, window: Window, fromMs: number): WindowChange | undefined {
    const { state, askedMs, toMs, stream } = window;
    if (window.live || (state !== "read" && state !== "sealed") || fromMs >= toMs) return undefined;
    const { first, rest } = countsOfParts(now, window, fromMs);
    const held = { state, askedMs, sweeps: listedSweeps(window), nextMs: 0, ...rest };
    return {
      put: [{ ...window, toMs: fromMs, pass: null, ...first }],
      add: [newWindow(stream, fromMs, toMs, held)],
    };
  }
}

/** Refused and expired windows become unread where the service may still hold a part of them (R34). Gives how many. */
export async function reopenRefused(
  context: PollContext,
  { fromMs, toMs, organizations }: ReconcileRequest,
): Promise<number> {
  const { account, journal } = context;
  const wanted = organizations && new Set(organizations);
  const heldMs = Math.max(fromMs, horizonMs(context));
  const states = ["refused", "expired"] as const;
  const again = (await journal.windows({ account, states, live: false, fromMs: heldMs, toMs }))
    .filter((window) => isAskedFor(window, wanted))
    .map((window) => ({ ...window, state: "unread" as const, pass: null, nextMs: null, reason: null }));
  if (again.length > 0) await journal.changeWindows({ put: again });
  return again.length;
}

function isAskedFor({ stream, reader }: Window, wanted: ReadonlySet<string> | undefined): boolean {
  return reader === null && (wanted === undefined || stream.organizations.some((id) => wanted.has(id)));
}
