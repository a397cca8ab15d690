import { PassThrough } from "node:stream";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { registerCoverage } from "../../src/commands/coverage.ts";
import type { Io } from "../../src/commands/io.ts";
import { createView } from "../../src/journal/view/view.ts";
import { fillLarge, fillSmall, makeState, organizationId, type TestState } from "../server/state.ts";

const states: TestState[] = [];
let small: TestState;
let large: TestState;
beforeAll(async () => {
  small = makeState();
  await fillSmall(small);
  large = makeState();
  await fillLarge(large, 3000, 30);
  states.push(small, large);
});
afterAll(() => {
  for (const state of states) state.close();
});

async function coverage(state: TestState, ...args: string[]): Promise<string> {
  const stdout = new PassThrough({ highWaterMark: 100_000_000 });
  const program = new Command().exitOverride();
  registerCoverage(program, { stdout } as unknown as Io, async () => ({
    view: createView(state.db, null, state.options),
    close: async () => {},
  }));
  await program.parseAsync(["coverage", ...args], { from: "user" });
  return (stdout.read() as Buffer | null)?.toString() ?? "";
}

describe("coverage", () => {
  test("begins with a summary, then the gaps, then the days of few organizations", async () => {
    const text = await coverage(small);
    expect(text).toMatch(/^3 organizations, 2 with a problem\.\nTime ranges: 1 complete, 1 read/);
    expect(text).toContain(
      "The service counts 131 events in closed time ranges, 130 are held; 1 time ranges differ.",
    );
    expect(text).toContain("refused: 403: not entitled");
    expect(text).toMatch(/day +unread +read +complete +refused +lost +late +service +held +compared/);
  });

  test("with 3,000 organizations it is bounded: the summary and the worst, not every day", async () => {
    const lines = (await coverage(large)).trimEnd().split("\n");
    expect(lines.length).toBeLessThan(60);
    expect(lines[0]).toMatch(/^3000 organizations/);
    expect(lines.at(-1)).toMatch(/^2980 more\. Choose with --problems/);
  });

  test("--problems shows only organizations with problems, --organization one day by day", async () => {
    const problems = await coverage(small, "--problems");
    expect(problems).toContain("Borealis Bank");
    expect(problems).not.toContain("Aurora Labs");
    const one = await coverage(small, "--organization", organizationId(1));
    expect(one).toContain("Aurora Labs");
    expect(one).not.toContain("Borealis Bank  ");
    const json = (await coverage(small, "--json", "--organization", organizationId(1))).trim().split("\n");
    expect(JSON.parse(json[0]!)).toMatchObject({ organization: organizationId(1), sealedHours: 24 });
  });
});
