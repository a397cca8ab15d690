import { hash } from "node:crypto";
import { type FilledStretch, type Gap, gapNameOf, type NewGap, ONE_EVENT } from "../../core/gap.ts";
import { wholeSecondBefore } from "../../core/time.ts";
import type { Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import type { PageRequest } from "./fetch-page.ts";

export function isUnnamed({ detail }: Pick<NewGap, "detail">): boolean {
  return detail.startsWith(`${ONE_EVENT} `);
}

/** How the detail of a gap goes on after the event's name, where its bytes are kept. */
export function keptApart(bytes: Buffer): string {
  return ` is not readable; its bytes are kept apart as ${digest(bytes)}`;
}

/** A service may send the same bytes in place of any event that it cannot write: they show which one only with its id. */
function isShownBy(bytes: Buffer, id: string): boolean {
  return bytes.includes(id);
}

/** The name that an event with these bytes had when it was met before: a gap remembers it. */
export async function formerName({ journal, account }: PollContext, { query }: PageRequest, bytes: Buffer) {
  const fromMs = wholeSecondBefore(Date.parse(query.startTime));
  const toMs = query.endTime === undefined ? undefined : Date.parse(query.endTime);
  const kept = keptApart(bytes);
  for (const gap of await journal.gaps({ account, reasons: ["unreadable"], fromMs, toMs })) {
    if (isUnnamed(gap) || !gap.detail.endsWith(kept)) continue;
    const id = gap.detail.slice(gapNameOf("", "").length, -kept.length);
    if (isShownBy(bytes, id)) return { timeMs: gap.fromMs, owner: gap.organization ?? "", id, identity: id };
  }
  return undefined;
}

/** The detail of the gap that an event with this id has where its name was not told. */
export function formerDetail(bytes: Buffer | undefined, id: string | undefined): string | undefined {
  if (bytes === undefined || id === undefined || !isShownBy(bytes, id)) return undefined;
  return `${ONE_EVENT}${keptApart(bytes)}`;
}

/**
 * A pass that could not ask for the name of an event left a gap without one. Where the event has a name now, that gap
 * ends, or the event would be counted twice. `former`: its detail, where the bytes show that it is the same event.
 */
export async function formerGaps(
  context: PollContext,
  { stream, pass }: Window,
  gaps: readonly NewGap[],
  former?: string,
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
  const unnamed = known.filter((gap) => isUnnamed(gap) && (gap.detail === former || !isOwn(gap.detail)));
  const filled: FilledStretch[] = [];
  for (const gap of named) {
    const same = unnamed.findIndex(({ detail }) => detail === former);
    const at =
      same >= 0 || details.has(gap.detail)
        ? same
        : unnamed.findIndex((other) => other.fromMs <= gap.fromMs && other.toMs >= gap.toMs);
    if (at < 0) continue;
    const [{ fromMs, toMs, detail }] = unnamed.splice(at, 1) as [Gap];
    filled.push({ stream, fromMs, toMs, reasons: ["unreadable"], detail });
  }
  return filled;
}

export function digest(value: string | Uint8Array): string {
  return hash("sha256", value, "hex").slice(0, 16);
}
