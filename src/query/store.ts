import type { Instant } from "./instant.ts";
import type { SearchTerm } from "./search-term.ts";

/**
 * Events that a query runs over. A store belongs to one query: it is limited to the organizations that the
 * caller may see, and it is one snapshot, so that events which arrive meanwhile change nothing.
 */
export interface QueryStore<Event> {
  /**
   * The events of a selection, in the order (timestamp, then key), or in the opposite order. Services and
   * times must match exactly. `search` may be used to leave out events that cannot match; the predicate over
   * the event itself decides.
   */
  select(selection: Selection): Iterable<Event> | AsyncIterable<Event>;
  /** The events as parsed JSON, in the same order. */
  parse(events: readonly Event[]): readonly unknown[] | Promise<readonly unknown[]>;
  timeMs(event: Event): number;
  /** The event's place among events of one millisecond. It becomes part of the search_after token. */
  keyOf(event: Event): Uint8Array;
  /** The number of events, where the store knows it without a look at each; asked only without a search_term. */
  count?(selection: Selection): Promise<number>;
  /** The same by the start of steps of equal length in milliseconds, shifted by an offset; at most so many. */
  countByTime?(
    selection: Selection,
    stepMs: number,
    offsetMs: number,
    stepsMax: number,
  ): Promise<Map<number, number>>;
  /**
   * The most frequent values of a field, the others in the order of their text, where the store knows them without a
   * look at each event; undefined where it does not. Asked only without a search_term.
   */
  distinct?(
    selection: Selection,
    field: string,
    valuesMax: number,
  ): Promise<ReadonlyMap<string, number> | undefined>;
}

export interface Selection {
  /** The events' own service names; null means every one. */
  readonly services: readonly string[] | null;
  readonly from: Instant;
  /** Whether an event at exactly this time is included is the store's choice: the specification is silent. */
  readonly to: Instant | null;
  readonly descending: boolean;
  /** Only events beyond this place in the direction of the sort. */
  readonly after: EventPlace | null;
  readonly search: SearchTerm | null;
}

/** The place of an event in the order. */
export interface EventPlace {
  readonly ms: number;
  /** Null before the first event. */
  readonly key: Uint8Array | null;
}
