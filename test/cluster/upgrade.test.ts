import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipUnless } from "../support/components.ts";
import { type Broker, findKafka, KAFKA_REMEDY, startBroker } from "../support/kafka.ts";
import { buildBefore } from "../support/older-build.ts";
import { type ClusterScene, openClusterScene } from "./machines-campaign.ts";

const jars = await findKafka();
/** The last build with another schema of the state. */
const older = await buildBefore("src/journal/migrations/0023-requests-of-a-cluster.sql");
const LANES = 3;
const EVENTS = 1500;
const LIMIT_MS = 400_000;
const MACHINES = ["one", "two", "three"];

describe.skipIf(skipUnless("kafka", jars, KAFKA_REMEDY) || older === undefined)("a rolling upgrade", () => {
  let broker: Broker;
  let scene: ClusterScene;
  beforeAll(async () => {
    broker = await startBroker(jars!);
    scene = await openClusterScene(broker, LANES, EVENTS, {
      ...{ lines: [], env: {}, delivered: async () => new Map(), close: async () => {} },
    });
  });
  afterAll(async () => {
    await scene?.close();
    await broker?.remove();
  });

  async function runningOn(): Promise<ReadonlySet<string>> {
    const { machines } = await scene.status();
    return new Set(
      machines.flatMap(({ machine, lanes }) =>
        lanes.some(({ state }) => state === "running") ? [machine] : [],
      ),
    );
  }

  test("C14 an older build and this one share a cluster: lanes go only to those that know their rows, lost 0, twice 0", async () => {
    for (const machine of MACHINES) scene.start(machine, older);
    await scene.allRunning(LIMIT_MS);
    for (const machine of MACHINES) {
      await scene.kill(machine, "SIGTERM");
      scene.start(machine);
      await scene.allRunning(LIMIT_MS);
      // One new machine of three runs nothing: the others could not take its lanes back.
      if (machine === "one") expect([...(await runningOn())].sort()).toEqual(["three", "two"]);
    }
    const { lost, twice, served } = await scene.account(LIMIT_MS);
    expect({ lost, twice }).toEqual({ lost: 0, twice: 0 });
    expect(served).toBeGreaterThan(EVENTS / 2);
    // A machine that goes back to the older build gets no lane, and the lanes run on.
    await scene.kill("one", "SIGTERM");
    scene.start("one", older);
    await scene.allRunning(LIMIT_MS);
    expect(await runningOn()).not.toContain("one");
  }, 1_200_000);
});
