import type { Window } from "../../core/window.ts";
import { ask, type LonerRefusal, type PollContext, scopeOf } from "../context.ts";
import type { Priority } from "../limits/pace.ts";
import type { SourceOptions, SourcePage, SourceQuery } from "./source.ts";

const WAIT_MS_MIN = 1000;
/** However long a wait the service asks for, it is asked again at least this often (R33). */
const WAIT_MS_MAX = 600_000;

/** Whether this is one organization that is read alone because it made its group fail. */
export function isLoner({ learned, clock }: PollContext, organizations: readonly string[]): boolean {
  return organizations.length === 1 && (learned.aloneUntilMs.get(organizations[0]!) ?? 0) > clock.now();
}

/** Whether these come from a group that kept failing while others were served. */
export function areSuspects({ learned, clock }: PollContext, organizations: readonly string[]): boolean {
  const isSuspect = (id: string) => (learned.suspectUntilMs.get(id) ?? 0) > clock.now();
  return organizations.length > 0 && organizations.every(isSuspect);
}

/**
 * Asks for a page of a window. Organizations that are refused while others are served do not slow these down: one that
 * is read alone waits by itself (R32).
 */
export async function askForWindow(
  context: PollContext,
  { stream }: Pick<Window, "stream">,
  query: SourceQuery,
  options: SourceOptions,
  priority: Priority,
): Promise<SourcePage> {
  const { learned, clock } = context;
  const { organizations } = stream;
  if (!isLoner(context, organizations)) {
    const isSuspect = areSuspects(context, organizations);
    const page = await ask(context, query, scopeOf(stream), options, priority, isSuspect);
    learned.servedBeside.delete(stream.id);
    return page;
  }
  const loner = organizations[0]!;
  const before = learned.refusals.get(loner);
  if (before !== undefined && isWaiting(before, clock.now())) throw before.error;
  try {
    const page = await ask(context, query, scopeOf(stream), options, priority, true);
    learned.refusals.delete(loner);
    return page;
  } catch (error) {
    const refusal = options.signal.aborted ? undefined : refusalIn(context, error, before);
    if (refusal !== undefined) learned.refusals.set(loner, refusal);
    throw error;
  }
}

/** A longer wait is never set: the local clock was set back meanwhile. */
function isWaiting({ untilMs }: LonerRefusal, nowMs: number): boolean {
  return untilMs > nowMs && untilMs - nowMs <= WAIT_MS_MAX;
}

/** It waits as long as the service asks for, else longer with each refusal in a row. */
function refusalIn(
  { source, clock }: PollContext,
  error: unknown,
  before: LonerRefusal | undefined,
): LonerRefusal | undefined {
  const { kind, retryAfterMs } = source.fault(error);
  if (kind !== "throttled" && kind !== "unavailable") return undefined;
  const growingMs = before === undefined ? WAIT_MS_MIN : before.waitMs * 2;
  const waitMs = Math.min(WAIT_MS_MAX, Math.max(WAIT_MS_MIN, retryAfterMs ?? growingMs));
  return { error, waitMs, untilMs: clock.now() + waitMs };
}
