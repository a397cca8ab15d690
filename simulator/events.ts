import { type Instant, parseTimestamp } from "../src/query/instant.ts";
import type { SimulatorClock } from "./clock.ts";
import type { Directory } from "./generator/directory.ts";
import { writeHistory } from "./generator/history.ts";
import { createLiveTraffic } from "./generator/live.ts";
import { createSessionStarter } from "./generator/sessions.ts";
import { createTraffic } from "./generator/traffic.ts";
import { Problem } from "./http/problem.ts";
import type { Settings } from "./options.ts";
import { createRandom } from "./random.ts";
import { createEventStore, type EventStore } from "./store/event-store.ts";

/** All events of the world: history, live traffic, and those that changes produce. */
export interface Events {
  readonly store: EventStore;
  /** Brings live traffic up to the clock. */
  advance(): void;
  /** So many events of ordinary traffic at once. */
  burst(count: number): void;
  setRate(eventsPerSecond: number): void;
  /** Adds one event unchanged. Its own timestamp and service count; queries of the organization find it. */
  append(text: string | Uint8Array, organization: number, delayMs: number): void;
  /** Adds bytes that need not be JSON, at a place of the time line that is given with them. */
  appendMalformed(text: string | Uint8Array, organization: number, facts: MalformedFacts): void;
  /** The bytes of everything that was visible at any time. */
  visible(filter: { organization?: number; pending?: boolean }): Generator<Uint8Array>;
}

export interface MalformedFacts {
  readonly instant: Instant;
  readonly service: string;
  readonly delayMs: number;
}

/** Called with events that are not part of the history, so that they outlive the process. */
export type Keep = (events: readonly KeptEvent[]) => void;

export interface KeptEvent {
  readonly text: Uint8Array;
  readonly organization: number;
  readonly visibleAt: number;
}

export interface EventsParts {
  readonly settings: Settings;
  readonly directory: Directory;
  readonly clock: SimulatorClock;
  /** Where the history ends; the same one as in earlier runs of the same world. */
  readonly historyEndMs: number;
  /** How often this world was opened before: each run has live traffic of its own. */
  readonly run: number;
  readonly keep: Keep | null;
  readonly kept: Iterable<KeptEvent>;
}

const futureMsMax = 600_000;

export function createEvents(parts: EventsParts): Events {
  const { settings, directory, clock, historyEndMs, keep } = parts;
  const store = createEventStore();
  const random = createRandom(settings.seed, 1);
  const history = createTraffic(random, store, createSessionStarter(random, directory), settings);
  const startMs = historyEndMs - settings.days * 86_400_000;
  writeHistory(history, random, {
    count: settings.events,
    startMs,
    endMs: historyEndMs,
    isPortal: (event) => store.organizationOf(event) === directory.provider.number,
  });
  for (const event of parts.kept) addRaw(store, event.text, event.organization, event.visibleAt);
  const liveRandom = createRandom(settings.seed, 3, parts.run);
  const traffic = createTraffic(liveRandom, store, createSessionStarter(liveRandom, directory), settings);
  const live = createLiveTraffic(traffic, liveRandom, {
    startMs: parts.run === 0 ? historyEndMs : Math.max(historyEndMs, clock.now()),
    eventsPerSecond: settings.liveEventsPerSecond,
    futureMsMax,
  });

  function kept(numbers: readonly number[]): void {
    if (keep === null || numbers.length === 0) return;
    const texts = numbers.map((event) => ({
      text: store.read(event),
      organization: store.organizationOf(event),
      visibleAt: store.visibleAt(event),
    }));
    keep(texts);
  }

  return {
    store,
    advance: () => kept(live.advance(clock.now())),
    burst: (count) => kept(live.burst(count, clock.now())),
    setRate: (eventsPerSecond) => live.setRate(eventsPerSecond, clock.now()),
    append(text, organization, delayMs) {
      kept([addRaw(store, text, organization, clock.now() + delayMs)]);
    },
    appendMalformed(text, organization, { instant, service, delayMs }) {
      const visibleAt = clock.now() + delayMs;
      store.add(text, { ...instant, visibleAt, organization, service: store.serviceNumber(service) });
    },
    *visible(filter) {
      const until = filter.pending === true ? Number.POSITIVE_INFINITY : clock.indexedUntil();
      for (let event = 0; event < store.count(); event++) {
        if (store.visibleAt(event) > until) continue;
        if (filter.organization !== undefined && store.organizationOf(event) !== filter.organization)
          continue;
        yield store.read(event);
      }
    },
  };
}

/** Adds an event of foreign making: its timestamp and service are read from its own JSON. */
function addRaw(
  store: EventStore,
  text: string | Uint8Array,
  organization: number,
  visibleAt: number,
): number {
  const event = parse(text);
  const instant = typeof event.timestamp === "string" ? parseTimestamp(event.timestamp) : null;
  if (instant === null) throw new Problem(400, "An event needs a timestamp in RFC 3339");
  const service = typeof event.service === "string" ? event.service : "";
  return store.add(text, { ...instant, visibleAt, organization, service: store.serviceNumber(service) });
}

function parse(text: string | Uint8Array): Record<string, unknown> {
  const json = typeof text === "string" ? text : Buffer.from(text).toString();
  try {
    const event: unknown = JSON.parse(json);
    if (typeof event === "object" && event !== null && !Array.isArray(event))
      return event as Record<string, unknown>;
  } catch {
    // Falls through to the one message for everything that is no JSON object.
  }
  throw new Problem(400, "An event must be a JSON object");
}
