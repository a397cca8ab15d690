import type { Pass, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { areSuspects, isLoner } from "./apart.ts";
import { isUnordered } from "./order.ts";
import { halved } from "./pass.ts";
import { type Canaries, verdictOfOthers } from "./probe.ts";
import { firstPass } from "./read-window.ts";
import type { SourceFault } from "./source.ts";
import { readAlone, splitSuspects } from "./split-window.ts";

/** A failure that comes so often in a row is no accident of one answer. */
const REPEATS = 2;
/** A rate limit is met now and then by every window. */
const THROTTLED_REPEATS = 3;
/** After so long a wait it is worth looking whether others have to wait too. */
const LONG_WAIT_MS = 10_000;
/** Where no answer comes, each attempt takes long: the parts of a group are asked for side by side. */
const SLOW_PARTS = 8;
/** So many others are asked for then: each request adds to what the service finds too much. */
const THROTTLED_PROBES = 2;

/**
 * The consequence of a failed read. again: the window, or its replacement, goes on at once. soon: the same,
 * when the pace allows. later: the window waits, a little longer with each failure in a row. replan: the
 * list of organizations has changed. account: the whole account waits.
 */
export type FaultConsequence =
  | { readonly next: "again" | "soon" | "later" | "replan" }
  | { readonly next: "account"; readonly fault: SourceFault };

/** One failed read: the window as the ledger has it now, and how often in a row it has failed. */
export interface Failure {
  readonly window: Window;
  readonly error: unknown;
  readonly fault: SourceFault;
  readonly failures: number;
}

/** The pass under way. After the service has answered in another order, the time of an event is no place to go on at. */
export function passOf(context: PollContext, window: Window): Pass {
  const pass = window.pass ?? firstPass(context, window);
  return isUnordered(context) ? { ...pass, isUnordered: true } : pass;
}

/** A failure that repeats while others are served belongs to this window: it must not hold up the rest (R32). */
export async function isolate(
  context: PollContext,
  { window, fault, failures }: Failure,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<FaultConsequence> {
  const { organizations } = window.stream;
  const isThrottled = fault.kind === "throttled";
  const isSuspect = areSuspects(context, organizations);
  // The pace does not slow down for these, so they have to wait by themselves.
  const isApart = isSuspect || isLoner(context, organizations);
  const isPaced = (isThrottled || fault.kind === "unavailable") && !isApart;
  const wait: FaultConsequence = { next: isPaced ? "soon" : "later" };
  const isGroup = organizations.length > 1;
  const isSudden = isGroup && (isSuspect || (fault.retryAfterMs ?? 0) >= LONG_WAIT_MS);
  if (failures < (isSudden ? 1 : isThrottled ? THROTTLED_REPEATS : REPEATS)) return wait;
  const asksMax = isThrottled ? THROTTLED_PROBES : undefined;
  const verdict = await verdictOfOthers(context, window, fault, canaries, signal, asksMax);
  if (verdict !== "works" && (verdict !== "alone" || isThrottled)) return wait;
  if (isGroup) {
    await splitSuspects(context, window, fault.kind === "cut_off" ? SLOW_PARTS : undefined);
    return { next: "again" };
  }
  readAlone(context, organizations);
  const smaller = isThrottled ? null : halved(passOf(context, window), true);
  if (smaller !== null) await context.journal.changeWindows({ put: [{ ...window, pass: smaller }] });
  return { next: "later" };
}
