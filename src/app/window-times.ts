import type { Config } from "../config/schema.ts";
import type { State } from "../journal/database.ts";
import { fitWindows, timesKept } from "../journal/window-times.ts";
import { fittedTimes } from "../polling/plan/fit-times.ts";

/** Windows number their sweeps by the list of the config, so they follow when that list changes. */
export async function fitWindowTimes(db: State, { polling, accounts }: Config): Promise<void> {
  const retention = new Map(accounts.map((account) => [account.name, account.retention]));
  const sweepsMs = polling.sweeps;
  const lastSweepMs = polling.lastSweep;
  const kept = timesKept(db);
  const before = kept === null ? sweepsMs : (JSON.parse(kept) as { sweepsMs: number[] }).sweepsMs;
  const times = JSON.stringify({ sweepsMs, lastSweepMs, retention: [...retention] });
  await fitWindows(db, times, (account, window) => {
    const retentionMs = retention.get(account);
    // An account that was taken out may come back: its windows keep their place in the list alone.
    const own = { sweepsMs, lastSweepMs, retentionMs: retentionMs ?? Number.MAX_SAFE_INTEGER };
    return fittedTimes(window, before.length, own);
  });
}
