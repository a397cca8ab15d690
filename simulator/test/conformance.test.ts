// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterAll, beforeAll, describe, it } from "vitest";
import type { Simulator } from "../index.ts";
import { rules } from "./conformance/index.ts";
import { startStill } from "./support.ts";

/** The specification, rule by rule; the simulator's README has the same table. */
describe("the simulator keeps the specification", () => {
  let simulator: Simulator;
  beforeAll(async () => {
    const first = await startStill({ events: 0 });
    await first.close();
    simulator = await startStill({
      events: 6_000,
      imports: { failureShare: 0 },
      keys: [
        { key: "single-tenant", organizations: [first.organizations[1]!.id] },
        { key: "templates-only", scopes: ["applicationtemplates.readonly"] },
      ],
    });
  });
  afterAll(() => simulator.close());

  for (const { part, rule, check } of rules) it(`${part}: ${rule}`, () => check(simulator));
});
