import type { Clock } from "../core/clock.ts";
import type { Position } from "../core/position.ts";
import type { SinkState } from "../core/sink.ts";
import type { LeasedBatch } from "./records.ts";

/** A write that has begun, or a stretch without events for the sink. */
export interface Flight {
  /** Undefined: nothing is written up to `to`. */
  readonly batch: LeasedBatch | undefined;
  readonly to: Position;
}

/** A flight that has ended. */
export interface Landed extends Flight {
  readonly tookMs: number;
  readonly outcome: { readonly state: SinkState | undefined } | { readonly error: unknown };
}

/**
 * Writes that are in flight at once, in the order of their batches. They land in that order, so positions are
 * committed in that order, whichever ends first.
 */
export function createFlights(clock: Clock) {
  const flights: { readonly flight: Flight; readonly landed: Promise<Landed> }[] = [];
  let failed = 0;

  async function fly(flight: Flight, write: () => Promise<SinkState | undefined>): Promise<Landed> {
    const startedMs = clock.now();
    try {
      const state = await write();
      return { ...flight, tookMs: clock.now() - startedMs, outcome: { state } };
    } catch (error) {
      failed++;
      return { ...flight, tookMs: clock.now() - startedMs, outcome: { error } };
    }
  }

  async function land(): Promise<Landed | undefined> {
    const [oldest] = flights;
    if (oldest === undefined) return undefined;
    const landed = await oldest.landed;
    flights.shift();
    if ("error" in landed.outcome) failed--;
    return landed;
  }

  return {
    get size() {
      return flights.length;
    },
    /** The end of the newest batch. */
    get front(): Position | undefined {
      return flights.at(-1)?.flight.to;
    },
    /** True while one that has not landed has ended with an error: none may begin then. */
    get hasFailed() {
      return failed > 0;
    },
    begin(flight: Flight, write: () => Promise<SinkState | undefined>): void {
      flights.push({ flight, landed: fly(flight, write) });
    },
    /** Waits for the oldest one and takes it out; undefined when there is none. */
    land,
    /** Waits for the oldest one, at most until `other` ends; true: it has ended. */
    isOldestDone: (other: Promise<unknown>): Promise<boolean> =>
      Promise.race([flights[0]!.landed.then(() => true), other.then(() => false)]),
  };
}

export type Flights = ReturnType<typeof createFlights>;
