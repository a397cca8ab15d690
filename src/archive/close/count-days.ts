import type { Claim, ClosableDay } from "../../core/archive.ts";
import type { Clock } from "../../core/clock.ts";
import { DAY_MS } from "../../core/time.ts";

/** Asks the service how many events an organization has in a day. Undefined where it cannot tell. */
export type CountEvents = (claim: Claim, day: string, signal: AbortSignal) => Promise<number | undefined>;

/** The service refuses count queries for now: the turn goes on without further ones. */
export class NoCountsError extends Error {}

const AT_ONCE = 4;
/** Closing does not wait longer than this for counts. */
const TURN_MS = 60_000;

/**
 * Adds the service's own count to claims before they are closed (A10). Counts are extra requests, one for each
 * organization and day, so their number is bounded: a first backfill of thousands of organizations closes most of
 * its days without one.
 */
export function createDayCounter(count: CountEvents, perDayMax: number, clock: Clock) {
  let sinceMs = Number.NEGATIVE_INFINITY;
  let left = 0;

  async function countClaims(claims: Map<Claim, string>, signal: AbortSignal): Promise<Map<Claim, number>> {
    const counted = new Map<Claim, number>();
    const endMs = clock.now() + TURN_MS;
    const queue = claims.entries();
    let isStopped = false;
    const work = async () => {
      for (const [claim, day] of queue) {
        if (isStopped || left <= 0 || clock.now() >= endMs) return;
        left--;
        try {
          const found = await count(claim, day, signal);
          if (found !== undefined) counted.set(claim, found);
        } catch (error) {
          signal.throwIfAborted();
          if (!(error instanceof NoCountsError)) throw error;
          isStopped = true;
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return counted;
  }

  return async (days: readonly ClosableDay[], signal: AbortSignal): Promise<ClosableDay[]> => {
    if (clock.now() - sinceMs >= DAY_MS) {
      sinceMs = clock.now();
      left = perDayMax;
    }
    const claims = new Map<Claim, string>();
    for (const { kind, day, organizations } of days)
      for (const claim of organizations)
        if (kind === "day" && claim.missing.length === 0) claims.set(claim, day);
    const counted = await countClaims(claims, signal);
    return days.map((day) => ({
      ...day,
      organizations: day.organizations.map((claim) => ({ ...claim, counted: counted.get(claim) ?? null })),
    }));
  };
}
