import { dayOf } from "../core/archive.ts";
import type { Clock } from "../core/clock.ts";
import { DAY_MS } from "../core/time.ts";
import type { ArchiveOperation } from "./archive-operations.ts";

/*
 * Compares this machine's clock with the service's, before an archive decides or signs anything by the time.
 *
 * A clock that is ahead would give up days that the service still has. A clock that is behind would close days again
 * whose closing is no longer remembered. Both would sign entries with a wrong time. The service's time is that of the
 * newest pass in the state. While the service is away, time that passes here counts too, at most an hour between
 * two looks, so a jump does not count.
 */
export interface ArchiveClock {
  /** Undefined when the clock can be trusted. `lastsMs`: how long it has been in doubt. */
  doubt(): { readonly error: Error; readonly lastsMs: number; readonly trustedMs: number } | undefined;
}

/** Asks the service for its time; undefined where no account gets an answer with a Date. */
export type AskTime = (signal: AbortSignal) => Promise<number | undefined>;

/**
 * Refuses an operation that would be signed with a wrong time, and gives it back as it is to be carried out. The
 * state's newest pass may be old because no process has run, so the service is asked before a clock is doubted.
 * Without an answer only `prune` is refused: a clock that is ahead would delete days too early, and nothing brings
 * them back. With `withoutService` the operator answers for the clock; it stays set only where that was needed, and
 * the log says so. An erasure up to today then ends with the day that the service has last said: a later end would
 * also keep out events that nobody ordered to erase.
 */
export async function refuseWrongTime(
  operation: ArchiveOperation,
  { doubt }: ArchiveClock,
  clock: Clock,
  ask: AskTime,
  signal: AbortSignal,
): Promise<ArchiveOperation> {
  // It signs nothing.
  if (operation.kind === "holds") return operation;
  const confirmed = operation.kind === "prune" ? { ...operation, withoutService: false } : operation;
  const doubted = doubt();
  if (doubted === undefined) return confirmed;
  const answeredMs = await ask(signal);
  if (answeredMs !== undefined && Math.abs(clock.now() - answeredMs) <= DOUBT_MS) return confirmed;
  if (answeredMs !== undefined) throw clockError(clock.now(), answeredMs);
  if (operation.kind === "prune" && operation.withoutService !== true)
    throw unconfirmedError(clock.now(), doubted.trustedMs);
  if (operation.kind !== "erase" || operation.event !== undefined) return operation;
  const today = dayOf(clock.now());
  const isUpToToday = (operation.to ?? today) === today && doubted.trustedMs < clock.now();
  return isUpToToday ? { ...operation, to: dayOf(doubted.trustedMs) } : operation;
}

const DOUBT_MS = DAY_MS / 2;
const STEP_MS_MAX = 3_600_000;

export function createArchiveClock(clock: Clock, confirmedMs: () => number | null): ArchiveClock {
  let seen:
    | { readonly localMs: number; readonly trustedMs: number; readonly confirmedMs: number }
    | undefined;
  let doubtSinceMs: number | undefined;
  return {
    doubt() {
      const localMs = clock.now();
      const confirmed = confirmedMs();
      if (confirmed === null) return undefined;
      const passedMs = seen === undefined ? 0 : Math.min(STEP_MS_MAX, Math.max(0, localMs - seen.localMs));
      // The windows of a time that was ahead are gone from the state: that time was wrong.
      const isWithdrawn =
        seen !== undefined && confirmed < seen.confirmedMs && seen.trustedMs > localMs + DOUBT_MS;
      const trustedMs = isWithdrawn ? confirmed : Math.max(confirmed, (seen?.trustedMs ?? 0) + passedMs);
      seen = { localMs, trustedMs, confirmedMs: confirmed };
      if (Math.abs(localMs - trustedMs) <= DOUBT_MS) {
        doubtSinceMs = undefined;
        return undefined;
      }
      // After a second jump the first one no longer says how long it lasts.
      if (doubtSinceMs === undefined || doubtSinceMs > localMs) doubtSinceMs = localMs;
      return { error: clockError(localMs, trustedMs), lastsMs: localMs - doubtSinceMs, trustedMs };
    },
  };
}

const text = (timeMs: number) => new Date(timeMs).toISOString();

function unconfirmedError(localMs: number, trustedMs: number): Error {
  return new Error(
    `This machine's clock says ${text(localMs)}, the service was last read at about ${text(trustedMs)}, and it does not answer now. A clock that is ahead would delete days too early, so nothing is pruned. Repeat the command when the service answers. If the service is gone and the clock is right, add --without-service: the log then says that nothing confirmed the clock.`,
  );
}

function clockError(localMs: number, trustedMs: number): Error {
  return new Error(
    `This machine's clock says ${text(localMs)}, but by the service's answers it is about ${text(trustedMs)}. No day is closed and nothing is signed until they agree within 12 hours: set the clock. If the clock is right, closing goes on with the next answer of the service.`,
  );
}
