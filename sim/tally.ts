/** How often each kind of trouble really happened, so that a campaign can show that none was left out. */
export interface Tally {
  hit(kind: string): void;
  readonly counts: Readonly<Record<string, number>>;
}

export function createTally(): Tally {
  const counts: Record<string, number> = {};
  return {
    hit(kind) {
      counts[kind] = (counts[kind] ?? 0) + 1;
    },
    counts,
  };
}

/** Adds the counts of one life to those of a campaign. */
export function addCounts(total: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [kind, count] of Object.entries(counts)) total[kind] = (total[kind] ?? 0) + count;
}
