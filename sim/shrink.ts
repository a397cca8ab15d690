import type { Violation } from "./findings.ts";
import { reduced } from "./generate.ts";
import type { OrganizationPlan, Plan } from "./plan.ts";
import { withoutPortal } from "./portal.ts";

/** Lives a plan and says what is broken. */
export type Try = (plan: Plan) => Promise<readonly Violation[]>;

/**
 * A smaller life that breaks the same promise: fewer faults, fewer organizations, plainer events, fewer days.
 * Greedy, and bounded by `triesMax` lives.
 */
export async function shrink(
  plan: Plan,
  rule: Violation["rule"],
  attempt: Try,
  triesMax = 80,
): Promise<Plan> {
  let best = plan;
  let tries = 0;
  for (let isBetter = true; isBetter && tries < triesMax; ) {
    isBetter = false;
    for (const candidate of smallerThan(best)) {
      if (tries++ >= triesMax) break;
      const violations = await attempt(candidate);
      if (!violations.some((violation) => violation.rule === rule)) continue;
      best = candidate;
      isBetter = true;
      break;
    }
  }
  return best;
}

function* smallerThan(plan: Plan): Generator<Plan> {
  const { faults, organizations, lengthMs } = plan;
  const half = Math.ceil(faults.length / 2);
  if (faults.length > 3) {
    yield reduced(plan, { faults: faults.slice(0, half), organizations, lengthMs });
    yield reduced(plan, { faults: faults.slice(half), organizations, lengthMs });
  }
  for (const fault of faults)
    yield reduced(plan, { faults: faults.filter((other) => other !== fault), organizations, lengthMs });
  if (plan.portal !== undefined) yield withoutPortal(plan);
  if (organizations.length > 1)
    for (const organization of organizations)
      yield reduced(plan, {
        faults,
        organizations: organizations.filter((other) => other !== organization),
        lengthMs,
      });
  if (plan.settings.sinks.length > 1)
    yield { ...plan, settings: { ...plan.settings, sinks: plan.settings.sinks.slice(0, 1) } };
  for (const simpler of simplerOrganizations(organizations)) yield { ...plan, organizations: simpler };
  if (plan.portal !== undefined)
    for (const [simpler] of simplerOrganizations([plan.portal]))
      yield { ...plan, portal: { ...plan.portal, ...simpler } };
  yield* withPlainerService(plan);
  if (lengthMs > 7_200_000)
    yield reduced(plan, { faults, organizations, lengthMs: Math.floor(lengthMs / 2) });
}

/** One kind of peculiarity at a time is taken from all organizations. */
function* simplerOrganizations(organizations: readonly OrganizationPlan[]): Generator<OrganizationPlan[]> {
  const plain: readonly Partial<OrganizationPlan>[] = [
    { bursts: [] },
    { odd: [] },
    { lateShare: 0 },
    { equalShare: 0 },
    { twinShare: 0 },
    { withoutIdShare: 0 },
    { futureShare: 0 },
    { untimedShare: 0 },
  ];
  for (const change of plain) {
    const [[name, value]] = Object.entries(change) as [[keyof OrganizationPlan, unknown]];
    const isPlain = organizations.every(
      (organization) => JSON.stringify(organization[name]) === JSON.stringify(value),
    );
    if (!isPlain) yield organizations.map((organization) => ({ ...organization, ...change }));
  }
  if (organizations.some(({ eventsPerDay }) => eventsPerDay > 4))
    yield organizations.map((organization) => ({
      ...organization,
      eventsPerDay: organization.eventsPerDay / 2,
    }));
}

function* withPlainerService(plan: Plan): Generator<Plan> {
  const { service } = plan;
  if (service.claimedLimit !== null) yield { ...plan, service: { ...service, claimedLimit: null } };
  if (service.without.length > 0) yield { ...plan, service: { ...service, without: [] } };
  if (service.cap < 10_000) yield { ...plan, service: { ...service, cap: 10_000 } };
  if (service.tokenMs !== null) yield { ...plan, service: { ...service, tokenMs: null } };
  if (service.endInclusive) yield { ...plan, service: { ...service, endInclusive: false } };
}
