import { calmMs } from "./events.ts";
import { FAMILIES, type Family, type FaultMaker, faultsBeside, SERVICE_SETS } from "./families.ts";
import { type Fault, recoveryMs } from "./faults.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, type OrganizationPlan, type Plan, type Settings } from "./plan.ts";
import { withPortal } from "./portal.ts";
import { type Random, randomOf } from "./random.ts";

export interface GenerateOptions {
  /** 90 days instead of a few. */
  readonly long: boolean;
  readonly families: readonly Family[];
}

/** The life that belongs to a seed. */
export function generate(seed: number, options: GenerateOptions): Plan {
  const random = randomOf(seed, "plan");
  // Most lives have few ticks and large windows, so that many lives can be lived; some are dense.
  const isDense = !options.long && random.chance(0.06);
  const longestMs = (isDense ? 3 : 2) * DAY_MS;
  const lengthMs = options.long ? 90 * DAY_MS : Math.round(random.scale(4 * HOUR_MS, longestMs));
  const ticks = options.long ? 4320 : isDense ? random.pick([60, 80, 200]) : random.pick([12, 20, 30]);
  // A live window that is more than an hour behind is closed and read as history: slower ticks would do only that.
  const tickMs = Math.min(30, Math.max(1, Math.round(lengthMs / ticks / MINUTE_MS))) * MINUTE_MS;
  const settings = settingsOf(random, options.long, isDense, tickMs);
  const organizations = organizationsOf(seed, random, lengthMs, options.long, isDense);
  const maker: FaultMaker = { random: randomOf(seed, "faults"), lengthMs, settings, organizations };
  const count = options.long ? random.int(10, 30) : random.int(0, 6);
  const faults = Array.from({ length: count }, () =>
    FAMILIES[maker.random.pick(options.families)](maker),
  ).flat();
  if (options.families.includes("wrong"))
    faults.push(...faultsBeside({ ...maker, random: randomOf(seed, "faults beside") }));
  const service: Plan["service"] = {
    endInclusive: random.chance(0.5),
    emptyToken: random.pick(["absent", "echoed"]),
    hasCount: random.chance(0.3),
    ...limitsOf(random),
    without: random.chance(0.2) ? [random.pick(["x-limit", "x-result-count", "date"])] : [],
    tokenMs: random.chance(0.2) ? 10 * MINUTE_MS : null,
    latencyMs: random.pick([20, 200, 2000]),
    ...moreHabits(randomOf(seed, "more habits")),
  };
  const { life, faults: ofPortal } = withPortal({ seed, lengthMs, settings, organizations }, options.long);
  faults.push(...ofPortal);
  const possible = faults.filter((fault) => isNoticeable(fault, service));
  return {
    ...life,
    lengthMs: lastFaultMs(faults, lengthMs),
    tickMs,
    workTakesTime: random.chance(0.2),
    idleTickMs: idleTickMs(random, options.long, isDense, tickMs),
    service,
    faults: possible.sort((a, b) => a.fromMs - b.fromMs),
  };
}

/** Two idle ticks are less than the stated time of the promises; some lives are awake more often. */
function idleTickMs(random: Random, long: boolean, isDense: boolean, tickMs: number): number {
  if (long) return random.pick([3, 6, 6]) * HOUR_MS;
  return isDense || random.chance(0.15) ? 45 * MINUTE_MS : Math.max(HOUR_MS, 6 * tickMs);
}

/** Without Date there is only the local clock: a client has nothing to compare it with, and raises an alarm for that. */
function isNoticeable(fault: Fault, { without }: Plan["service"]): boolean {
  return fault.kind !== "clock" || !without.includes("date");
}

/** A service with a smaller cap than X-Limit claims cannot be read by anyone: a short page is the last one (R31). */
function limitsOf(random: Random): Pick<Plan["service"], "cap" | "claimedLimit"> {
  const cap = random.pick([10_000, 10_000, 7, 40]);
  const claims = random.chance(0.15);
  return { cap, claimedLimit: claims && cap === 10_000 ? 10_000 : null };
}

/** Drawn with random numbers of their own, so that earlier seeds stay as they are otherwise. */
function moreHabits(random: Random): Pick<Plan["service"], "wholeSeconds" | "descending"> {
  return { wholeSeconds: random.chance(0.15), descending: random.chance(0.04) };
}

/** The life goes on until the last fault is over. */
function lastFaultMs(faults: readonly Fault[], lengthMs: number): number {
  return Math.max(lengthMs, ...faults.map((fault) => endMs(fault) + recoveryMs(fault)));
}

export function endMs(fault: Fault): number {
  return "toMs" in fault ? fault.toMs : fault.fromMs + fault.downMs;
}

