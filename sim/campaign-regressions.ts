import { focused } from "./focus.ts";
import { HOUR_MS, MINUTE_MS } from "./plan.ts";
import type { Regression } from "./regression.ts";

/** Defects that the campaigns of ordinary and long lives from seed 3000000 on have found. */
export const CAMPAIGN_REGRESSIONS: readonly Regression[] = [
  {
    name: "an event that is too large is counted twice when its name cannot be asked for at first",
    plan: {
      ...focused(4, {
        hours: 14,
        organizations: 1,
        events: { eventsPerDay: 4, odd: [{ atMs: 4 * HOUR_MS, kind: "huge" }] },
        settings: { pageSize: 10 },
        service: { tokenMs: 10 * MINUTE_MS, latencyMs: 200 },
        faults: [
          {
            kind: "service",
            fromMs: 4.5 * HOUR_MS,
            toMs: 12 * HOUR_MS,
            effect: { type: "unavailable", share: 0.8, status: 503 },
          },
        ],
      }),
      tickMs: 16 * MINUTE_MS,
      idleTickMs: 45 * MINUTE_MS,
      workTakesTime: true,
    },
  },
  {
    name: "an organization that a restored backup does not know is read only since `since`",
    plan: focused(1, {
      hours: 40,
      organizations: 1,
      events: { joinsMs: 4 * HOUR_MS, odd: [{ atMs: 7 * HOUR_MS, kind: "foreign" }] },
      settings: { sinceMs: 2 * HOUR_MS },
      faults: [{ kind: "restore", backupMs: 2 * HOUR_MS, fromMs: 20 * HOUR_MS, downMs: MINUTE_MS }],
    }),
  },
  {
    name: "a restored backup does not know a late event, and the count of its window is taken for wrong",
    plan: focused(1, {
      hours: 100,
      organizations: 1,
      events: { lateShare: 0.3, lateMs: 2 * HOUR_MS },
      settings: { retentionMs: 36 * HOUR_MS, sweepsMs: [30 * MINUTE_MS], lastSweepMs: 6 * HOUR_MS },
      faults: [{ kind: "restore", backupMs: 14 * HOUR_MS, fromMs: 70 * HOUR_MS, downMs: MINUTE_MS }],
    }),
  },
];
