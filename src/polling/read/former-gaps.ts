import { hash } from "node:crypto";
import { type FilledStretch, type NewGap, ONE_EVENT } from "../../core/gap.ts";
import type { Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";

export function isUnnamed({ detail }: Pick<NewGap, "detail">): boolean {
  return detail.startsWith(`${ONE_EVENT} `);
}

/**
 * A pass that could not ask for the name of an event left a gap without one. Where the event has a name now, that gap
 * ends, or the event would be counted twice.
 */
export async function formerGaps(
  context: PollContext,
  { stream, pass }: Window,
  gaps: readonly NewGap[],
): Promise<FilledStretch[]> {
  const named = gaps.filter((gap) => !isUnnamed(gap));
  if (named.length === 0) return [];
  const fromMs = Math.min(...named.map((gap) => gap.fromMs));
  const toMs = Math.max(...named.map((gap) => gap.toMs));
  const known = await context.journal.gaps({
    account: stream.account,
    reasons: ["unreadable"],
    fromMs,
    toMs,
  });
  const details = new Set(known.map(({ detail }) => detail));
  const isOwn = (detail: string) =>
    gaps.some((gap) => gap.detail === detail) || pass?.skips?.includes(digest(detail)) === true;
  const unnamed = known.filter((gap) => isUnnamed(gap) && !isOwn(gap.detail));
  const filled: FilledStretch[] = [];
  for (const gap of named) {
    if (details.has(gap.detail)) continue;
    const at = unnamed.findIndex((other) => other.fromMs <= gap.fromMs && other.toMs >= gap.toMs);
    if (at < 0) continue;
    const [former] = unnamed.splice(at, 1);
    filled.push({
      stream,
      fromMs: former!.fromMs,
      toMs: former!.toMs,
      reasons: ["unreadable"],
      detail: former!.detail,
    });
  }
  return filled;
}

export function digest(value: string | Uint8Array): string {
  return hash("sha256", value, "hex").slice(0, 16);
}
