import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipUnless } from "../support/components.ts";
import { type Broker, findKafka, KAFKA_REMEDY, startBroker } from "../support/kafka.ts";
import { type ClusterScene, openClusterScene } from "./machines-campaign.ts";

const jars = await findKafka();

describe.skipIf(skipUnless("kafka", jars, KAFKA_REMEDY))("machines of a cluster", () => {
  let broker: Broker;
  let scene: ClusterScene;
  beforeAll(async () => {
    broker = await startBroker(jars!);
    scene = await openClusterScene(broker, 4, 2000);
  });
  afterAll(async () => {
    await scene?.close();
    await broker?.remove();
  });

  test("two machines share the lanes, one that is killed is replaced, and every event arrives once", async () => {
    scene.start("one");
    scene.start("two");
    await scene.allRunning(60_000);
    await scene.kill("one");
    scene.start("three");
    await scene.allRunning(60_000);
    const { lost, twice } = await scene.account(60_000);
    expect({ lost, twice }).toEqual({ lost: 0, twice: 0 });
  });
});
