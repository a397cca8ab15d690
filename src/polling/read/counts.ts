import { byOwner } from "../../core/by-owner.ts";
import type { NewGap } from "../../core/gap.ts";
import type { HeldQuery, LedgerNow } from "../../core/journal.ts";
import { IDENTITY_BYTES, type PreparedPage, UNDATED_MS } from "../../core/prepare-page.ts";
import type { MissingEvent, OwnerCounts, Stream, Window } from "../../core/window.ts";
import type { TimeStretch } from "../plan/sweep-times.ts";

/** How many events the service showed, by owner: an organization, or "" where an event names none. */
export type ShownCounts = Readonly<Record<string, number>>;

/** The counts of a window after a whole pass or sweep. */
export type PassCounts = Pick<Window, "counts"> & { readonly apiCount: number; readonly heldCount: number };

/** What the service shows with the events that were passed over, and how many of these have no known owner. */
export function withSkips(
  { stream }: Window,
  shown: Readonly<Record<string, number>>,
  skips: readonly NewGap[],
): [Record<string, number>, number] {
  const counted = byOwner(shown);
  let ownerless = 0;
  for (const { stream: own } of skips) {
    const [owner, ...others] = own.organizations;
    if (owner === undefined || others.length > 0 || stream.organizations.length === 1) ownerless++;
    else counted[owner] = (counted[owner] ?? 0) + 1;
  }
  return [counted, ownerless];
}

/** Adds the events of a page that lie in the stretch; `leftOut` are the indexes of repeats. */
export function addShown(
  shown: ShownCounts,
  page: PreparedPage,
  { fromMs, toMs }: TimeStretch,
  leftOut: readonly number[],
): ShownCounts {
  const counts = byOwner(shown);
  const without = new Set(leftOut);
  for (let index = 0; index < page.scanned.count; index++) {
    const timeMs = page.timesMs[index]!;
    if (timeMs < fromMs || timeMs >= toMs || without.has(index)) continue;
    const owner = ownerAt(page, index);
    counts[owner] = (counts[owner] ?? 0) + 1;
  }
  return counts;
}

export function ownerAt(page: PreparedPage, index: number): string {
  return page.organizations[page.organizationIndexes[index]!] ?? "";
}

export function identityBytesAt(page: PreparedPage, index: number): Buffer {
  return page.identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
}

function sumOf(shown: ShownCounts): number {
  return Object.values(shown).reduce((sum, count) => sum + count, 0);
}

/**
 * Asks for everything that is held of a stretch. A query without organizations is answered for the owners that it
 * showed, now or before: the service may have forgotten events that are held.
 */
export function heldQuery(
  stream: Stream,
  { fromMs, toMs }: TimeStretch,
  shown: ShownCounts,
  former: OwnerCounts | null = null,
): HeldQuery {
  const { organizations, account, provider, services } = stream;
  const known = [...new Set([...Object.keys(shown), ...Object.keys(former ?? {})])];
  const owners = organizations.length > 0 ? organizations : known;
  return { owners, account, provider, fromMs, toMs, services, atMost: shown };
}

/** The service's count beside ours. `skipped`: events that were passed over and whose owner is not known; none is held. */
export function countsFrom(
  stream: Stream,
  shownBy: ShownCounts,
  held: ReadonlyMap<string, number>,
  skipped: number,
): PassCounts {
  const shown = byOwner(shownBy);
  let heldCount = 0;
  for (const count of held.values()) heldCount += count;
  const apiCount = sumOf(shown) + skipped;
  if (stream.organizations.length === 1) return { apiCount, heldCount, counts: null };
  const counts = byOwner<readonly [number, number]>();
  for (const owner of new Set([...Object.keys(shown), ...held.keys()]))
    counts[owner] = [shown[owner] ?? 0, held.get(owner) ?? 0];
  return { apiCount, heldCount, counts };
}

/** The window with its counts as they are stored: other reads may have added to them since the caller looked. */
export function withCountsNow(now: LedgerNow, window: Window): Window {
  const { apiCount, heldCount, counts } = now.window(window.id) ?? window;
  return { ...window, apiCount, heldCount, counts };
}

/** Both counts of every owner, combined; null where one side was not counted by owner. */
export function combined(
  some: OwnerCounts | null,
  others: OwnerCounts | null,
  combine: (left: number, right: number, side: "api" | "held") => number,
): OwnerCounts | null {
  if (some === null || others === null) return null;
  const [left, right, counts] = [byOwner(some), byOwner(others), byOwner<readonly [number, number]>()];
  for (const owner of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const [leftApi, leftHeld] = left[owner] ?? [0, 0];
    const [rightApi, rightHeld] = right[owner] ?? [0, 0];
    const pair = [combine(leftApi, rightApi, "api"), combine(leftHeld, rightHeld, "held")] as const;
    if (pair[0] > 0 || pair[1] > 0) counts[owner] = pair;
  }
  return counts;
}

