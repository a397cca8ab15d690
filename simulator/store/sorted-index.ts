/** Event numbers in the order of their timestamps. Events mostly arrive in order: adding one is then an append. */
export interface SortedIndex {
  add(event: number): void;
  size(): number;
  at(position: number): number;
  /** The first position for which `before(event)` is false. */
  partition(before: (event: number) => boolean): number;
}

export function createSortedIndex(compare: (a: number, b: number) => number): SortedIndex {
  let events = new Uint32Array(16);
  let count = 0;

  function partition(before: (event: number) => boolean): number {
    let [low, high] = [0, count];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (before(events[middle]!)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  return {
    add(event) {
      if (count === events.length) {
        const grown = new Uint32Array(count * 2);
        grown.set(events);
        events = grown;
      }
      if (count === 0 || compare(events[count - 1]!, event) < 0) {
        events[count++] = event;
        return;
      }
      const position = partition((other) => compare(other, event) < 0);
      events.copyWithin(position + 1, position, count++);
      events[position] = event;
    },
    size: () => count,
    at: (position) => events[position]!,
    partition,
  };
}
