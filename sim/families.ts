import type { ConfigChange, Effect, Fault } from "./faults.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, type OrganizationPlan, type Settings } from "./plan.ts";
import type { Random } from "./random.ts";

/** The parts that a family makes its faults from. */
export interface FaultMaker {
  readonly random: Random;
  readonly lengthMs: number;
  readonly settings: Settings;
  readonly organizations: readonly OrganizationPlan[];
}

/** One kind of trouble each; a life has some of them, at any time. */
export const FAMILIES = {
  kill: ({ random, lengthMs }: FaultMaker): Fault[] => {
    const kind = random.pick(["kill", "kill", "power"] as const);
    const fromMs = momentIn(random, lengthMs);
    // Now and then several in a row: a process that dies while it recovers.
    return Array.from({ length: random.chance(0.2) ? 4 : 1 }, (_, at) => ({
      kind,
      fromMs: fromMs + at * 5 * MINUTE_MS,
      hops: random.int(0, 6000),
      downMs: Math.round(random.pick([1000, MINUTE_MS, 20 * MINUTE_MS])),
    }));
  },
  /** An absence of minutes to weeks. */
  outage: ({ random, lengthMs, settings }: FaultMaker): Fault[] => {
    const longest = Math.min(settings.retentionMs * 1.5, 21 * DAY_MS);
    const downMs = Math.round(random.scale(10 * MINUTE_MS, longest));
    const fromMs = momentIn(random, lengthMs);
    return [
      random.chance(0.5)
        ? { kind: "stop", fromMs, downMs }
        : { kind: "kill", fromMs, hops: random.int(0, 6000), downMs },
    ];
  },
  throttle: (maker: FaultMaker): Fault[] => [
    serviceFault(maker, {
      type: "throttle",
      share: maker.random.pick([0.2, 0.8, 1]),
      retryAfterS: maker.random.pick([null, 1, 30, 600, 86_400]),
    }),
  ],
  unavailable: (maker: FaultMaker): Fault[] => [
    serviceFault(maker, {
      type: "unavailable",
      share: maker.random.pick([0.2, 0.8, 1]),
      status: maker.random.pick([500, 502, 503]),
    }),
  ],
  network: (maker: FaultMaker): Fault[] => [
    serviceFault(
      maker,
      maker.random.pick<Effect>([
        { type: "refuse" },
        { type: "cut", share: 0.3, where: "head" },
        { type: "cut", share: 0.3, where: "body" },
        { type: "hang", share: 0.2 },
      ]),
    ),
  ],
  /** One organization is refused, not entitled, unknown or broken; the others are not. */
  tenant: (maker: FaultMaker): Fault[] => {
    const organization = maker.random.pick(maker.organizations).index;
    const status = maker.random.pick([402, 403, 404, 500] as const);
    return [
      serviceFault(
        maker,
        maker.random.chance(0.2)
          ? { type: "history", organization, keptMs: 3 * HOUR_MS }
          : { type: "tenant", organization, status },
      ),
    ];
  },
  cursors: (maker: FaultMaker): Fault[] => [serviceFault(maker, { type: "cursors" })],
  account: (maker: FaultMaker): Fault[] => [
    serviceFault(
      maker,
      maker.random.pick<Effect>([
        { type: "unauthorized" },
        { type: "bad_request" },
        { type: "list", status: maker.random.pick([403, 429, 500]) },
      ]),
    ),
  ],
  /** Answers that do not fit what they say about themselves. */
  wrong: (maker: FaultMaker): Fault[] => [
    serviceFault(
      maker,
      maker.random.pick<Effect>([
        { type: "wrong_count", share: 0.5 },
        { type: "wrong_token", share: 0.5 },
        { type: "short_page", share: 0.3 },
        { type: "nonsense", share: 0.4 },
        { type: "date", skewMs: maker.random.pick([-90_000, 90_000]) },
      ]),
    ),
  ],
  clock: ({ random, lengthMs }: FaultMaker): Fault[] => {
    const fromMs = momentIn(random, lengthMs);
    const skewMs = Math.round(random.pick([-1, 1]) * random.scale(1000, 3 * DAY_MS));
    return [{ kind: "clock", fromMs, toMs: fromMs + Math.round(random.scale(HOUR_MS, DAY_MS)), skewMs }];
  },
  disk: ({ random, lengthMs, settings }: FaultMaker): Fault[] => {
    const fromMs = momentIn(random, lengthMs);
    const target = random.chance(0.3) ? ("state" as const) : random.int(0, settings.sinks.length - 1);
    const error =
      target === "state" ? "ENOSPC" : random.pick(["ENOSPC", "EIO", "EACCES", "hang", "slow"] as const);
    const longest = error === "slow" ? HOUR_MS : 8 * HOUR_MS;
    return [
      { kind: "disk", fromMs, toMs: fromMs + Math.round(random.scale(MINUTE_MS, longest)), target, error },
    ];
  },
  config: (maker: FaultMaker): Fault[] => {
    const { random, lengthMs } = maker;
    return [
      { kind: "reconfigure", fromMs: momentIn(random, lengthMs), downMs: 5000, change: configChange(maker) },
    ];
  },
  restore: ({ random, lengthMs }: FaultMaker): Fault[] => {
    const fromMs = momentIn(random, lengthMs);
    return [{ kind: "restore", backupMs: Math.floor(fromMs * random.next()), fromMs, downMs: MINUTE_MS }];
  },
} satisfies Record<string, (maker: FaultMaker) => Fault[]>;

