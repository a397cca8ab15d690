import type { Clock } from "../../core/clock.ts";
import type { LiveView } from "../../core/view.ts";
import type { State } from "../database.ts";

/** Older values are not current to a command beside the running process. */
const CURRENT_MS = 30_000;

interface StoredLive {
  readonly storedMs: number;
  readonly startedMs: number;
  readonly alarms: ReturnType<LiveView["alarms"]>;
  readonly accounts: readonly (Omit<ReturnType<LiveView["accounts"]>[number], "pace"> & {
    readonly pace: Omit<ReturnType<LiveView["accounts"]>[number]["pace"], "rate"> & {
      readonly rate: number | null;
    };
  })[];
  readonly deliveries: ReturnType<LiveView["deliveries"]>;
  readonly rates: ReturnType<LiveView["rates"]>;
}

/** The last two minutes are enough for a command; the page asks the process itself. */
const BUCKETS_STORED = 24;

/** Leaves what only this process knows where `tidemark status` finds it; to be called every few seconds. */
export async function storeLive(db: State, live: LiveView, nowMs: number): Promise<void> {
  const rates = live.rates();
  const left = Math.max(0, rates.received.length - BUCKETS_STORED);
  const stored: StoredLive = {
    storedMs: nowMs,
    startedMs: live.startedMs,
    alarms: live.alarms(),
    accounts: live.accounts(),
    deliveries: live.deliveries(),
    rates: {
      bucketMs: rates.bucketMs,
      fromMs: rates.fromMs + left * rates.bucketMs,
      received: rates.received.slice(left),
      live: rates.live.slice(left),
      sent: Object.fromEntries(Object.entries(rates.sent).map(([name, list]) => [name, list.slice(left)])),
    },
  };
  const put = db.prepare(
    "INSERT INTO meta (key, value) VALUES ('live', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
  );
  await db.change(() => put.run(JSON.stringify(stored)));
}

/** The report of an earlier process is not about the one that holds the lock now (R40). */
export async function forgetLive(db: State): Promise<void> {
  if (readStoredLive(db) === undefined) return;
  await db.change(() => db.exec("DELETE FROM meta WHERE key = 'live'"));
}

export function readStoredLive(db: State): StoredLive | undefined {
  const text = db.prepare("SELECT value FROM meta WHERE key = 'live'").pluck().get() as string | undefined;
  return text === undefined ? undefined : (JSON.parse(text) as StoredLive);
}

/** How old the last report of a running process is; infinite where there is none. */
export function silentMs(db: State, clock: Clock): number {
  return clock.now() - (readStoredLive(db)?.storedMs ?? Number.NEGATIVE_INFINITY);
}

/** null when it is too old to say anything about now. */
export function liveFrom(stored: StoredLive | undefined, nowMs: number): LiveView | null {
  if (stored === undefined || nowMs - stored.storedMs > CURRENT_MS) return null;
  return {
    startedMs: stored.startedMs,
    alarms: () => stored.alarms,
    // A rate without a limit is infinite, which JSON cannot say.
    accounts: () =>
      stored.accounts.map((account) => ({
        ...account,
        pace: { ...account.pace, rate: account.pace.rate ?? Number.POSITIVE_INFINITY },
      })),
    deliveries: () => stored.deliveries,
    // A process of an earlier version stored no live rates.
    rates: () => ({ ...stored.rates, live: stored.rates.live ?? [] }),
  };
}
