import { NOT_LISTED } from "../../core/roster.ts";
import { wholeSecondAfter } from "../../core/time.ts";
import type { Window } from "../../core/window.ts";
import { ask, type PollContext, patienceOf, scopeOf, timeText } from "../context.ts";
import { LIVE, type Priority } from "../limits/pace.ts";
import { InconsistentPageError, type SourceFault } from "./source.ts";

/** Faults that the same request may not meet a moment later. */
export const MAY_PASS: readonly SourceFault["kind"][] = ["throttled", "unavailable", "cut_off", "nonsense"];

export function faultIn(context: PollContext, error: unknown): SourceFault {
  if (error instanceof InconsistentPageError) return { kind: "nonsense", message: error.message };
  return context.source.fault(error);
}

/** The window's own body with other organizations and one event a page; the fault it meets, or undefined. */
export async function probe(
  context: PollContext,
  window: Pick<Window, "stream" | "fromMs" | "toMs">,
  organizations: readonly string[],
  signal: AbortSignal,
  priority: Priority | "look" = LIVE,
): Promise<SourceFault | undefined> {
  const query = {
    service: window.stream.services,
    startTime: timeText(window.fromMs),
    endTime: window.toMs > window.fromMs ? timeText(wholeSecondAfter(window.toMs)) : undefined,
    limit: 1,
    sort: "ASC" as const,
  };
  const scope = organizations.length === 0 ? scopeOf(window.stream) : { organizations };
  try {
    (
      await ask(context, query, scope, { signal, patienceMs: patienceOf(context.learned) }, priority)
    ).discard();
    return undefined;
  } catch (error) {
    if (signal.aborted) throw error;
    return faultIn(context, error);
  }
}

/** Organizations that lately worked. A request for one of them shows whether the query or account is at fault (R6). */
export interface Canaries {
  worked(organizations: readonly string[]): void;
  list(): readonly string[];
}

const REMEMBERED_MAX = 3;
/** So many others are asked for where none is known to work. */
const SAMPLE_MAX = 8;

/** Each look adds to what the service finds too much. */
const LOOKS_MAX = 2;

export function createCanaries(): Canaries {
  let remembered: string[] = [];
  return {
    worked(organizations) {
      const [organization] = organizations;
      if (organization === undefined || organization === remembered[0]) return;
      remembered = [organization, ...remembered.filter((id) => id !== organization)].slice(0, REMEMBERED_MAX);
    },
    list: () => remembered,
  };
}

/**
 * How the same body fares with other organizations, each alone: `works` with one of them, so an organization
 * of this window is at fault; `same` fault with all, so the query or the account is at fault; `alone`: there is none
 * to ask; `unclear` when they failed otherwise.
 */
export type Verdict = "works" | "same" | "alone" | "unclear";

export async function verdictOfOthers(
  context: PollContext,
  window: Window,
  fault: SourceFault,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<Verdict> {
  if (fault.kind === "unknown_organization" && isUnlisted(context, window)) return "works";
  const others = othersOf(context, window, canaries);
  let isSame = others.length > 0;
  for (const organization of others) {
    const answer = await probe(context, window, [organization], signal);
    if (answer === undefined) {
      canaries.worked([organization]);
      return "works";
    }
    if (answer.kind !== fault.kind) isSame = false;
  }
  if (others.length === 0) return "alone";
  return isSame ? "same" : "unclear";
}

/** The list of organizations lacks it too: nothing else is at fault, whatever others answer. */
function isUnlisted({ account, roster }: PollContext, { stream }: Window): boolean {
  const [id, ...more] = stream.organizations;
  const entry = more.length > 0 ? undefined : roster.list(account).find((one) => one.id === id);
  return entry?.reason === NOT_LISTED;
}

/** Whether another organization is served right now, while this window is refused as too much. */
export async function isServedBeside(
  context: PollContext,
  window: Window,
  canaries: Canaries,
  signal: AbortSignal,
): Promise<boolean> {
  for (const organization of othersOf(context, window, canaries).slice(0, LOOKS_MAX))
    if ((await probe(context, window, [organization], signal, "look")) === undefined) {
      canaries.worked([organization]);
      return true;
    }
  return false;
}

/** First those that lately worked, then a sample of the window's own and of the account's, both ends included. */
function othersOf(context: PollContext, window: Window, canaries: Canaries): readonly string[] {
  const own = window.stream.organizations;
  const active = context.roster
    .list(context.account)
    .filter((entry) => entry.state === "active")
    .map((entry) => entry.id);
  const candidates = [...canaries.list(), ...sample(own, SAMPLE_MAX / 2), ...sample(active, SAMPLE_MAX)];
  const alone = own.length === 1 ? own[0] : undefined;
  return [...new Set(candidates)].filter((id) => id !== alone).slice(0, SAMPLE_MAX);
}

function sample(list: readonly string[], count: number): string[] {
  if (list.length <= count) return [...list];
  return Array.from({ length: count }, (_, at) => list[Math.floor((at * (list.length - 1)) / (count - 1))]!);
}
