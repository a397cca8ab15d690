import { QueryError } from "../../src/query/errors.ts";
import type { EventPlace, QueryStore } from "../../src/query/store.ts";
import type { EventStore } from "../store/event-store.ts";
import { select } from "../store/select.ts";

/** The scope of one query. */
export interface View {
  readonly store: EventStore;
  readonly organizations: readonly number[];
  readonly nowMs: number;
  readonly indexedUntil: number;
  readonly retentionMs: number;
  readonly endTimeInclusive: boolean;
}

/** Bytes of an event's number in a token: with them a token is as long as the ones that are seen in the field. */
const keyBytes = 5;

/** The simulator's events as the query language reads them; an event is its number in the store. */
export function createSnapshot(view: View): QueryStore<number> {
  const { store } = view;

  function numberAt(after: EventPlace | null): number | null {
    if (after === null || after.key === null) return null;
    const event =
      after.key.length === keyBytes ? Buffer.from(after.key).readUIntBE(0, keyBytes) : store.count();
    if (event >= store.count()) throw new QueryError(400, "Invalid search_after");
    return event;
  }

  return {
    select({ services, from, to, descending, after }) {
      const oldestMs = view.nowMs - view.retentionMs;
      return select(store, {
        organizations: view.organizations,
        services: services === null ? null : new Set(services.map((name) => store.serviceNumber(name))),
        from: from.ms < oldestMs ? { ms: oldestMs, ns: 0 } : from,
        to,
        toInclusive: view.endTimeInclusive,
        descending,
        after: numberAt(after),
        indexedUntil: view.indexedUntil,
      });
    },
    parse(events) {
      try {
        return JSON.parse(store.readArray(Uint32Array.from(events), events.length).toString()) as unknown[];
      } catch {
        // One of them is malformed on purpose: it matches nothing, the others are parsed one by one.
        return events.map((event) => parseOne(store.read(event)));
      }
    },
    timeMs: (event) => store.ms(event),
    keyOf(event) {
      const key = Buffer.alloc(keyBytes);
      key.writeUIntBE(event, 0, keyBytes);
      return key;
    },
  };
}

export function parseOne(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
