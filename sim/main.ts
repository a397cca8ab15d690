import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { campaign, familiesOf } from "./campaign.ts";
import { FAMILY_NAMES } from "./families.ts";
import { generate } from "./generate.ts";
import type { LifeResult } from "./life.ts";
import type { Plan } from "./plan.ts";
import { createRunner, printingLog, type Runner } from "./run.ts";

const USAGE = `npm run sim -- [options]
  --seeds N --from K   N lives from seed K on (default: 100 from 1)
  --seed X             one life, printed in full
  --long               lives of 90 days
  --plan FILE          one life from a file, such as a shrunk one
  --families A,B       only these families of faults: ${FAMILY_NAMES.join(", ")}
  --no-shrink          leave failing lives as they are
  --minutes M          stop after so long
  --progress FILE      keep the totals in this file; the same command goes on from there
  --log                the program's own log, for one life
  --brief              only the first broken promise of one life
  --mutants [--rules R1,R2]  break each rule in a copy of the sources and show that a life notices`;

const { values } = parseArgs({
  allowNegative: true,
  options: {
    seeds: { type: "string", default: "100" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    long: { type: "boolean", default: false },
    plan: { type: "string" },
    families: { type: "string" },
    shrink: { type: "boolean", default: true },
    minutes: { type: "string" },
    progress: { type: "string" },
    log: { type: "boolean", default: false },
    brief: { type: "boolean", default: false },
    mutants: { type: "boolean", default: false },
    rules: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
const families = familiesOf(values.families);

/** One life, printed in full, and lived twice to see that it is the same. */
async function single(runner: Runner, plan: Plan): Promise<boolean> {
  if (values.brief) return brief(await runner.run(plan));
  console.log(JSON.stringify(plan, null, 1));
  const result = await runner.run(plan, values.log ? printingLog(console.log) : undefined);
  const again = await runner.run(plan);
  console.log(JSON.stringify(result, null, 1));
  console.log(
    result.digest === again.digest ? "The second life is the same." : "The second life is another one!",
  );
  return result.violations.length === 0 && result.digest === again.digest;
}

function brief({ violations: [first] }: LifeResult): boolean {
  if (first !== undefined) console.log(`${first.rule}: ${first.message}`);
  return first === undefined;
}

async function main(): Promise<boolean> {
  if (values.help) {
    console.log(USAGE);
    return true;
  }
  if (values.mutants) return (await import("./mutate.ts")).runMutants(values.rules);
  const runner = createRunner();
  try {
    if (values.plan !== undefined)
      return await single(runner, JSON.parse(readFileSync(values.plan, "utf8")) as Plan);
    if (values.seed !== undefined)
      return await single(runner, generate(Number(values.seed), { long: values.long, families }));
    return await campaign(runner, {
      ...{ families, long: values.long, shrinks: values.shrink, progress: values.progress },
      from: Number(values.from),
      count: Number(values.seeds),
      minutes: Number(values.minutes ?? Number.POSITIVE_INFINITY),
    });
  } finally {
    runner.close();
  }
}

process.exitCode = (await main()) ? 0 : 1;
