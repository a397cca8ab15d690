import type { Fault } from "./faults.ts";
import {
  DAY_MS,
  HOUR_MS,
  MINUTE_MS,
  type OrganizationPlan,
  type Plan,
  PORTAL,
  type PortalPlan,
  type ServiceHabits,
  type Settings,
} from "./plan.ts";

/** The things in which a focused life differs from a plain one. */
export interface Focus {
  readonly hours?: number;
  readonly organizations?: number;
  readonly events?: Partial<OrganizationPlan>;
  readonly settings?: Partial<Settings>;
  readonly service?: Partial<ServiceHabits>;
  /** Absent: there is none. */
  readonly portal?: Partial<PortalPlan>;
  readonly faults?: readonly Fault[];
}

/** A short, plain life with one thing in it, so that it takes a second and shows one rule. */
export function focused(seed: number, focus: Focus): Plan {
  const { hours = 10, organizations = 2, events = {}, settings = {}, service = {}, faults = [] } = focus;
  return {
    seed,
    lengthMs: hours * HOUR_MS,
    tickMs: 10 * MINUTE_MS,
    settings: { ...PLAIN, ...(focus.portal && { portal: true }), ...settings },
    service: { ...FAITHFUL, ...service },
    organizations: Array.from({ length: organizations }, (_, index) => ({ ...QUIET, index, ...events })),
    ...(focus.portal && { portal: { ...SHARING, ...focus.portal } }),
    faults,
  };
}

const PLAIN: Settings = {
  sinceMs: 6 * HOUR_MS,
  retentionMs: 4 * DAY_MS,
  intervalMs: 5 * MINUTE_MS,
  overlapMs: 5 * MINUTE_MS,
  windowMs: HOUR_MS,
  sweepsMs: [30 * MINUTE_MS, 3 * HOUR_MS],
  lastSweepMs: 12 * HOUR_MS,
  pageSize: 1000,
  headerBytes: 8192,
  bodyMax: 65_536,
  services: ["all"],
  discoveryMs: 15 * MINUTE_MS,
  order: "oldest_first",
  only: null,
  sinks: [{ name: "disk", folder: "/sinks/disk", path: "{date}", rotateBytes: 1_000_000 }],
};

const FAITHFUL: ServiceHabits = {
  endInclusive: false,
  emptyToken: "absent",
  hasCount: false,
  cap: 10_000,
  without: [],
  claimedLimit: null,
  tokenMs: null,
  latencyMs: 20,
};

const QUIET: OrganizationPlan = {
  index: 0,
  joinsMs: -200 * DAY_MS,
  leavesMs: null,
  eventsPerDay: 100,
  lateShare: 0,
  lateMs: 20_000,
  equalShare: 0,
  twinShare: 0,
  withoutIdShare: 0,
  futureShare: 0,
  untimedShare: 0,
  bursts: [],
  odd: [],
};

const SHARING: PortalPlan = {
  ...QUIET,
  index: PORTAL,
  eventsPerDay: 30,
  named: [0],
  sharedShare: 0.5,
  addsBytes: false,
};
