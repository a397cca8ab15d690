import type { HeldPage, HeldPart, HoldingsSnapshot } from "../../core/holdings.ts";
import { type BuildContext, buildPages, buildPart } from "./build.ts";
import type { IndexFile } from "./catalog.ts";

/** The files of one snapshot. `pages` are the files of open pages, whose rows may be closed by now. */
export interface IndexedSnapshot {
  readonly snapshot: HoldingsSnapshot;
  readonly parts: readonly IndexFile[];
  readonly pages: readonly IndexFile[];
}

export interface SyncProgress {
  readonly done: number;
  readonly total: number;
  readonly rows: number;
}

/** Pages are indexed in groups of at least so many events; the rest in smaller groups, the newest one anew each time. */
const LARGE_GROUP_EVENTS = 40_000;
const SMALL_GROUP_EVENTS = 4000;
const ATTEMPTS = 5;

export function partName({ number, key }: HeldPart): string {
  return `part-${number}-${key.slice(0, 16)}`;
}

/** Brings the index up to the newest snapshot: what is missing or damaged is made, what is superfluous removed. */
export async function syncIndex(
  context: BuildContext,
  signal: AbortSignal,
  onProgress: (progress: SyncProgress) => void,
): Promise<IndexedSnapshot> {
  for (let attempt = 1; ; attempt++) {
    const snapshot = await context.holdings.snapshot();
    const parts = await syncParts(context, snapshot.parts, signal, onProgress);
    const pages = parts && (await syncPages(context, snapshot, signal));
    if (pages === undefined && attempt < ATTEMPTS) continue;
    if (pages === undefined)
      throw new Error("What is held changes faster than it can be indexed: search again in a moment.");
    context.catalog.keep(new Set([...parts!, ...pages].map(({ name }) => name)));
    return { snapshot, parts: parts!, pages };
  }
}

/** Undefined when a part was replaced before it was read. */
async function syncParts(
  context: BuildContext,
  parts: readonly HeldPart[],
  signal: AbortSignal,
  onProgress: (progress: SyncProgress) => void,
): Promise<IndexFile[] | undefined> {
  const found = new Map<HeldPart, IndexFile>();
  for (const part of parts) {
    signal.throwIfAborted();
    const file = await context.catalog.find(partName(part));
    if (file !== undefined) found.set(part, file);
  }
  const missing = parts.filter((part) => !found.has(part));
  const progress = { done: 0, total: missing.length, rows: 0 };
  for (const part of missing) {
    const file = await buildHeld(context, part, signal);
    if (file === undefined) return undefined;
    found.set(part, file);
    progress.done++;
    progress.rows += file.rows;
    onProgress({ ...progress });
  }
  return parts.map((part) => found.get(part)!);
}

async function buildHeld(
  context: BuildContext,
  part: HeldPart,
  signal: AbortSignal,
): Promise<IndexFile | undefined> {
  try {
    return await buildPart(context, partName(part), part, signal);
  } catch (error) {
    signal.throwIfAborted();
    // An erasure or pruning may have replaced its files since the snapshot.
    const { parts } = await context.holdings.snapshot();
    if (parts.some(({ key }) => key === part.key)) throw error;
    return undefined;
  }
}

/** Undefined when a page was trimmed before it was read. */
async function syncPages(
  context: BuildContext,
  snapshot: HoldingsSnapshot,
  signal: AbortSignal,
): Promise<IndexFile[] | undefined> {
  const kept = await keptGroups(context, snapshot);
  const files = kept.map(({ file }) => file);
  const isCovered = (number: number) => kept.some(({ first, last }) => number >= first && number <= last);
  for (const group of pageGroupsOf(snapshot.pages.filter(({ number }) => !isCovered(number)))) {
    const [first, last] = [group[0]!, group.at(-1)!];
    const name = `pages-${first.number}-${last.number}-${last.key.slice(0, 16)}-${snapshot.erasures}`;
    // The newest group is small and made anew when a page was added, but not for every query.
    const file = (await context.catalog.find(name)) ?? (await buildPages(context, name, group, signal));
    if (file === undefined) return undefined;
    files.push(file);
  }
  return files;
}

interface Group {
  readonly first: number;
  readonly last: number;
  readonly file: IndexFile;
}

/**
 * Groups of an earlier look that cover open pages. A page's key covers all pages before it, so the key of the last
 * one says whether the group is of this journal. Small groups are given up once they would make a large one.
 */
async function keptGroups({ catalog, holdings }: BuildContext, snapshot: HoldingsSnapshot): Promise<Group[]> {
  const groups: Group[] = [];
  for (const name of catalog.names("pages-")) {
    const [, first, last, key, erasures] = /^pages-(\d+)-(\d+)-([^-]*)-(.*)$/.exec(name) ?? [];
    const group = { first: Number(first), last: Number(last) };
    const isOpen = snapshot.pages.some(({ number }) => number >= group.first && number <= group.last);
    if (!isOpen || erasures !== snapshot.erasures || holdings.pageKey(group.last)?.slice(0, 16) !== key)
      continue;
    const overlaps = groups.some((other) => group.first <= other.last && other.first <= group.last);
    const file = overlaps ? undefined : await catalog.find(name);
    if (file !== undefined && file.rows >= SMALL_GROUP_EVENTS) groups.push({ ...group, file });
  }
  const isSmall = ({ file }: Group) => file.rows < LARGE_GROUP_EVENTS;
  const smallRows = groups.filter(isSmall).reduce((sum, { file }) => sum + file.rows, 0);
  return smallRows < LARGE_GROUP_EVENTS ? groups : groups.filter((group) => !isSmall(group));
}

/** Large groups first, so that they stay the same while pages are added. */
function pageGroupsOf(pages: readonly HeldPage[]): HeldPage[][] {
  const [large, rest] = cut(pages, LARGE_GROUP_EVENTS);
  const [small, tail] = cut(rest, SMALL_GROUP_EVENTS);
  return [...large, ...small, ...(tail.length > 0 ? [tail] : [])];
}

/** Groups of consecutive pages with at least so many events, and the pages that remain. */
function cut(pages: readonly HeldPage[], events: number): [HeldPage[][], HeldPage[]] {
  const groups: HeldPage[][] = [];
  let group: HeldPage[] = [];
  let held = 0;
  for (const page of pages) {
    group.push(page);
    held += page.events;
    if (held < events) continue;
    groups.push(group);
    group = [];
    held = 0;
  }
  return [groups, group];
}