/** Without the faults, organizations and days that a smaller life does without. */
export function reduced(
  plan: Plan,
  keep: { faults: readonly Fault[]; organizations: readonly OrganizationPlan[]; lengthMs: number },
): Plan {
  return { ...plan, ...keep, lengthMs: Math.max(keep.lengthMs, lastFaultMs(keep.faults, HOUR_MS)) };
}

function settingsOf(random: Random, long: boolean, isDense: boolean, tickMs: number): Settings {
  const quick = [[10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS], [30 * MINUTE_MS, 3 * HOUR_MS], [HOUR_MS]];
  const sweepsMs = random.chance(isDense || long ? 0.25 : 0.1)
    ? [10 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS]
    : random.pick(quick);
  const windowTicks = long ? [12, 48, 48] : isDense ? [1, 4, 6] : [2, 6, 12];
  const retentionMs = long
    ? random.pick([30, 60, 90]) * DAY_MS
    : random.pick([36 * HOUR_MS, 2 * DAY_MS, 4 * DAY_MS, 90 * DAY_MS]);
  return {
    sinceMs: Math.min(
      retentionMs,
      long ? 20 * DAY_MS : random.pick([HOUR_MS, 6 * HOUR_MS, DAY_MS, 2 * DAY_MS]),
    ),
    retentionMs,
    intervalMs: random.pick([30_000, 5 * MINUTE_MS]),
    overlapMs: random.pick([2, 5, 15]) * MINUTE_MS,
    // Shorter windows would be many requests and show nothing new.
    windowMs: Math.min(
      DAY_MS,
      Math.max(random.pick([10 * MINUTE_MS, HOUR_MS]), random.pick(windowTicks) * tickMs),
    ),
    sweepsMs,
    lastSweepMs: random.pick([6, 12]) * HOUR_MS,
    pageSize: random.pick([10_000, 1000, 50, 10, 3]),
    headerBytes: random.pick([8192, 8192, 8192, 1024]),
    bodyMax: 65_536,
    services: random.pick(SERVICE_SETS),
    order: random.pick(["newest_first", "oldest_first"]),
    discoveryMs: random.pick([15 * MINUTE_MS, 2 * HOUR_MS, 2 * HOUR_MS]),
    only: null,
    sinks: Array.from({ length: random.int(1, 3) }, (_, at) => ({
      name: `sink${at}`,
      folder: `/sinks/s${at}`,
      path: random.pick(["{organization}/{date}", "{date}", "{organization}/{service}"]),
      rotateBytes: random.pick([2000, 20_000, 1_000_000]),
      ...(at > 0 && random.chance(0.5) ? { services: ["directory", "ldap"] } : {}),
    })),
  };
}

function organizationsOf(
  seed: number,
  plan: Random,
  lengthMs: number,
  long: boolean,
  isDense: boolean,
): OrganizationPlan[] {
  const count = Math.round(plan.scale(1, long ? 4 : isDense ? 8 : 5));
  const eventsPerDay = (long ? 12 : isDense ? 150 : 60) / count;
  return Array.from({ length: count }, (_, index) => {
    const random = randomOf(seed, `organization ${index}`);
    const isQuiet = random.chance(0.3);
    const joinsMs = random.chance(0.8) ? -200 * DAY_MS : Math.floor(random.next() * lengthMs);
    return {
      index,
      joinsMs,
      leavesMs: random.chance(0.1)
        ? joinsMs + Math.floor(random.next() * lengthMs) + 201 * DAY_MS * (joinsMs < 0 ? 1 : 0)
        : null,
      eventsPerDay: isQuiet ? 0.5 : eventsPerDay * random.scale(0.2, 3),
      lateShare: random.pick([0, 0.02, 0.2]),
      lateMs: random.scale(10_000, HOUR_MS),
      equalShare: random.pick([0, 0.05, 0.5]),
      twinShare: random.pick([0, 0, 0.1]),
      withoutIdShare: random.pick([0, 0, 0.1, 1]),
      futureShare: random.pick([0, 0.03]),
      untimedShare: random.pick([0, 0, 0, 0.02]),
      bursts: random.chance(0.3)
        ? [
            {
              atMs: Math.floor(random.next() * lengthMs),
              events: random.int(20, isDense || long ? 400 : 100),
              spreadMs: random.pick([1, 1000, 600_000]),
            },
          ]
        : [],
      odd: random.chance(0.25)
        ? [
            {
              atMs: Math.floor(random.next() * lengthMs),
              kind: random.pick(["huge", "foreign", "nameless", "broken", "deep"] as const),
            },
          ]
        : [],
    };
  });
}

export function lifeEndMs(plan: Plan): number {
  return plan.lengthMs + calmMs(plan);
}
