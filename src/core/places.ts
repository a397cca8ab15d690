/** Where an unreadable event without a name is: between the readable events around it, half-open. */
export interface TimePlace {
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * Takes as many events as possible for the known ones: the same event has overlapping places, however the events around
 * it changed. So the rest are certainly others. Ranks come in order: as few as possible of a later one are taken.
 */
export function matchPlaces<Event extends TimePlace, Known extends TimePlace>(
  events: readonly Event[],
  ranks: readonly (readonly Known[])[],
): ReadonlyMap<Event, Known> {
  const knownOf = new Map<Event, Known>();
  const eventOf = new Map<Known, Event>();
  const all: Known[] = [];
  for (const rank of ranks) {
    all.push(...rank);
    // What a search that failed has tried leads nowhere for the next one either.
    let tried = new Set<Known>();
    for (const event of events) if (!knownOf.has(event) && isPlaced(event, tried)) tried = new Set();
  }
  return knownOf;

  /** Where another event has the only known one that fits, it is given another one. */
  function isPlaced(first: Event, tried: Set<Known>): boolean {
    const wantedBy = new Map<Known, Event>();
    const searching = [first];
    for (const event of searching)
      for (const known of all) {
        if (tried.has(known) || !mayBeSame(event, known)) continue;
        tried.add(known);
        wantedBy.set(known, event);
        const owner = eventOf.get(known);
        if (owner !== undefined) {
          searching.push(owner);
          continue;
        }
        for (let free: Known | undefined = known; free !== undefined; ) {
          const taker: Event = wantedBy.get(free)!;
          const left = knownOf.get(taker);
          knownOf.set(taker, free);
          eventOf.set(free, taker);
          free = left;
        }
        return true;
      }
    return false;
  }
}

/** Neighbours have the readable event between them in common, and nothing else. A time may show whole seconds. */
function mayBeSame(one: TimePlace, other: TimePlace): boolean {
  const fromMs = Math.max(one.fromMs, other.fromMs);
  const toMs = Math.min(one.toMs, other.toMs);
  const unitMs = fromMs % 1000 === 0 && toMs % 1000 === 0 ? 1000 : 1;
  const isWhole = [one, other].some((place) => place.fromMs === fromMs && place.toMs === toMs);
  return toMs - fromMs > (isWhole ? 0 : unitMs);
}
