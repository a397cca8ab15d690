// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FAMILY_NAMES } from "../../sim/families.ts";
import { generate } from "../../sim/generate.ts";
import { createRunner, type Runner } from "../../sim/run.ts";

/** TIDEMARK_CLUSTER_LIVES=100 lives the seeds from 1 to 100. */
const LIVES = process.env.TIDEMARK_CLUSTER_LIVES;
const SEEDS = LIVES === undefined ? [7, 19] : Array.from({ length: Number(LIVES) }, (_, at) => at + 1);
let runner: Runner;

beforeAll(() => {
  runner = createRunner();
});

afterAll(() => runner.close());

describe("simulated years with the state in a changelog", { timeout: 600_000 }, () => {
  test.each(SEEDS)("C4 the life of seed %i on two machines breaks no promise", async (seed) => {
    const plan = generate(seed, { long: false, families: FAMILY_NAMES });
    const { violations, events, delivered } = await runner.run(plan, undefined, { cluster: true });
    expect(violations).toEqual([]);
    expect(delivered).toBeGreaterThan(0);
    expect(events).toBeGreaterThan(0);
  });
});
