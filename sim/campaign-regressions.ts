import { focused } from "./focus.ts";
import { HOUR_MS, MINUTE_MS } from "./plan.ts";
import type { Regression } from "./regression.ts";
import {
  A_NUMBER_THAT_IS_USED_AGAIN,
  LATE_FOR_OTHER_SERVICES,
  LISTED_WITHOUT_IDS,
} from "./regression-plans.ts";

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
  {
    name: "a sealed window that is being read again becomes longer, and the pass does not read the rest",
    plan: {
      ...focused(5_020_121, {
        organizations: 1,
        events: {
          index: 1,
          eventsPerDay: 9.959614192990417,
          lateMs: 1_815_621.6382694892,
          equalShare: 0.5,
          withoutIdShare: 1,
        },
        settings: {
          retentionMs: 36 * HOUR_MS,
          intervalMs: 30_000,
          overlapMs: 2 * MINUTE_MS,
          windowMs: 6 * HOUR_MS,
          sweepsMs: [30 * MINUTE_MS, 3 * HOUR_MS],
          pageSize: 10_000,
          headerBytes: 1024,
          order: "newest_first",
          discoveryMs: 2 * HOUR_MS,
        },
        service: { emptyToken: "echoed", latencyMs: 2000 },
        faults: [
          { kind: "kill", fromMs: 32_266_237, hops: 5894, downMs: 1000 },
          {
            kind: "service",
            fromMs: 37_336_464,
            toMs: 40_407_539,
            effect: { type: "unavailable", share: 0.2, status: 500 },
          },
          { kind: "clock", fromMs: 41_086_732, toMs: 48_824_457, skewMs: -156_039_095 },
          {
            kind: "service",
            fromMs: 61_913_767,
            toMs: 100_794_986,
            effect: { type: "wrong_count", share: 0.5 },
          },
        ],
      }),
      lengthMs: 102_594_986,
      tickMs: 30 * MINUTE_MS,
      idleTickMs: 3 * HOUR_MS,
    },
  },
  {
    name: "events of one time before an event that is not readable are read again without end",
    plan: focused(1, {
      organizations: 1,
      events: {
        withoutIdShare: 1,
        bursts: [{ atMs: 4 * HOUR_MS - 500, events: 5, spreadMs: 1 }],
        odd: [{ atMs: 4 * HOUR_MS, kind: "deep" }],
      },
      service: { latencyMs: 2000 },
    }),
  },
  {
    name: "a window is cut at the horizon, and events of other services count as those of its second part",
    plan: focused(1, {
      hours: 44,
      organizations: 1,
      settings: { retentionMs: 36 * HOUR_MS },
      faults: [
        {
          kind: "reconfigure",
          fromMs: 6 * HOUR_MS,
          downMs: 5000,
          change: { type: "services", services: ["directory", "sso"] },
        },
        { kind: "stop", fromMs: 12 * HOUR_MS, downMs: 26 * HOUR_MS },
      ],
    }),
  },
  {
    name: "a foreign event that comes late is found by no sweep",
    plan: focused(1, {
      hours: 12,
      organizations: 1,
      events: { odd: [{ atMs: 4 * HOUR_MS, kind: "foreign" }] },
      faults: [
        {
          kind: "service",
          fromMs: 3.5 * HOUR_MS,
          toMs: 6 * HOUR_MS,
          effect: { type: "replica", lagMs: HOUR_MS },
        },
      ],
    }),
  },
  {
    name: "an organization that was refused left while the program was stopped, and the time since is missing without a gap",
    plan: focused(1, {
      hours: 34,
      organizations: 1,
      events: { leavesMs: 28 * HOUR_MS },
      faults: [
        {
          kind: "service",
          fromMs: 8 * HOUR_MS,
          toMs: 12 * HOUR_MS,
          effect: { type: "tenant", organization: 0, status: 403 },
        },
        { kind: "stop", fromMs: 11 * HOUR_MS, downMs: 18 * HOUR_MS },
      ],
    }),
  },
  {
    name: "an empty list of organizations ends the reading, and the program calls itself good",
    plan: focused(1, {
      hours: 26,
      faults: [
        {
          kind: "service",
          fromMs: 6 * HOUR_MS,
          toMs: 22 * HOUR_MS,
          effect: { type: "list", status: 200 },
        },
      ],
    }),
  },
  {
    name: "a window gets the number of a removed one, and a read of the removed one that is under way replaces it",
    plan: A_NUMBER_THAT_IS_USED_AGAIN,
  },
  {
    name: "a token is refused inside a second by a service that knows whole seconds, and events of that second count again",
    plan: focused(5_043_236, {
      hours: 12,
      organizations: 1,
      events: { eventsPerDay: 6, bursts: [{ atMs: 5 * HOUR_MS, events: 31, spreadMs: 1000 }] },
      settings: { pageSize: 10 },
      service: { wholeSeconds: true },
      faults: [{ kind: "service", fromMs: 5 * HOUR_MS, toMs: 7 * HOUR_MS, effect: { type: "cursors" } }],
    }),
  },
  {
    name: "a sweep that does not come to its end finds an event that was listed before, and the service's count has it twice",
    plan: {
      ...focused(5_042_735, {
        organizations: 1,
        events: { eventsPerDay: 70.49885145602389 },
        settings: {
          intervalMs: 30_000,
          overlapMs: 15 * MINUTE_MS,
          windowMs: 10 * MINUTE_MS,
          sweepsMs: [10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS],
          lastSweepMs: 6 * HOUR_MS,
          pageSize: 50,
          headerBytes: 1024,
          order: "newest_first",
          discoveryMs: 2 * HOUR_MS,
        },
        service: { latencyMs: 200 },
        faults: [
          {
            kind: "service",
            fromMs: 4_254_934,
            toMs: 16_299_680,
            effect: { type: "replica", lagMs: 7_050_403 },
          },
          { kind: "restore", backupMs: 2_737_065, fromMs: 10_572_719, downMs: MINUTE_MS },
        ],
      }),
      lengthMs: 18_099_680,
      tickMs: MINUTE_MS,
      idleTickMs: 45 * MINUTE_MS,
      workTakesTime: true,
    },
  },
  {
    name: "a portal that is taken out of the config, and whose account cannot be read for hours, is not read to its end",
    plan: focused(1, {
      hours: 12,
      organizations: 1,
      // Until it joins the list is empty, and without the portal the account has nothing to read.
      events: { joinsMs: 9 * HOUR_MS },
      portal: { named: [], eventsPerDay: 300 },
      faults: [
        {
          kind: "reconfigure",
          fromMs: 5 * HOUR_MS + 9 * MINUTE_MS,
          downMs: 5000,
          change: { type: "portal", isRead: false },
        },
      ],
    }),
  },
  {
    name: "events that a lagging replica does not return yet count as held, because events of other services are",
    plan: {
      ...focused(5_061_677, {
        organizations: 1,
        events: {
          joinsMs: -17_280_000_000,
          eventsPerDay: 65.912_934_683_285_66,
          lateMs: 22_562.643_104_044_07,
          equalShare: 0.5,
          withoutIdShare: 0.1,
          odd: [{ atMs: 33_950_980, kind: "nameless" }],
        },
        settings: {
          sinceMs: 48 * HOUR_MS,
          intervalMs: 30_000,
          sweepsMs: [10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS],
          lastSweepMs: 6 * HOUR_MS,
          services: ["all", "workflows"],
        },
        service: { emptyToken: "echoed", cap: 40, latencyMs: 2000 },
        faults: [
          {
            kind: "service",
            fromMs: 28_864_364,
            toMs: 46_935_541,
            effect: { type: "replica", lagMs: 10_480_434 },
          },
          {
            kind: "reconfigure",
            fromMs: 42_401_973,
            downMs: 5000,
            change: { type: "services", services: ["directory", "sso"] },
          },
        ],
      }),
      lengthMs: 146_609_376,
      tickMs: 30 * MINUTE_MS,
      idleTickMs: 3 * HOUR_MS,
      workTakesTime: false,
    },
  },
  {
    name: "a group is taken apart while the plan is made, and its organizations are polled twice",
    plan: {
      ...focused(1, {
        organizations: 4,
        events: { odd: [{ atMs: 8 * MINUTE_MS, kind: "nameless" }] },
        settings: { discoveryMs: 2 * HOUR_MS },
        faults: [
          { kind: "service", fromMs: 20 * MINUTE_MS, toMs: 52 * MINUTE_MS, effect: { type: "bad_request" } },
        ],
      }),
      tickMs: 30 * MINUTE_MS,
    },
  },
  {
    name: "an event that comes late is missing in the count of a window that asks for other services",
    plan: LATE_FOR_OTHER_SERVICES,
  },
  {
    name: "the service lists events without an id that a lagging replica does not return, and their window is sealed",
    plan: LISTED_WITHOUT_IDS,
  },
];
