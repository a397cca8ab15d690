import { hash } from "node:crypto";
import { gapNameOf, type NewGap, ONE_EVENT, TOO_LARGE } from "../../core/gap.ts";
import { wholeSecondAfter, wholeSecondBefore } from "../../core/time.ts";
import type { Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { streamOf } from "../plan/scope.ts";
import { isUnordered } from "./order.ts";

/** A single event that cannot be read; `bytes` where it is clear where it ends. */
export interface SkippedEvent {
  readonly reason: "unreadable" | "too_large";
  readonly message: string;
  readonly bytes: Buffer | undefined;
  /** Where at least its identity fields are readable. */
  readonly name?: EventName | undefined;
  /** Only its identity fields were asked for, so `bytes` are theirs. */
  readonly isOfFields?: boolean;
  /** The time of the next event that is readable. */
  readonly nextMs?: number | undefined;
}

export interface EventName {
  readonly timeMs: number;
  /** "" where it names no organization. */
  readonly owner: string;
  readonly id: string | undefined;
  readonly identity: string;
}

/** Names the skipped event, or else its place: between the events around it, where answers rise in time. */
export async function skipGap(
  context: PollContext,
  { stream, pass, toMs, live }: Window,
  skipped: SkippedEvent,
): Promise<NewGap> {
  const { begunMs, latestMs, startMs } = pass!;
  const gap = { reason: "unreadable", detail: detailOf(skipped), events: 1 } as const;
  const { name, nextMs } = skipped;
  if (name === undefined) {
    // A request covers whole seconds. A neighbour that meets the event too gives it a place that overlaps this one.
    const fromMs = latestMs ?? wholeSecondBefore(startMs);
    const isPlace = nextMs !== undefined && pass!.isUnordered !== true && !isUnordered(context);
    // A live pass shows events up to the time of its answers.
    const lastMs = live ? Math.max(begunMs, context.serviceClock.now() + 1) : wholeSecondAfter(toMs);
    const endMs = Math.min(lastMs, isPlace ? behind(nextMs) : Number.POSITIVE_INFINITY);
    return { ...gap, stream, fromMs, toMs: Math.max(fromMs + 1, endMs) };
  }
  const isMember = stream.organizations.length > 1 && stream.organizations.includes(name.owner);
  return {
    ...gap,
    stream: isMember ? await streamOf(context, stream, [name.owner]) : stream,
    fromMs: name.timeMs,
    toMs: name.timeMs + 1,
  };
}

/** A service may show whole seconds, and order by fractions. */
function behind(timeMs: number): number {
  return timeMs % 1000 === 0 ? timeMs + 1000 : timeMs + 1;
}

/** Names the event by its identity, or else by its bytes, so that a later pass finds the same gap. */
function detailOf({ reason, message, bytes, name, isOfFields }: SkippedEvent): string {
  const which = name === undefined ? ONE_EVENT : gapNameOf(name.id, name.identity);
  if (reason === "too_large") return `${which} ${TOO_LARGE}`;
  if (bytes === undefined) return `${which} is not readable: ${message}`;
  const kept = name === undefined && isOfFields ? "its identity fields are" : "its bytes are";
  return `${which} is not readable; ${kept} kept apart as ${hash("sha256", bytes, "hex").slice(0, 16)}`;
}
