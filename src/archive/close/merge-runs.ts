/**
 * Merges sorted runs of rows into one order, a row at a time, so that the work is spread over the reading. The runs that
 * have rows left are a heap, with the one whose row is next on top.
 */
export function* mergeRuns(
  runs: readonly Uint32Array[],
  compare: (a: number, b: number) => number,
): Generator<number, void> {
  const heap = runs.filter(({ length }) => length > 0).map((rows) => ({ rows, at: 0 }));
  const isBefore = (a: number, b: number) =>
    compare(heap[a]!.rows[heap[a]!.at]!, heap[b]!.rows[heap[b]!.at]!) < 0;

  /** Moves a run down to its place. */
  function sink(from: number): void {
    for (let parent = from; ; ) {
      let first = parent;
      for (const child of [2 * parent + 1, 2 * parent + 2])
        if (child < heap.length && isBefore(child, first)) first = child;
      if (first === parent) return;
      [heap[parent], heap[first]] = [heap[first]!, heap[parent]!];
      parent = first;
    }
  }

  for (let at = (heap.length >> 1) - 1; at >= 0; at--) sink(at);
  while (heap.length > 0) {
    const top = heap[0]!;
    yield top.rows[top.at++]!;
    if (top.at === top.rows.length) {
      const last = heap.pop()!;
      if (heap.length > 0) heap[0] = last;
    }
    sink(0);
  }
}
