import type { Pass, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { areSuspects, isLoner } from "./apart.ts";
import { isUnordered } from "./order.ts";
import { halved } from "./pass.ts";
import { type Canaries, isServedBeside, verdictOfOthers } from "./probe.ts";
import { firstPass } from "./read-window.ts";
import type { SourceFault } from "./source.ts";
import { readAlone, splitSuspects } from "./split-window.ts";
import { markTroubled } from "./troubled.ts";

/** A failure that comes so often in a row is no accident of one answer. */
const REPEATS = 2;
/**
 * Under a limit of the whole key, a request right after a refusal is now and then served too. That it happens so often in a
 * row, and only to others, is no accident.
 */
const SERVED_BESIDE = 5;
/** While the service refuses everybody, looks at others become rarer: each is a request more that it has to refuse. */
const FAILURES_BETWEEN_LOOKS = 60;
/** After a shorter wait the window is simply asked for again once. */
const LONG_WAIT_MS = 10_000;
/** Where an attempt takes long, the parts of a group are asked for side by side. */
const SLOW_PARTS = 8;

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

export function asksForLongWait({ retryAfterMs = 0 }: SourceFault): boolean {
  return retryAfterMs >= LONG_WAIT_MS;
}

/** A failure that repeats while others are served belongs to this window: it must not hold up the rest (R32). */
export async function isolate(
  context: PollContext,
  { window, fault, failures }: Failure,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<FaultConsequence> {
  const { organizations } = window.stream;
  const isSuspect = areSuspects(context, organizations);
  // The pace does not slow down for these, so they have to wait by themselves.
  const isApart = isSuspect || isLoner(context, organizations);
  const wait: FaultConsequence = { next: fault.kind === "unavailable" && !isApart ? "soon" : "later" };
  const isGroup = organizations.length > 1;
  // A body that stalls has held up others for long enough, and seldom is an accident.
  const isKnown = (isGroup && isSuspect) || fault.isStalled === true;
  if (failures < (isKnown ? 1 : REPEATS)) return wait;
  const verdict = await verdictOfOthers(context, window, fault, canaries, signal);
  if (verdict !== "works" && verdict !== "alone") return wait;
  if (isGroup) {
    await splitSuspects(context, window, fault.kind === "cut_off" ? SLOW_PARTS : undefined);
    return { next: "again" };
  }
  if (fault.kind === "cut_off") markTroubled(context, window.stream);
  readAlone(context, organizations);
  const smaller = halved(passOf(context, window));
  if (smaller !== null) await context.journal.changeWindows({ put: [{ ...window, pass: smaller }] });
  return { next: "later" };
}

/**
 * A rate limit is met now and then by every window. Only where others are served right after each refusal of this one, it
 * is not the key that has to wait (R32).
 */
export async function isolateThrottled(
  context: PollContext,
  { window, fault, failures }: Failure,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<FaultConsequence> {
  const { id, organizations } = window.stream;
  const { servedBeside, servedNobody } = context.learned;
  if (isLoner(context, organizations)) return { next: "later" };
  const wait: FaultConsequence = { next: areSuspects(context, organizations) ? "later" : "soon" };
  const isWorthALook = failures > 1 || asksForLongWait(fault);
  if (organizations.length === 0 || !isWorthALook) return wait;
  const inVain = servedNobody.get(id) ?? 0;
  // Fewer failures than then are those of another time.
  if (failures > inVain && failures < inVain + Math.min(inVain, FAILURES_BETWEEN_LOOKS)) return wait;
  if (!(await isServedBeside(context, window, canaries, signal))) {
    servedBeside.delete(id);
    servedNobody.set(id, failures);
    return wait;
  }
  servedNobody.delete(id);
  const times = (servedBeside.get(id) ?? 0) + 1;
  servedBeside.set(id, times);
  // The look has ended the pause: the window is asked for again at once.
  if (times < SERVED_BESIDE) return { next: "soon" };
  servedBeside.delete(id);
  if (organizations.length === 1) readAlone(context, organizations);
  else await splitSuspects(context, window, SLOW_PARTS);
  return { next: "again" };
}
