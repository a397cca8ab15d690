import type { Effect, Fault } from "./faults.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, type OrganizationPlan, type Settings } from "./plan.ts";
import type { Random } from "./random.ts";

/** What a family of faults is made from. */
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
    return [random.chance(0.5) ? { kind: "stop", fromMs, downMs } : { kind: "kill", fromMs, hops: random.int(0, 6000), downMs }];
  },
  throttle: (maker: FaultMaker): Fault[] => [
    serviceFault(maker, {
      type: "throttle",
      share: maker.random.pick([0.2, 0.8, 1]),
      retryAfterS: maker.random.pick([null, 1, 30, 600]),
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
} satisfies Record<string, (maker: FaultMaker) => Fault[]>;

export type Family = keyof typeof FAMILIES;

export const FAMILY_NAMES = Object.keys(FAMILIES) as Family[];

function momentIn(random: Random, lengthMs: number): number {
  return Math.floor(random.next() * lengthMs);
}

function serviceFault({ random, lengthMs }: FaultMaker, effect: Effect): Fault {
  const fromMs = momentIn(random, lengthMs);
  return { kind: "service", fromMs, toMs: fromMs + Math.round(random.scale(MINUTE_MS, 12 * HOUR_MS)), effect };
}
