import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { control, cpuSeconds, end, firstReadOf, PROGRAM, peakBytes, startSimulator } from "./processes.js";

const LANES = 16;
const LIMIT_MS = 240_000;

/** What each machine of a cluster costs while nothing happens: share of a core and memory. */
export async function benchQuietCluster(kafka, organizations, { machines = 2, cycleSeconds = 30 } = {}) {
  const simulator = await startSimulator(
    ...["--organizations", organizations, "--events", 0, "--live", 0, "--no-late"],
  );
  const cluster = await startCluster(kafka, simulator, machines, { interval: `${cycleSeconds}s` });
  try {
    await firstReadOf(simulator);
    // The first cycles settle the groups that organizations are read in.
    await sleep(2 * cycleSeconds * 1000);
    await control(simulator, "DELETE", "statistics");
    const before = cluster.pids.map(cpuSeconds);
    await sleep(2 * cycleSeconds * 1000);
    const { insightsRequests } = await control(simulator, "GET", "statistics");
    return cluster.pids.map((pid, at) => ({
      machine: at + 1,
      "% of one core": Number((((cpuSeconds(pid) - before[at]) / (2 * cycleSeconds)) * 100).toFixed(2)),
      "peak RSS MB": Math.round(peakBytes(pid) / 1e6),
      "requests a cycle, of all machines": Math.round(insightsRequests / 2),
    }));
  } finally {
    await cluster.end();
    await simulator.stop();
  }
}

/**
 * One machine and three, with an API that answers in 300 ms and a sink that converts to OCSF. `polling` decides whether
 * the API or the processor is the limit. The time runs from the first delivered event to the last one.
 */
export async function benchMachines(kafka, events, polling) {
  const rows = [];
  for (const machines of [1, 3]) rows.push(await deliver(kafka, events, polling, machines));
  return { rows, ratio: Number((rows[1]["events/s"] / rows[0]["events/s"]).toFixed(2)) };
}

async function deliver(kafka, events, polling, machines) {
  const simulator = await startSimulator(
    ...["--organizations", 6 * LANES, "--events", events, "--days", 20, "--live", 0, "--no-late"],
    ...["--fault", JSON.stringify({ kind: "latency", ms: 300, api: "insights" })],
  );
  const cluster = await startCluster(kafka, simulator, machines, polling);
  try {
    await control(simulator, "DELETE", "statistics");
    const expected = await countServed(simulator);
    const { firstMs, lastMs, delivered } = await countDelivered(kafka, cluster.topic, expected);
    const { insightsRequests } = await control(simulator, "GET", "statistics");
    const cpu = cluster.pids.map(cpuSeconds).reduce((sum, seconds) => sum + seconds, 0);
    const seconds = (lastMs - firstMs) / 1000;
    return {
      machines,
      delivered,
      seconds: Number(seconds.toFixed(1)),
      "events/s": Math.round(delivered / seconds),
      requests: insightsRequests,
      "processor s of the machines": Number(cpu.toFixed(1)),
      "of the simulator": Number(cpuSeconds(simulator.pid).toFixed(1)),
    };
  } finally {
    await cluster.end();
    await simulator.stop();
  }
}

/** The events of organizations; the portal has some of its own. */
async function countServed(simulator) {
  let served = 0;
  for (const { id } of simulator.organizations)
    served += (await control(simulator, "GET", `events/count?organization=${id}`)).count;
  return served;
}

/** Makes a cluster and starts its machines. */
async function startCluster(kafka, simulator, machines, polling) {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-"));
  const name = `bench-${randomUUID().slice(0, 8)}`;
  const topic = `${name}-events`;
  const children = [];
  const env = { PATH: process.env.PATH, DIRECTORY_API_KEY: simulator.apiKey };
  const start = (args, machine) => {
    const file = join(folder, `${machine}.yaml`);
    const place = { name, brokers: [kafka], machine, sessionTimeout: "20s", trial: true };
    writeFileSync(
      file,
      configOf(simulator, polling, place, join(folder, machine), { name: "lake", topic, kafka }),
    );
    const options = { stdio: ["ignore", "ignore", "inherit"], env };
    return spawn(process.execPath, [PROGRAM, ...args, "--config", file], options);
  };
  const made = start(["cluster", "create", "--lanes", LANES, "--replication", 1].map(String), "tool");
  const code = await new Promise((resolve) => made.once("exit", resolve));
  if (code !== 0) throw new Error(`"tidemark cluster create" ended with exit code ${code}`);
  for (let machine = 1; machine <= machines; machine++) children.push(start(["run"], `m${machine}`));
  return {
    topic,
    pids: children.map(({ pid }) => pid),
    async end() {
      await Promise.all(children.map(end));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function configOf(simulator, polling, cluster, state, { name, topic, kafka }) {
  const { insightsUrl, managementUrl } = simulator;
  const apiKey = { env: "DIRECTORY_API_KEY" };
  const createTopics = { partitions: 3, replication: 1 };
  return JSON.stringify({
    accounts: [{ name: "bench", insightsUrl, managementUrl, apiKey, organizations: "all", since: "30d" }],
    ...{ state, cluster, polling, log: { level: "error" } },
    sinks: [{ name, type: "kafka", brokers: [kafka], topic, createTopics, format: "ocsf" }],
  });
}

/** Counts the committed records of a topic as they arrive, by kcat, until there are so many or it takes too long. */
async function countDelivered(kafka, topic, expected) {
  const deadline = Date.now() + LIMIT_MS;
  const seen = { delivered: 0, firstMs: 0, lastMs: 0 };
  while (seen.delivered < expected && Date.now() < deadline) {
    // The topic is made by the machines: kcat ends while it is missing.
    seen.delivered = 0;
    const reading = [
      "-C",
      "-q",
      "-u",
      "-o",
      "beginning",
      "-f",
      "%o\n",
      "-X",
      "isolation.level=read_committed",
    ];
    const kcat = spawn("kcat", ["-b", kafka, "-t", topic, ...reading], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const late = setTimeout(() => kcat.kill(), deadline - Date.now());
    const exited = new Promise((resolve) => kcat.once("exit", resolve));
    for await (const _ of createInterface({ input: kcat.stdout })) {
      seen.firstMs ||= Date.now();
      seen.lastMs = Date.now();
      seen.delivered++;
      if (seen.delivered >= expected) break;
    }
    kcat.kill();
    clearTimeout(late);
    await exited;
    await sleep(300);
  }
  if (seen.delivered < expected)
    throw new Error(`${seen.delivered} of ${expected} events were delivered in ${LIMIT_MS / 1000} s`);
  return seen;
}
