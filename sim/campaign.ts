import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { FAMILY_NAMES, type Family } from "./families.ts";
import { generate } from "./generate.ts";
import type { LifeResult } from "./life.ts";
import type { Plan } from "./plan.ts";
import type { Runner } from "./run.ts";
import { shrink } from "./shrink.ts";
import { addCounts } from "./tally.ts";

export interface CampaignOptions {
  readonly from: number;
  readonly count: number;
  readonly long: boolean;
  readonly families: readonly Family[];
  readonly shrinks: boolean;
  readonly minutes: number;
  /** The totals so far are stored here after every life, and a second call goes on from there. */
  readonly progress: string | undefined;
}

interface Totals {
  /** The next seed to live. */
  next: number;
  lives: number;
  failed: number;
  readonly failedSeeds: number[];
  events: number;
  requests: number;
  delivered: number;
  days: number;
  cpuS: number;
  /** How often each kind of fault happened. */
  readonly faults: Record<string, number>;
}

const DAY_MS = 86_400_000;
const REPORT_LIVES = { short: 50, long: 5 };

/** Lives every seed of a range, and reports what was found. */
export async function campaign(runner: Runner, options: CampaignOptions): Promise<boolean> {
  const totals = resumed(options);
  const untilMs = performance.now() + options.minutes * 60_000;
  const every = options.long ? REPORT_LIVES.long : REPORT_LIVES.short;
  while (totals.next < options.from + options.count && performance.now() < untilMs) {
    const plan = generate(totals.next, options);
    const before = process.cpuUsage();
    const result = await runner.run(plan);
    const { user, system } = process.cpuUsage(before);
    count(totals, plan, result, (user + system) / 1e6);
    if (result.violations.length > 0) await tellFailure(runner, plan, result, options);
    if (options.progress !== undefined) store(options.progress, totals);
    if (totals.lives % every === 0) report(totals);
  }
  report(totals);
  return totals.failed === 0;
}

function resumed({ progress, from }: CampaignOptions): Totals {
  if (progress !== undefined && existsSync(progress))
    return JSON.parse(readFileSync(progress, "utf8")) as Totals;
  const none = { lives: 0, failed: 0, events: 0, requests: 0, delivered: 0, days: 0, cpuS: 0 };
  return { next: from, ...none, failedSeeds: [], faults: {} };
}

function count(totals: Totals, plan: Plan, result: LifeResult, cpuS: number): void {
  totals.next = plan.seed + 1;
  totals.lives++;
  totals.events += result.events;
  totals.requests += result.requests;
  totals.delivered += result.delivered;
  totals.days += plan.lengthMs / DAY_MS;
  totals.cpuS += cpuS;
  addCounts(totals.faults, result.faults);
  if (result.violations.length === 0) return;
  totals.failed++;
  totals.failedSeeds.push(plan.seed);
}

/** A kill between the two calls leaves the old totals, and one life is lived again. */
function store(file: string, totals: Totals): void {
  writeFileSync(`${file}.new`, JSON.stringify(totals));
  renameSync(`${file}.new`, file);
}

function report({ faults, failedSeeds, days, cpuS, ...totals }: Totals): void {
  const memory = `${Math.round(process.memoryUsage().rss / 1e6)} MB`;
  const each = `${(cpuS / Math.max(1, totals.lives)).toFixed(2)} s of processor time each`;
  console.log(`${JSON.stringify(totals)}, ${Math.round(days)} days, ${each}, ${memory}`);
  const kinds = Object.entries(faults).sort(([a], [b]) => a.localeCompare(b));
  console.log(`  faults: ${kinds.map(([kind, times]) => `${kind} ${times}`).join(", ")}`);
  if (failedSeeds.length > 0) console.log(`  failed: ${failedSeeds.join(", ")}`);
}

async function tellFailure(
  runner: Runner,
  plan: Plan,
  result: LifeResult,
  { long, shrinks }: CampaignOptions,
): Promise<void> {
  const [first] = result.violations;
  console.log(`seed ${plan.seed}${long ? " --long" : ""} fails: ${result.violations.length} violations`);
  console.log(`  ${first!.rule}: ${first!.message}`);
  if (!shrinks) return;
  const small = await shrink(
    plan,
    first!.rule,
    async (candidate) => (await runner.run(candidate)).violations,
  );
  const again = await runner.run(small);
  const file = `sim-failure-${plan.seed}.json`;
  writeFileSync(file, `${JSON.stringify(small, null, 1)}\n`);
  console.log(
    `  shrunk to ${small.faults.length} faults, ${small.organizations.length} organizations: --plan ${file}`,
  );
  for (const { rule, message } of again.violations.slice(0, 3)) console.log(`    ${rule}: ${message}`);
}

/** The families that a command line names; all of them without it. */
export function familiesOf(text: string | undefined): readonly Family[] {
  return text === undefined ? FAMILY_NAMES : (text.split(",") as Family[]);
}
