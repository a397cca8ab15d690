import { setImmediate } from "node:timers/promises";
import { Problem } from "../http/problem.ts";
import type { EventStore } from "../store/event-store.ts";
import { type Selection, select } from "../store/select.ts";
import type { Instant } from "../timestamps.ts";
import type { Query } from "./query.ts";
import type { TokenCodec, TokenPosition } from "./token.ts";

/** Where and when a query looks. */
export interface View {
  readonly store: EventStore;
  readonly organizations: readonly number[];
  readonly nowMs: number;
  readonly indexedUntil: number;
  readonly retentionMs: number;
  readonly endTimeInclusive: boolean;
}

export interface Page {
  readonly events: Uint32Array;
  readonly count: number;
  readonly token: string;
}

/** Candidates that are read and parsed together, between two turns of the event loop. */
const sliceEvents = 500;

export async function readPage(view: View, query: Query, tokens: TokenCodec): Promise<Page> {
  const after = query.searchAfter === undefined ? null : tokens.read(query.searchAfter, query.digest);
  const events = new Uint32Array(query.limit);
  let count = 0;
  const found = matching(view, query, after);
  // The common query has no search_term: a plain loop, without a turn of the microtask queue per event.
  if (Symbol.iterator in found) {
    for (const event of found) {
      events[count++] = event;
      if (count === query.limit) break;
    }
  } else {
    for await (const event of found) {
      events[count++] = event;
      if (count === query.limit) break;
    }
  }
  const last = count === 0 ? null : events[count - 1]!;
  const position =
    last === null ? (after ?? { event: null, ms: edge(query) }) : { event: last, ms: view.store.ms(last) };
  return { events, count, token: tokens.write(position, query.digest) };
}

/** Every event that the query matches, beyond the cursor. */
export function matching(
  view: View,
  query: Query,
  after: TokenPosition | null,
): Iterable<number> | AsyncIterable<number> {
  const candidates = select(view.store, selectionOf(view, query, after));
  return query.predicate === null ? candidates : filtered(view.store, candidates, query.predicate);
}

async function* filtered(
  store: EventStore,
  candidates: Iterable<number>,
  predicate: (event: unknown) => boolean,
): AsyncGenerator<number> {
  const slice = new Uint32Array(sliceEvents);
  let count = 0;
  function* matches(): Generator<number> {
    const events = JSON.parse(store.readArray(slice, count).toString()) as unknown[];
    for (const [index, event] of events.entries()) if (predicate(event)) yield slice[index]!;
  }
  for (const event of candidates) {
    slice[count++] = event;
    if (count < sliceEvents) continue;
    yield* matches();
    count = 0;
    await setImmediate();
  }
  yield* matches();
}

function selectionOf(view: View, query: Query, after: TokenPosition | null): Selection {
  const { store } = view;
  if (after?.event != null && after.event >= store.count()) throw new Problem(400, "Invalid search_after");
  const oldest: Instant = { ms: view.nowMs - view.retentionMs, ns: 0 };
  return {
    organizations: view.organizations,
    services:
      query.services === null ? null : new Set(query.services.map((name) => store.serviceNumber(name))),
    from: query.from.ms < oldest.ms ? oldest : query.from,
    to: query.to,
    toInclusive: view.endTimeInclusive,
    descending: query.descending,
    after: after?.event ?? null,
    indexedUntil: view.indexedUntil,
  };
}

function edge(query: Query): number {
  return query.descending ? (query.to ?? query.from).ms : query.from.ms;
}
