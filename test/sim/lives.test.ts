// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FAMILY_NAMES } from "../../sim/families.ts";
import { generate } from "../../sim/generate.ts";
import { REGRESSIONS } from "../../sim/regressions.ts";
import { createRunner, type Runner } from "../../sim/run.ts";

/** TIDEMARK_LIVES=500 lives the seeds from 1 to 500. Time is virtual, so a slow machine only takes longer. */
const LIVES = process.env.TIDEMARK_LIVES;
const SEEDS = LIVES === undefined ? [7, 9, 19, 23] : Array.from({ length: Number(LIVES) }, (_, at) => at + 1);
let runner: Runner;

beforeAll(() => {
  runner = createRunner();
});

afterAll(() => runner.close());

describe("simulated years", { timeout: 600_000 }, () => {
  test.each(SEEDS)("the life of seed %i breaks no promise", async (seed) => {
    const plan = generate(seed, { long: false, families: FAMILY_NAMES });
    expect((await runner.run(plan)).violations).toEqual([]);
  });

  test.each(REGRESSIONS)("$name: not again", async ({ plan }) => {
    const { violations, steps } = await runner.run(plan);
    expect(violations).toEqual([]);
    expect(steps).toBeLessThan(20_000);
  });

  test("a life replays identically", async () => {
    const plan = generate(9, { long: false, families: FAMILY_NAMES });
    const [first, second] = [await runner.run(plan), await runner.run(plan)];
    expect(first.digest).not.toBe("");
    expect(second).toEqual(first);
  });
});
