import { setImmediate } from "node:timers/promises";
import type { Query } from "./parse-query.ts";
import type { Predicate } from "./predicate.ts";
import type { EventPlace, QueryStore, Selection } from "./store.ts";
import type { TokenCodec } from "./token.ts";

export interface QueryPage<Event> {
  readonly events: readonly Event[];
  /** The value of X-Search_after. */
  readonly token: string;
}

/** Candidates that are parsed together. The event loop gets a turn after each slice. */
const SLICE_EVENTS = 500;

export async function readPage<Event>(
  store: QueryStore<Event>,
  query: Query,
  tokens: TokenCodec,
): Promise<QueryPage<Event>> {
  const after = query.searchAfter === undefined ? null : tokens.read(query.searchAfter, query.digest);
  const events: Event[] = [];
  const found = matching(store, query, after);
  // Most queries have no search_term: a synchronous loop, without a microtask per event.
  if (Symbol.iterator in found) {
    for (const event of found) if (events.push(event) === query.limit) break;
  } else {
    for await (const event of found) if (events.push(event) === query.limit) break;
  }
  const last = events.at(-1);
  const place =
    last === undefined
      ? (after ?? { ms: edgeMs(query), key: null })
      : { ms: store.timeMs(last), key: store.keyOf(last) };
  return { events, token: tokens.write(place, query.digest) };
}

/** Every event that the query matches, beyond the place of the token. */
export function matching<Event>(
  store: QueryStore<Event>,
  query: Query,
  after: EventPlace | null,
): Iterable<Event> | AsyncIterable<Event> {
  const { predicate } = query;
  const candidates = store.select(selectionOf(query, after));
  return predicate === null ? candidates : filtered(store, candidates, predicate);
}

export function selectionOf(query: Query, after: EventPlace | null): Selection {
  const { services, from, to, descending, search } = query;
  return { services, from, to, descending, after, search };
}

async function* filtered<Event>(
  store: QueryStore<Event>,
  candidates: Iterable<Event> | AsyncIterable<Event>,
  predicate: Predicate,
): AsyncGenerator<Event> {
  for await (const slice of slices(candidates)) {
    const parsed = await store.parse(slice);
    for (const [index, event] of slice.entries()) if (predicate(parsed[index])) yield event;
    await setImmediate();
  }
}

export async function* slices<Event>(
  events: Iterable<Event> | AsyncIterable<Event>,
): AsyncGenerator<readonly Event[]> {
  let slice: Event[] = [];
  if (Symbol.iterator in events) {
    for (const event of events) {
      if (slice.push(event) < SLICE_EVENTS) continue;
      yield slice;
      slice = [];
    }
  } else {
    for await (const event of events) {
      if (slice.push(event) < SLICE_EVENTS) continue;
      yield slice;
      slice = [];
    }
  }
  if (slice.length > 0) yield slice;
}

function edgeMs(query: Query): number {
  return query.descending ? (query.to ?? query.from).ms : query.from.ms;
}
