import { describe, expect, test } from "vitest";
import { useKafka } from "../support/kafka-suite.ts";
import { openWorld } from "../support/world.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();

describe.skipIf(suite.skip)("commands about a cluster without machines", () => {
  test("no command says that there is nothing: lists end with exit code 1 and name the lanes", async () => {
    const { name } = await newCluster(suite.address, 2);
    const world = await openWorld({ organizations: 1, events: 10, days: 1 });
    try {
      const brokers = JSON.stringify(suite.address.split(","));
      const config = world.configure({
        sinks: [`{ name: lake, type: kafka, brokers: ${brokers}, topic: t }`],
        state: world.at("lanes"),
        more: [`cluster: { name: ${name}, brokers: ${brokers}, trial: true }`],
      });
      const MISSING = "No machine answers for lanes 0-1";
      for (const line of [
        "dead-letters list",
        "dead-letters list --json",
        "dead-letters list --group x",
        "coverage",
        "coverage --json",
        "coverage --problems",
        "imports list",
        "imports list --json",
        "imports runs",
        "status",
        "status --json",
      ]) {
        const { code, stdout, stderr } = await world.run([...line.split(" "), "-c", config]);
        expect(code, line).toBe(1);
        expect(stderr, line).toContain(`This is not complete: ${MISSING}`);
        expect(stdout, line).not.toMatch(/There are no|Nothing has been planned|No organization has/);
      }
      for (const line of [
        "dead-letters show 1024",
        "imports show 1",
        "imports watch 1",
        "imports export 1",
      ]) {
        const { code, stderr } = await world.run([...line.split(" "), "-c", config]);
        expect(code, line).toBe(1);
        expect(stderr, line).toContain("No machine answers for lane");
      }
    } finally {
      await world.close();
    }
  });
});