/** Faults beside those of the families, with random numbers of their own: earlier seeds keep the faults they had. */
export function faultsBeside(maker: FaultMaker): Fault[] {
  const { random } = maker;
  if (!random.chance(0.15)) return [];
  return [
    serviceFault(
      maker,
      random.pick<Effect>([
        { type: "list", status: 200 },
        { type: "replica", lagMs: Math.round(random.scale(MINUTE_MS, 6 * HOUR_MS)) },
      ]),
    ),
  ];
}

export type Family = keyof typeof FAMILIES;

export const FAMILY_NAMES = Object.keys(FAMILIES) as Family[];

/** `all` leaves the newest service out. */
export const SERVICE_SETS: readonly (readonly string[])[] = [
  ["all"],
  ["all", "workflows"],
  ["directory", "sso"],
];

function configChange({ random, settings, organizations }: FaultMaker): ConfigChange {
  const some = organizations.filter(() => random.chance(0.6)).map(({ index }) => index);
  return random.pick<ConfigChange>([
    { type: "since", sinceMs: random.pick([HOUR_MS, 12 * HOUR_MS]) },
    { type: "page_size", pageSize: random.pick([2, 17, 10_000]) },
    { type: "organizations", only: some.length === 0 || random.chance(0.3) ? null : some },
    { type: "add_sink", name: `added${random.int(0, 999_999)}` },
    {
      type: "rename_sink",
      index: random.int(0, settings.sinks.length - 1),
      name: `renamed${random.int(0, 999_999)}`,
    },
    { type: "services", services: random.pick(SERVICE_SETS) },
    // The first sink always gets everything: the oracle takes what it has for what is held.
    {
      type: "filter",
      index: random.int(1, 2),
      services: random.pick([null, ["directory"], ["directory", "sso"]]),
    },
    // The promises about late events count with the longest window.
    {
      type: "windows",
      windowMs: random.pick([settings.windowMs, Math.max(10 * MINUTE_MS, settings.windowMs / 3)]),
      order: random.pick(["newest_first", "oldest_first"]),
    },
    // The last one is never later than that of the first config.
    {
      type: "sweeps",
      sweepsMs: random.pick([
        settings.sweepsMs.slice(0, 1),
        settings.sweepsMs.slice(-1),
        [5 * MINUTE_MS, ...settings.sweepsMs],
      ]),
    },
  ]);
}

function momentIn(random: Random, lengthMs: number): number {
  return Math.floor(random.next() * lengthMs);
}

function serviceFault({ random, lengthMs }: FaultMaker, effect: Effect): Fault {
  const fromMs = momentIn(random, lengthMs);
  return {
    kind: "service",
    fromMs,
    toMs: fromMs + Math.round(random.scale(MINUTE_MS, 12 * HOUR_MS)),
    effect,
  };
}
