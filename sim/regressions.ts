import { CAMPAIGN_REGRESSIONS } from "./campaign-regressions.ts";
import { focused } from "./focus.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "./plan.ts";
import type { Regression } from "./regression.ts";
import { REFUSED_CURSOR_ON_A_FULL_DISK, TWIN_AT_AN_EDGE } from "./regression-plans.ts";

export const REGRESSIONS: readonly Regression[] = [
  {
    name: "since is applied again after an absence",
    plan: focused(4, {
      hours: 16,
      settings: { sinceMs: HOUR_MS },
      faults: [{ kind: "stop", fromMs: 6 * HOUR_MS, downMs: 6 * HOUR_MS }],
    }),
  },
  {
    name: "an X-Limit above the page size ends the pass after one page",
    plan: focused(14, { settings: { pageSize: 3 }, service: { claimedLimit: 10_000 } }),
  },
  {
    name: "a service without X-Limit and with a cap of its own ends the pass after one page",
    plan: focused(40, { settings: { pageSize: 50 }, service: { cap: 7, without: ["x-limit"] } }),
  },
  {
    name: "one organization that answers 500 makes the poller look for work every 20 ms",
    plan: focused(1, {
      organizations: 3,
      faults: [
        {
          kind: "service",
          fromMs: HOUR_MS,
          toMs: 1000 * DAY_MS,
          effect: { type: "tenant", organization: 1, status: 500 },
        },
      ],
    }),
  },
  {
    name: "a new organization waits for twice the interval of discovery, and the time before is never read",
    plan: focused(1, {
      hours: 12,
      events: { joinsMs: 1_800_000, eventsPerDay: 400 },
      settings: { sinceMs: HOUR_MS, discoveryMs: 2 * HOUR_MS },
      service: { latencyMs: 2000 },
    }),
  },
  {
    name: "an event without a readable time that is shown late is found by no sweep",
    plan: focused(1, { events: { untimedShare: 0.3, lateShare: 0.5, lateMs: 1_200_000 } }),
  },
  {
    name: "an event that is too large is counted again with every refused cursor",
    plan: focused(1, {
      organizations: 1,
      events: { odd: [{ atMs: 2 * HOUR_MS, kind: "huge" }] },
      faults: [{ kind: "service", fromMs: HOUR_MS, toMs: 4 * HOUR_MS, effect: { type: "cursors" } }],
    }),
  },
  {
    name: "a pass that ends at the service's horizon counts one event too few",
    plan: focused(1, {
      hours: 56,
      organizations: 1,
      events: { eventsPerDay: 400 },
      settings: { pageSize: 5, retentionMs: 36 * HOUR_MS },
      service: { latencyMs: 2000 },
      faults: [
        { kind: "stop", fromMs: 6 * HOUR_MS, downMs: 14 * HOUR_MS },
        { kind: "kill", fromMs: 20 * HOUR_MS + 8000, hops: 3, downMs: 30 * HOUR_MS },
      ],
    }),
  },
  {
    name: "an organization that left while the program was stopped is missing without a gap",
    plan: focused(1, {
      hours: 130,
      organizations: 2,
      events: { eventsPerDay: 100, leavesMs: 40 * HOUR_MS },
      settings: { retentionMs: 48 * HOUR_MS, sinceMs: HOUR_MS },
      faults: [{ kind: "stop", fromMs: 20 * HOUR_MS, downMs: 100 * HOUR_MS }],
    }),
  },
  {
    name: "a local clock that is set back by days stops the requests for as long",
    plan: focused(1, {
      hours: 26,
      faults: [
        { kind: "clock", fromMs: 2 * HOUR_MS, toMs: 12 * HOUR_MS, skewMs: 70 * HOUR_MS },
        {
          kind: "service",
          fromMs: 6 * HOUR_MS,
          toMs: 7 * HOUR_MS,
          effect: { type: "unavailable", share: 0.8, status: 503 },
        },
      ],
    }),
  },
  {
    name: "a local clock that is set back by days stops a failing sink for as long",
    plan: focused(1, {
      hours: 26,
      faults: [
        { kind: "clock", fromMs: 2 * HOUR_MS, toMs: 12 * HOUR_MS, skewMs: 68 * HOUR_MS },
        { kind: "disk", fromMs: 10 * HOUR_MS, toMs: 13 * HOUR_MS, target: 0, error: "EIO" },
      ],
    }),
  },
  {
    name: "a Retry-After of a day silences the account for a day",
    plan: focused(2, {
      faults: [
        {
          kind: "service",
          fromMs: 8 * HOUR_MS,
          toMs: 8.5 * HOUR_MS,
          effect: { type: "throttle", share: 1, retryAfterS: 86_400 },
        },
      ],
    }),
  },
  {
    name: "a long window with many events without an id is read again without end",
    plan: focused(1, {
      organizations: 1,
      events: { withoutIdShare: 1 },
      settings: { sinceMs: 36 * HOUR_MS, retentionMs: 36 * HOUR_MS, sweepsMs: [HOUR_MS] },
    }),
  },
  {
    name: "an event that one of two overlapping windows finds late is missing in the other's count",
    plan: focused(3, {
      hours: 24,
      organizations: 3,
      events: { lateShare: 0.2, lateMs: HOUR_MS },
      settings: { sweepsMs: [HOUR_MS] },
      faults: [
        {
          kind: "service",
          fromMs: 3 * HOUR_MS,
          toMs: 14 * HOUR_MS,
          effect: { type: "throttle", share: 1, retryAfterS: 1 },
        },
      ],
    }),
  },
  {
    name: "a page that holds only a foreign event ends the program where the service sends no X-Limit",
    plan: focused(1, {
      hours: 8,
      organizations: 1,
      events: { eventsPerDay: 0.5, odd: [{ atMs: 2 * HOUR_MS, kind: "foreign" }] },
      service: { without: ["x-limit"] },
      faults: [{ kind: "stop", fromMs: HOUR_MS, downMs: 2 * HOUR_MS }],
    }),
  },
  {
    name: "a sweep whose cursors are refused takes a twin at the edge of a page for the event before it",
    plan: TWIN_AT_AN_EDGE,
  },
  {
    name: "a full state file ends the program when the service refuses a cursor",
    plan: REFUSED_CURSOR_ON_A_FULL_DISK,
  },
  {
    name: "a window at the service's horizon is cut again with every request and never compared",
    plan: {
      ...focused(1, {
        hours: 48,
        organizations: 1,
        settings: { retentionMs: 36 * HOUR_MS, sweepsMs: [HOUR_MS], lastSweepMs: 6 * HOUR_MS },
        service: { latencyMs: 20 },
        faults: [{ kind: "stop", fromMs: 6 * HOUR_MS, downMs: 30.5 * HOUR_MS }],
      }),
      workTakesTime: true,
    },
  },
  {
    name: "the part of a long live window before midnight is sealed without a sweep",
    plan: focused(1, {
      hours: 44,
      organizations: 1,
      events: { lateShare: 0.5, lateMs: 20 * MINUTE_MS, joinsMs: 6 * HOUR_MS },
      settings: { windowMs: DAY_MS, sweepsMs: [HOUR_MS] },
    }),
  },
  {
    name: "a window at the horizon is called sealed although the service forgot a part of it before it answered",
    plan: {
      ...focused(3_001_879, {
        organizations: 1,
        events: { joinsMs: 29_325_634, eventsPerDay: 16.273743361600065, withoutIdShare: 1, lateMs: 125_375 },
        settings: {
          sinceMs: 2 * DAY_MS,
          retentionMs: 2 * DAY_MS,
          overlapMs: 15 * MINUTE_MS,
          windowMs: 3 * HOUR_MS,
          sweepsMs: [10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS],
          lastSweepMs: 6 * HOUR_MS,
          pageSize: 50,
          services: ["directory", "sso"],
        },
        service: { emptyToken: "echoed" },
        faults: [
          {
            kind: "service",
            fromMs: 27_583_864,
            toMs: 34_866_137,
            effect: { type: "throttle", share: 0.8, retryAfterS: 86_400 },
          },
        ],
      }),
      lengthMs: 36_666_137,
      tickMs: 30 * MINUTE_MS,
      idleTickMs: 3 * HOUR_MS,
      workTakesTime: true,
    },
  },
  {
    name: "a clock that was set back makes a refused organization wait for as long",
    plan: focused(1, {
      organizations: 1,
      faults: [
        {
          kind: "service",
          fromMs: 3 * HOUR_MS,
          toMs: 3.6 * HOUR_MS,
          effect: { type: "tenant", organization: 0, status: 403 },
        },
        { kind: "clock", fromMs: 2.5 * HOUR_MS, toMs: 4 * HOUR_MS, skewMs: 3 * DAY_MS },
      ],
    }),
  },
  {
    name: "a clock that was set back makes a refused account wait for as long",
    plan: focused(1, {
      organizations: 1,
      faults: [
        { kind: "service", fromMs: 3 * HOUR_MS, toMs: 4 * HOUR_MS, effect: { type: "unauthorized" } },
        { kind: "clock", fromMs: 2.5 * HOUR_MS, toMs: 3.9 * HOUR_MS, skewMs: 3 * DAY_MS },
      ],
    }),
  },
  {
    name: "an event that the comparison shows and the following read does not return is missing in a sealed window",
    plan: focused(1, {
      hours: 16,
      faults: [
        {
          kind: "service",
          fromMs: 2 * HOUR_MS,
          toMs: 9 * HOUR_MS,
          effect: { type: "replica", lagMs: 3.5 * HOUR_MS },
        },
      ],
    }),
  },
  {
    name: "windows that a wrong Date header has moved into the future are not brought back",
    plan: focused(1, {
      hours: 20,
      faults: [
        {
          kind: "service",
          fromMs: 3 * HOUR_MS,
          toMs: 3.5 * HOUR_MS,
          effect: { type: "date", skewMs: 2 * DAY_MS },
        },
      ],
    }),
  },
  {
    name: "a Date header that is days ahead for minutes stops the reading for days",
    plan: focused(1, {
      hours: 20,
      faults: [
        {
          kind: "service",
          fromMs: 3 * HOUR_MS,
          toMs: 3 * HOUR_MS + 5 * MINUTE_MS,
          effect: { type: "date", skewMs: 2 * DAY_MS },
        },
      ],
    }),
  },
  ...CAMPAIGN_REGRESSIONS,
];
