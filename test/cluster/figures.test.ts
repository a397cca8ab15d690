import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, test } from "vitest";
import { type SimulatorOptions, startSimulator } from "../../simulator/index.ts";
import { type Broker, findKafka, readTopic, startBroker } from "../support/kafka.ts";
import { runProgram, startProgram } from "../support/program.ts";

/*
 * Figures of docs/cluster.md that need a quiet machine. TIDEMARK_CLUSTER_FIGURES=quiet measures the processor time of
 * machines with 10,000 organizations without events, TIDEMARK_CLUSTER_FIGURES=speed three machines against one.
 */
const WANTED = process.env.TIDEMARK_CLUSTER_FIGURES ?? "";
const ORGANIZATIONS = Number(process.env.TIDEMARK_CLUSTER_ORGANIZATIONS ?? 10_000);
const EVENTS = Number(process.env.TIDEMARK_CLUSTER_EVENTS ?? 60_000);
const LANES = 16;
const MEASURED_MS = 60_000;
const LIMIT_MS = 240_000;
const TICKS_PER_SECOND = 100;

/** User and system time of a process so far. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

describe.skipIf(WANTED === "")("figures of a cluster", () => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await startBroker((await findKafka())!);
  });
  afterAll(() => broker?.remove());

  async function machines(count: number, options: SimulatorOptions, polling: string) {
    const folder = mkdtempSync(join(tmpdir(), "tidemark-figures-"));
    const name = `f${randomBytes(4).toString("hex")}`;
    const simulator = await startSimulator({ liveEventsPerSecond: 0, lateness: "none", ...options });
    const env = { KEY: simulator.apiKey, TIDEMARK_POISON_MEMORY: "0" };
    const configOf = (machine: string) => {
      const file = join(folder, `${machine}.yaml`);
      const lines = [
        `accounts: [{ name: acme, insightsUrl: '${simulator.insightsUrl}', managementUrl: '${simulator.managementUrl}', apiKey: { env: KEY }, organizations: all, since: 30d }]`,
        `state: ${join(folder, machine)}`,
        `cluster: { name: ${name}, brokers: ['${broker.address}'], machine: ${machine}, sessionTimeout: 30s, trial: true }`,
        `polling: { ${polling} }`,
        `sinks: [{ name: lake, type: kafka, brokers: ['${broker.address}'], topic: ${name}-events, positionsTopic: ${name}-positions, createTopics: { partitions: 3, replication: 1 }, format: ocsf }]`,
      ];
      writeFileSync(file, lines.join("\n"), { mode: 0o600 });
      return file;
    };
    const lanes = ["--lanes", String(LANES), "--replication", "1"];
    const made = await runProgram(["cluster", "create", ...lanes, "--config", configOf("tool")], env);
    if (made.code !== 0) throw new Error(made.stderr);
    const programs = Array.from({ length: count }, (_, at) =>
      startProgram(["run", "--config", configOf(`m${at}`)], env),
    );
    return {
      simulator,
      topic: `${name}-events`,
      cpu: () => programs.map(({ child }) => cpuSeconds(child.pid!)),
      async end() {
        for (const program of programs) await program.kill();
        await simulator.close();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  }

  test.skipIf(WANTED !== "quiet")(
    `${ORGANIZATIONS} quiet organizations`,
    async () => {
      const scene = await machines(2, { organizations: ORGANIZATIONS, events: 0 }, "interval: 30s");
      try {
        const requests = () => scene.simulator.control.statistics().insightsRequests;
        // The first read is over when two looks in a row see no more than the live tails.
        for (let last = -1, calm = 0; calm < 3; ) {
          await sleep(10_000);
          const now = requests();
          calm = now > 0 && now - last < ORGANIZATIONS / 50 ? calm + 1 : 0;
          last = now;
        }
        const before = scene.cpu();
        await sleep(MEASURED_MS);
        const shares = scene.cpu().map((after, at) => ((after - before[at]!) / MEASURED_MS) * 100_000);
        process.stderr.write(
          `quiet cluster: ${shares.map((share) => share.toFixed(1)).join(", ")} % of a core\n`,
        );
      } finally {
        await scene.end();
      }
    },
    400_000,
  );

  test.skipIf(WANTED !== "speed")(
    "three machines against one",
    async () => {
      for (const count of [1, 3]) {
        const options = { organizations: 48, events: EVENTS, days: 20 };
        const faults = [{ kind: "latency", ms: 300, api: "insights" }] as const;
        const scene = await machines(count, { ...options, faults }, "interval: 30s");
        try {
          const expected = scene.simulator.control.countEvents({ pending: true });
          const startMs = Date.now();
          let firstMs = 0;
          let seen = 0;
          while (seen < expected && Date.now() - startMs < LIMIT_MS) {
            await sleep(500);
            seen = (await readTopic(broker.address, scene.topic).catch(() => [])).length;
            if (seen > 0 && firstMs === 0) firstMs = Date.now();
          }
          const cpu = scene.cpu().map((seconds) => seconds.toFixed(1));
          process.stderr.write(
            `${count} machines: ${seen} of ${expected} events, ${Date.now() - startMs} ms after the start, ${Date.now() - firstMs} ms after the first event; processor seconds ${cpu.join(", ")}\n`,
          );
        } finally {
          await scene.end();
        }
      }
    },
    600_000,
  );
});
