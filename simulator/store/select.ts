import type { Instant } from "../../src/query/instant.ts";
import type { EventStore } from "./event-store.ts";
import type { SortedIndex } from "./sorted-index.ts";

export interface Selection {
  /** Numbers of the organizations; 0 is the provider's portal. */
  readonly organizations: readonly number[];
  /** Numbers of the services; null means every one. */
  readonly services: ReadonlySet<number> | null;
  readonly from: Instant;
  readonly to: Instant | null;
  readonly toInclusive: boolean;
  readonly descending: boolean;
  /** Only events beyond this one in the direction of the sort; null starts at the edge. */
  readonly after: number | null;
  /** Events that become visible later than this do not exist yet. */
  readonly indexedUntil: number;
}

/** A stretch of one index: positions low ≤ p < high. */
interface Stretch {
  readonly index: SortedIndex;
  low: number;
  high: number;
}

/** Merging pays when the wanted organizations hold less than this share of all events. */
const mergeBelow = 1 / 8;

/** The numbers of the events that the selection holds, in its order. */
export function* select(store: EventStore, selection: Selection): Generator<number> {
  const { organizations, services, indexedUntil } = selection;
  const matches = (event: number) =>
    store.visibleAt(event) <= indexedUntil && (services === null || services.has(store.serviceOf(event)));
  if (organizations.length === 1) {
    const stretch = cut(store, store.ofOrganization(organizations[0]!), selection);
    for (const event of walk(stretch, selection.descending)) if (matches(event)) yield event;
    return;
  }
  const held = organizations.reduce((sum, number) => sum + store.ofOrganization(number).size(), 0);
  if (held < store.all.size() * mergeBelow) {
    const parts = organizations.map((number) => cut(store, store.ofOrganization(number), selection));
    for (const event of merge(store, parts, selection.descending)) if (matches(event)) yield event;
    return;
  }
  const whole = cut(store, store.all, selection);
  const asked = new Set(organizations);
  for (const event of walk(whole, selection.descending)) {
    if (asked.has(store.organizationOf(event)) && matches(event)) yield event;
  }
}

function cut(store: EventStore, index: SortedIndex, selection: Selection): Stretch {
  const { from, to, toInclusive, after, descending } = selection;
  let low = index.partition((event) => store.compareInstant(event, from) < 0);
  let high = index.size();
  if (to !== null) {
    high = index.partition((event) => {
      const order = store.compareInstant(event, to);
      return order < 0 || (toInclusive && order === 0);
    });
  }
  if (after !== null && !descending) {
    low = Math.max(
      low,
      index.partition((event) => store.compare(event, after) <= 0),
    );
  }
  if (after !== null && descending) {
    high = Math.min(
      high,
      index.partition((event) => store.compare(event, after) < 0),
    );
  }
  return { index, low, high: Math.max(low, high) };
}

function* walk(stretch: Stretch, descending: boolean): Generator<number> {
  if (descending) for (let p = stretch.high - 1; p >= stretch.low; p--) yield stretch.index.at(p);
  else for (let p = stretch.low; p < stretch.high; p++) yield stretch.index.at(p);
}

/** Merges the stretches with a binary heap of their heads. */
function* merge(store: EventStore, parts: readonly Stretch[], descending: boolean): Generator<number> {
  const head = (part: Stretch) => part.index.at(descending ? part.high - 1 : part.low);
  const earlier = (a: Stretch, b: Stretch) => {
    const order = store.compare(head(a), head(b));
    return descending ? order > 0 : order < 0;
  };
  const heap = parts.filter((part) => part.low < part.high);
  for (let i = (heap.length >> 1) - 1; i >= 0; i--) sink(heap, i, earlier);
  while (heap.length > 0) {
    const first = heap[0]!;
    yield head(first);
    if (descending) first.high--;
    else first.low++;
    if (first.low >= first.high) {
      const last = heap.pop()!;
      if (heap.length === 0) return;
      heap[0] = last;
    }
    sink(heap, 0, earlier);
  }
}

export function sink<T>(heap: T[], start: number, earlier: (a: T, b: T) => boolean): void {
  for (let parent = start; ; ) {
    let least = parent;
    for (let child = parent * 2 + 1; child <= parent * 2 + 2 && child < heap.length; child++) {
      if (earlier(heap[child]!, heap[least]!)) least = child;
    }
    if (least === parent) return;
    [heap[parent], heap[least]] = [heap[least]!, heap[parent]!];
    parent = least;
  }
}
