import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runGuide } from "../docs/guide.ts";
import { linesToRun, wordsOf } from "../docs/lines.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { openWorld, type World } from "../support/world.ts";

const suite = await useKafka();
const shell = promisify(execFile);

/** The commands of docs/kafka.md and docs/cluster.md, over one broker. */
describe.skipIf(suite.skip)("the commands of the guides over Kafka", () => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld({ organizations: 2, events: 60, days: 2 });
  });
  afterAll(() => world?.close());

  const brokers = () => suite.address.split(",");

  test("docs/kafka.md", async () => {
    const place = { brokers: brokers(), tls: undefined, sasl: undefined };
    const lake = { ...place, createTopics: { partitions: 2, replication: 1 } };
    const config = world.configure({
      sinks: [JSON.stringify({ name: "lake", type: "kafka", topic: "directory-events", ...lake })],
    });
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
    await runGuide(world, "docs/kafka.md", {
      sinks: { lake },
      async other(command) {
        const line = command.replace("kafka-1.example:9093", brokers()[0]!);
        // Without -e it waits for more.
        const { stdout } = await shell("bash", ["-c", `${line} -e`], { maxBuffer: 1e8 });
        expect(stdout.trimEnd().split("\n").length).toBeGreaterThan(50);
      },
    });
  });

  test("docs/cluster.md", async () => {
    const sink = `{ name: lake, type: kafka, brokers: ${JSON.stringify(brokers())}, topic: cluster-events, createTopics: { partitions: 2, replication: 1 }, delivery: at_least_once }`;
    const single = world.configure({
      sinks: [sink],
      state: world.at("single.db"),
      file: world.at("single.yaml"),
    });
    expect((await world.run(["run", "--once", "-c", single])).code).toBe(0);
    const configs = ["made", "adopted"].map((name) =>
      world.configure({
        sinks: [sink],
        state: world.at(name),
        file: world.at(`${name}.yaml`),
        more: [`cluster: { name: ${name}, brokers: ${JSON.stringify(brokers())}, trial: true }`],
      }),
    );
    const stop = new AbortController();
    let running: Promise<{ code: number; stderr: string }> | undefined;
    for (const { command } of linesToRun("docs/cluster.md")) {
      const words = wordsOf(command)
        .slice(1)
        .map((word) => word.replace("/var/lib/tidemark/tidemark.db", world.at("single.db")))
        .join(" ")
        // One broker, and a machine that other tests use too.
        .replace("--lanes 16 --replication 3", "--lanes 2 --replication 1")
        .split(" ");
      const config = words[1] === "adopt" ? configs[1]! : configs[0]!;
      if (words[0] === "run") {
        running = world.run([...words, "-c", config], { signal: stop.signal });
        const status = async () => (await world.run(["cluster", "status", "-c", config])).stdout;
        await expect.poll(status, { timeout: 400_000, interval: 500 }).toContain("Every lane runs.");
        continue;
      }
      const { code, stdout, stderr } = await world.run([...words, "-c", config]);
      expect(code, `${command}: ${stdout}${stderr}`).toBe(0);
    }
    stop.abort(new Error("Ctrl-C"));
    const ended = await running;
    expect(ended?.code, ended?.stderr).toBe(0);
  });
});
