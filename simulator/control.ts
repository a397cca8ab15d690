import { randomBytes } from "node:crypto";
import { parseTimestamp } from "../src/query/instant.ts";
import type { Access } from "./access.ts";
import type { ClockState, SimulatorClock } from "./clock.ts";
import type { Events } from "./events.ts";
import type { Directory } from "./generator/directory.ts";
import type { Faults } from "./http/faults.ts";
import { Problem } from "./http/problem.ts";
import type { RequestRecord, Statistics, StatisticsReport } from "./http/statistics.ts";
import type { Parts } from "./management/router.ts";
import { createWorldControl, type WorldControl } from "./world-control.ts";

/** Everything that tests steer and look at; `/_control/…` does the same over HTTP. */
export interface Control {
  readonly clock: {
    read(): ClockState;
    /** Sets the clock to a time (RFC 3339 or milliseconds), or moves it on by so many milliseconds. */
    set(time: string | number): ClockState;
    advance(ms: number): ClockState;
    setSpeed(speed: number): ClockState;
    setSkew(ms: number): ClockState;
  };
  readonly faults: Pick<Faults, "set" | "add" | "clear" | "list">;
  /**
   * Adds events of your own. Strings and bytes are kept exactly; of objects, missing id, timestamp, service and
   * organization are filled in. `delayMs` is the indexing delay. The organization "provider" is the portal.
   */
  append(
    organization: string,
    events: readonly (string | Uint8Array | Readonly<Record<string, unknown>>)[],
    delayMs?: number,
  ): number;
  /**
   * Adds bytes that no JSON parser accepts (or that are no object) at a place of the time line. They are lost
   * when a simulator with a file is opened again.
   */
  appendMalformed(
    organization: string,
    text: string | Uint8Array,
    place: { readonly timestamp: string; readonly service?: string; readonly delayMs?: number },
  ): void;
  /** So many events of ordinary traffic at once; how many become visible when is up to the lateness. */
  burst(count: number): void;
  setLiveRate(eventsPerSecond: number): void;
  /** The exact bytes of every event that was ever visible; with `pending` also of those still to be indexed. */
  allEvents(filter?: { organization?: string; pending?: boolean }): Iterable<Uint8Array>;
  countEvents(filter?: { organization?: string; pending?: boolean }): number;
  statistics(): StatisticsReport;
  /** The latest requests, one record each. */
  requests(): readonly RequestRecord[];
  resetStatistics(): void;
  /** Replaces the administrator's key and returns the new one; the previous one is refused from now on. */
  resetKey(next?: string): string;
  /** Insights answers queries that include this organization with this status; null ends that. */
  refuseOrganization(organization: string, status: number | null): void;
  /** The organization's plan keeps so many days: older queries answer 402, until null lifts the limit. */
  limitHistory(organization: string, days: number | null): void;
  readonly world: WorldControl;
}

export interface ControlParts {
  readonly clock: SimulatorClock;
  readonly events: Events;
  readonly faults: Faults;
  readonly statistics: Statistics;
  readonly access: Access;
  readonly directory: Directory;
  readonly apiKey: string;
  readonly management: Parts;
}

export function createControl(parts: ControlParts): Control {
  const { clock, events, faults, statistics, access, directory } = parts;
  let { apiKey } = parts;

  function numberOf(organization: string): number {
    if (organization === "provider" || organization.toLowerCase() === directory.providerId) return 0;
    const tenant = directory.tenants.find(({ id }) => id === organization.toLowerCase());
    if (tenant === undefined) throw new Problem(404, "Organization ID not found");
    return tenant.number;
  }

  function* allEvents(filter: { organization?: string; pending?: boolean } = {}): Generator<Uint8Array> {
    events.advance();
    const { organization, ...rest } = filter;
    yield* events.visible(
      organization === undefined ? rest : { ...rest, organization: numberOf(organization) },
    );
  }

  return {
    clock: {
      read: clock.state,
      set(time) {
        const ms = typeof time === "number" ? time : Date.parse(time);
        if (!Number.isFinite(ms)) throw new Problem(400, "The clock takes RFC 3339 or milliseconds");
        clock.set(ms);
        return clock.state();
      },
      advance(ms) {
        clock.set(clock.now() + ms);
        return clock.state();
      },
      setSpeed(speed) {
        clock.setSpeed(speed);
        return clock.state();
      },
      setSkew(ms) {
        clock.setSkew(ms);
        return clock.state();
      },
    },
    faults,
    append(organization, list, delayMs = 0) {
      const number = numberOf(organization);
      for (const event of list) {
        const exact = typeof event === "string" || event instanceof Uint8Array;
        events.append(
          exact ? event : complete(event as Record<string, unknown>, organization),
          number,
          delayMs,
        );
      }
      return list.length;
    },
    appendMalformed(organization, text, { timestamp, service = "directory", delayMs = 0 }) {
      const instant = parseTimestamp(timestamp);
      if (instant === null) throw new Problem(400, "A malformed event needs a place: an RFC 3339 timestamp");
      events.appendMalformed(text, numberOf(organization), { instant, service, delayMs });
    },
    burst: events.burst,
    setLiveRate: events.setRate,
    allEvents,
    countEvents(filter) {
      let count = 0;
      for (const _ of allEvents(filter)) count++;
      return count;
    },
    statistics: statistics.read,
    requests: statistics.log,
    resetStatistics: statistics.reset,
    resetKey(next = randomBytes(20).toString("hex")) {
      access.resetKey(apiKey, next);
      apiKey = next;
      return next;
    },
    refuseOrganization: access.refuse,
    limitHistory: access.limitHistory,
    world: createWorldControl(parts.management),
  };

  function complete(event: Record<string, unknown>, organization: string): string {
    return JSON.stringify({
      id: randomBytes(12).toString("hex"),
      service: "directory",
      timestamp: new Date(clock.now()).toISOString(),
      organization: numberOf(organization) === 0 ? null : organization.toLowerCase(),
      ...event,
    });
  }
}
