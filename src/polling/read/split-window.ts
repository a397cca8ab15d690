import { DAY_MS } from "../../core/time.ts";
import { newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { streamOf } from "../plan/scope.ts";
import { isLoner } from "./apart.ts";
import { passTakenOver } from "./take-over.ts";

/** An organization that made a group fail is read alone for so long. */
const ALONE_MS = DAY_MS;
/** After a group was halved, its parts are under suspicion for so long: one failure is enough to halve them again. */
const SUSPECT_MS = 600_000;

export function halvesOf(organizations: readonly string[]): readonly (readonly string[])[] {
  return partsOf(organizations, 2);
}

function partsOf(organizations: readonly string[], parts: number): readonly (readonly string[])[] {
  const size = Math.ceil(organizations.length / parts);
  const count = Math.ceil(organizations.length / size);
  return Array.from({ length: count }, (_, at) => organizations.slice(at * size, (at + 1) * size));
}

/** Replaces a window, in one transaction, by smaller ones without cursors (R1, take-over.ts). */
export async function replaceByGroups(
  context: PollContext,
  window: Window,
  groups: readonly (readonly string[])[],
): Promise<void> {
  const { live, state, sweeps, nextMs, askedMs, reason, reader } = window;
  const add = [];
  for (const group of groups) {
    const stream = await streamOf(context, window.stream, group);
    const pass = passTakenOver(context, window, window.toMs);
    const kept = {
      live,
      state,
      sweeps,
      nextMs,
      askedMs,
      reason,
      reader,
      pass,
      ...countsOfMembers(window, group),
    };
    add.push(newWindow(stream, window.fromMs, window.toMs, kept));
  }
  await context.journal.changeWindows({ remove: [window.id], add });
}

/** The counts of a part of a group, where they are known by organization. */
function countsOfMembers({ apiCount, counts }: Window, members: readonly string[]) {
  if (counts === null) return {};
  const sumOf = (owners: readonly string[], side: 0 | 1) =>
    owners.reduce((sum, owner) => sum + (counts[owner]?.[side] ?? 0), 0);
  // An event without a known owner may be of any part.
  if (sumOf(Object.keys(counts), 0) !== apiCount || Object.hasOwn(counts, "")) return {};
  const own = members.flatMap((id) => (Object.hasOwn(counts, id) ? [[id, counts[id]!] as const] : []));
  return {
    apiCount: sumOf(members, 0),
    heldCount: sumOf(members, 1),
    counts: members.length === 1 ? null : Object.fromEntries(own),
  };
}

/** Splits a group that keeps failing, so that its other members go on (R32). */
export async function splitSuspects(context: PollContext, window: Window, parts = 2): Promise<void> {
  const { organizations } = window.stream;
  const { suspectUntilMs, servedSuspects } = context.learned;
  for (const id of organizations) {
    suspectUntilMs.set(id, context.clock.now() + SUSPECT_MS);
    servedSuspects.delete(id);
  }
  await replaceByGroups(context, window, partsOf(organizations, parts));
}

export function readAlone({ learned, clock }: PollContext, organizations: readonly string[]): void {
  for (const id of organizations) learned.aloneUntilMs.set(id, clock.now() + ALONE_MS);
}

/** Takes organizations that have to be read alone out of a group; false when there are none. */
export async function separateLoners(context: PollContext, window: Window): Promise<boolean> {
  const { organizations } = window.stream;
  if (organizations.length < 2) return false;
  const loners = organizations.filter((id) => isLoner(context, [id]));
  if (loners.length === 0) return false;
  const others = organizations.filter((id) => !loners.includes(id));
  const groups = [...(others.length > 0 ? [others] : []), ...loners.map((id) => [id])];
  await replaceByGroups(context, window, groups);
  return true;
}
