import type { Random } from "../random.ts";
import { accessRequest, ldap, passwordVault, radius, sso } from "./access-events.ts";
import { accessAssociation } from "./association-events.ts";
import { mdm, objectStorage, software, systemCommand, systemLogin } from "./device-events.ts";
import type { Directory, Tenant } from "./directory.ts";
import { adminChange, adminLogin, background, portal, selfChange, userLogin } from "./directory-events.ts";
import { newer } from "./newer-events.ts";
import { alert, notification, report, saas, unknown } from "./other-events.ts";
import type { Scene, Writer } from "./scene.ts";

/** A story that makes sense: its steps in order, with a pause between them. */
export interface Session {
  readonly scene: Scene;
  readonly steps: readonly Writer[];
  readonly pauseMs: number;
}

type Plot = (random: Random) => { readonly steps: readonly Writer[]; readonly pauseMs: number };

const times = (writer: Writer, count: number) => Array.from({ length: count }, () => writer);

const plots: readonly (readonly [weight: number, plot: Plot])[] = [
  [30, (random) => ({ steps: workday(random), pauseMs: 90_000 })],
  [
    10,
    (random) => ({
      steps: [adminLogin, ...times(adminChange, 1 + random.below(5)), ...times(report, random.below(2))],
      pauseMs: 40_000,
    }),
  ],
  [14, (random) => ({ steps: times(radius, 1 + random.below(2)), pauseMs: 4_000 })],
  [9, (random) => ({ steps: times(ldap, 2 + random.below(5)), pauseMs: 200 })],
  [6, (random) => ({ steps: [mdm, ...times(software, 1 + random.below(3))], pauseMs: 15_000 })],
  [6, (random) => ({ steps: times(systemCommand, 1 + random.below(2)), pauseMs: 20_000 })],
  [1, () => ({ steps: [objectStorage, objectStorage], pauseMs: 8_000 })],
  [2, (random) => ({ steps: [alert, ...times(notification, random.below(2))], pauseMs: 1_000 })],
  [2, (random) => ({ steps: times(saas, 1 + random.below(2)), pauseMs: 5_000 })],
  [1, () => ({ steps: [accessRequest, accessRequest, accessAssociation, adminChange], pauseMs: 600_000 })],
  [2, (random) => ({ steps: times(unknown, 1 + random.below(3)), pauseMs: 3_000 })],
  [3, (random) => ({ steps: times(newer, 1 + random.below(2)), pauseMs: 60_000 })],
  [2, (random) => ({ steps: times(background, 1 + random.below(2)), pauseMs: 2_000 })],
];
const plotWeight = plots.reduce((sum, [weight]) => sum + weight, 0);
const portalShare = 0.01;

function workday(random: Random): Writer[] {
  const steps = [systemLogin, userLogin, ...times(sso, 1 + random.below(4))];
  if (random.chance(0.2)) steps.push(passwordVault);
  if (random.chance(0.15)) steps.push(selfChange);
  return steps;
}

/** Starts sessions of organizations according to their weight; the provider's portal has a few of its own. */
export function createSessionStarter(random: Random, directory: Directory): () => Session {
  const pickTenant = createWeightedPick(random, directory.tenants);
  return () => {
    const portalOnly = random.chance(portalShare);
    const tenant = portalOnly ? directory.provider : pickTenant();
    const scene: Scene = {
      random,
      tenant,
      providerId: directory.providerId,
      user: random.pick(tenant.users),
      administrator: random.pick(tenant.administrators),
      device: random.pick(tenant.systems),
      app: random.pick(tenant.applications),
      thread: random.uuid(),
      step: 0,
      nowMs: 0,
    };
    if (portalOnly) return { scene, steps: times(portal, 1 + random.below(3)), pauseMs: 30_000 };
    return { scene, ...pickPlot(random)(random) };
  };
}

function pickPlot(random: Random): Plot {
  let rest = random.float() * plotWeight;
  for (const [weight, plot] of plots) {
    rest -= weight;
    if (rest < 0) return plot;
  }
  return plots[0]![1];
}

function createWeightedPick(random: Random, tenants: readonly Tenant[]): () => Tenant {
  const edges = new Float64Array(tenants.length);
  let sum = 0;
  for (const [index, tenant] of tenants.entries()) {
    sum += tenant.weight;
    edges[index] = sum;
  }
  return () => {
    const wanted = random.float() * sum;
    let [low, high] = [0, edges.length - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (edges[middle]! <= wanted) low = middle + 1;
      else high = middle;
    }
    return tenants[low]!;
  };
}