/** How many events the service showed of all owners. */
function shownIn(counts: OwnerCounts | null): number {
  return Object.values(counts ?? {}).reduce((sum, [api]) => sum + api, 0);
}

/** Events that the service showed and whose owner is not known. */
function ownerlessIn({ apiCount, counts }: Pick<Window, "apiCount" | "counts">): number {
  return counts === null ? 0 : (apiCount ?? 0) - shownIn(counts);
}

/**
 * When the service shows fewer events than before, it has forgotten some: the former count stays. It may show more of
 * another organization at the same time, so the whole is counted from its parts. An event without a known owner may
 * have one by now, so only those of this look are added. `found`: events of this look that the former count lacks.
 * The service may hide others of them meanwhile, but whatever is held was shown.
 */
export function largerCounts(
  window: Pick<Window, "apiCount" | "counts">,
  counts: PassCounts,
  found: number,
): PassCounts {
  const larger = (now: number, before: number, held: number) =>
    Math.max(now, before, Math.min(before + found, held));
  const { counts: own, heldCount } = counts;
  const parts = byOwner(own ?? {});
  for (const owner of new Set([...Object.keys(parts), ...Object.keys(window.counts ?? {})])) {
    const [api, held] = parts[owner] ?? [0, 0];
    parts[owner] = [larger(api, window.counts?.[owner]?.[0] ?? 0, held), held];
  }
  const apiCount = Math.max(
    larger(counts.apiCount, window.apiCount ?? 0, heldCount),
    shownIn(own && parts) + ownerlessIn(counts),
  );
  return { apiCount, heldCount, counts: own && parts };
}

/**
 * The day of a long window with counts of its own. What is held of it and not shown now was shown before: it is in the
 * former count of the whole, and would stay in that of the rest.
 */
export function withShownBefore(day: PassCounts, whole: Pick<Window, "apiCount" | "counts">): PassCounts {
  const shown = (now: number, held: number, former: number) => Math.max(now, Math.min(held, former));
  if (day.counts === null)
    return { ...day, apiCount: shown(day.apiCount, day.heldCount, whole.apiCount ?? 0) };
  const counts = byOwner<readonly [number, number]>();
  for (const [owner, [api, held]] of Object.entries(day.counts))
    counts[owner] = [shown(api, held, whole.counts?.[owner]?.[0] ?? 0), held];
  return { ...day, apiCount: day.apiCount + shownIn(counts) - shownIn(day.counts), counts };
}

/** The service may have forgotten events that it showed before, and that are held still. */
export function withFormer(window: Window, { toMs }: TimeStretch, shownBy: ShownCounts): ShownCounts {
  const shown = byOwner(shownBy);
  if (toMs !== window.toMs || window.heldCount === null) return shown;
  const [only] = window.stream.organizations;
  if (window.counts === null)
    return only === undefined ? shown : { [only]: Math.max(shown[only] ?? 0, window.heldCount) };
  const former = Object.entries(window.counts).map(([owner, [, held]]) => [
    owner,
    Math.max(shown[owner] ?? 0, held),
  ]);
  return byOwner({ ...shown, ...Object.fromEntries(former) });
}

/** Events that the service listed, and that no read returned, are in its count. */
export function withMissing(window: Window, missing: readonly MissingEvent[]): Window {
  const { apiCount, counts } = window;
  const dated = missing.filter(({ timeMs }) => timeMs !== UNDATED_MS);
  if (apiCount === null || dated.length === 0) return window;
  const all = combined(counts, shownOf(dated), (before, now) => before + now);
  return { ...window, apiCount: apiCount + dated.length, counts: all };
}

/** The counts as they were before the service listed these events. */
export function withoutMissing(counts: PassCounts, missing: readonly MissingEvent[]): PassCounts {
  const before = combined(counts.counts, shownOf(missing), (all, now) => all - now);
  return { ...counts, apiCount: counts.apiCount - missing.length, counts: before };
}

/** Shown, and not held. */
function shownOf(events: readonly MissingEvent[]): OwnerCounts {
  const counts = byOwner<readonly [number, number]>();
  for (const { owner } of events) counts[owner] = [(counts[owner]?.[0] ?? 0) + 1, 0];
  return counts;
}
