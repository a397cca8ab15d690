/*
 * Several windows may have read the same events: the services of an account were changed, or two accounts read one
 * organization. Each window's counts are right, and their sum is too high. Windows of one owner that share time, and
 * may share events, are an overlap group:
 *
 *   1. Held: the identities of its time, counted once. That is exact where nothing else was read: no window outside the
 *      group is there, or all of them ask for the same services.
 *   2. In the rest of its time, the query that certainly holds the most events there counts, and the others do not. More
 *      may be held.
 *   3. The service's count is as far from what is held as in the query that lacks the most. So many events are short.
 *
 * `all` may leave out newer services, so its windows only may share events with those of a service that has a name.
 */

export interface BothCounts {
  readonly apiCount: number;
  readonly heldCount: number;
}

/** One owner's part of a window. */
export interface OwnerWindow {
  readonly fromMs: number;
  readonly toMs: number;
  /** The name of its query: windows of one query share no time. */
  readonly query: string;
  readonly services: readonly string[];
  /** null: not closed, or not counted. */
  readonly counts: BothCounts | null;
}

/** What the sum over a group's windows has too much. */
export interface Excess extends BothCounts {
  /** Of the events that windows lack: those that the windows of several queries lack. */
  readonly short: number;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Finds the groups of one owner; windows come in the order of their beginnings. */
export function createOverlapGroups(
  countHeld: (fromMs: number, toMs: number) => number,
  found: (excess: Excess) => void,
) {
  // Windows that are connected by the time they share, whatever they ask for.
  let run: OwnerWindow[] = [];
  let endMs = Number.NEGATIVE_INFINITY;

  function flush(): void {
    for (const group of groupsIn(run)) if (group.length > 1) found(excessOf(group, run, countHeld));
    run = [];
  }

  return {
    add(window: OwnerWindow): void {
      if (window.fromMs >= endMs) flush();
      run.push(window);
      endMs = Math.max(endMs, window.toMs);
    },
    end: flush,
  };
}

type Counted = OwnerWindow & { readonly counts: BothCounts };

export function mayShareEvents(
  a: Pick<OwnerWindow, "query" | "services">,
  b: Pick<OwnerWindow, "query" | "services">,
): boolean {
  if (a.query === b.query) return false;
  return (
    [a, b].some(({ services }) => services.includes("all")) ||
    a.services.some((service) => b.services.includes(service))
  );
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((service) => b.includes(service));
}

interface Group {
  readonly windows: Counted[];
  /** Those that reach beyond the beginning of the newest window. */
  active: Counted[];
}

/** Windows without a partner are alone in theirs. */
function groupsIn(run: readonly OwnerWindow[]): (readonly Counted[])[] {
  const groups = new Set<Group>();
  let open: Group[] = [];
  for (const window of run) {
    if (!isCounted(window)) continue;
    for (const group of open) group.active = group.active.filter(({ toMs }) => toMs > window.fromMs);
    open = open.filter(({ active }) => active.length > 0);
    const [first, ...more] = open.filter(({ active }) =>
      active.some((other) => mayShareEvents(other, window)),
    );
    const group = first ?? { windows: [], active: [] };
    for (const other of more) {
      group.windows.push(...other.windows);
      group.active.push(...other.active);
      groups.delete(other);
    }
    group.windows.push(window);
    group.active.push(window);
    groups.add(group);
    open = [...open.filter((other) => other !== group && !more.includes(other)), group];
  }
  return [...groups].map(({ windows }) => windows);
}

function isCounted(window: OwnerWindow): window is Counted {
  return window.counts !== null;
}

function excessOf(
  group: readonly Counted[],
  run: readonly OwnerWindow[],
  countHeld: (fromMs: number, toMs: number) => number,
): Excess {
  const stretches = stretchesOf(group);
  const exact = without(stretches, stretchesOf(othersIn(group, run)));
  const byQuery = [...windowsByQuery(group).values()];
  const queries = byQuery.map((windows) => sumOf(windows.map(({ counts }) => counts)));
  const all = sumOf(queries);
  // Also those whose identities are forgotten because they are old: the counts of their windows are not.
  const elsewhere = byQuery.map(
    (windows, at) => queries[at]!.heldCount - identitiesIn(common(exact, stretchesOf(windows))),
  );
  const heldCount = Math.min(all.heldCount, identitiesIn(exact) + Math.max(0, ...elsewhere));
  const lacking = Math.max(...queries.map((query) => query.apiCount - query.heldCount));
  const apiMin = Math.max(...queries.map(({ apiCount }) => apiCount));
  const shortOfQueries = byQuery.map((windows) => shortIn(windows.map(({ counts }) => counts)));
  return {
    fromMs: stretches[0]!.fromMs,
    toMs: stretches.at(-1)!.toMs,
    apiCount: all.apiCount - Math.min(all.apiCount, Math.max(apiMin, heldCount + lacking)),
    heldCount: all.heldCount - heldCount,
    short: shortOfQueries.reduce((sum, short) => sum + short, 0) - Math.max(...shortOfQueries),
  };

  function identitiesIn(list: readonly TimeSpan[]): number {
    return list.reduce((sum, { fromMs, toMs }) => sum + countHeld(fromMs, toMs), 0);
  }
}

/** Windows beside the group's: identities of their time may be of events that no window of the group has read. */
function othersIn(group: readonly Counted[], run: readonly OwnerWindow[]): readonly OwnerWindow[] {
  const [first] = group;
  const own = new Set<OwnerWindow>(group);
  const isUniform = group.every(({ services }) => isSame(services, first!.services));
  return run.filter((other) => !own.has(other) && !(isUniform && isSame(other.services, first!.services)));
}

function windowsByQuery(windows: readonly Counted[]): ReadonlyMap<string, readonly Counted[]> {
  const queries = new Map<string, Counted[]>();
  for (const window of windows) {
    const list = queries.get(window.query);
    if (list === undefined) queries.set(window.query, [window]);
    else list.push(window);
  }
  return queries;
}

/** How many events the windows lack; one that holds more than the service shows makes up for no other. */
export function shortIn(list: readonly BothCounts[]): number {
  return list.reduce((sum, { apiCount, heldCount }) => sum + Math.max(0, apiCount - heldCount), 0);
}

function sumOf(list: readonly BothCounts[]): BothCounts {
  return {
    apiCount: list.reduce((sum, { apiCount }) => sum + apiCount, 0),
    heldCount: list.reduce((sum, { heldCount }) => sum + heldCount, 0),
  };
}

interface TimeSpan {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The time of the windows, each part once. */
function stretchesOf(windows: readonly TimeSpan[]): TimeSpan[] {
  const stretches: { fromMs: number; toMs: number }[] = [];
  for (const { fromMs, toMs } of [...windows].sort((a, b) => a.fromMs - b.fromMs)) {
    const last = stretches.at(-1);
    if (last !== undefined && fromMs <= last.toMs) last.toMs = Math.max(last.toMs, toMs);
    else stretches.push({ fromMs, toMs });
  }
  return stretches;
}

function without(stretches: readonly TimeSpan[], others: readonly TimeSpan[]): readonly TimeSpan[] {
  return others.reduce<readonly TimeSpan[]>(
    (left, other) =>
      left.flatMap(({ fromMs, toMs }) =>
        [
          { fromMs, toMs: Math.min(toMs, other.fromMs) },
          { fromMs: Math.max(fromMs, other.toMs), toMs },
        ].filter((part) => part.toMs > part.fromMs),
      ),
    stretches,
  );
}

function common(stretches: readonly TimeSpan[], others: readonly TimeSpan[]): readonly TimeSpan[] {
  return without(stretches, without(stretches, others));
}
