import { randomBytes } from "node:crypto";
import { createWriteStream, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { connectKafka } from "../../src/app/cluster/connect-kafka.ts";
import { createMachineBoard } from "../../src/cluster/machines.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { type Broker, readTopic } from "../support/kafka.ts";
import { freePort } from "../support/ports.ts";
import { type Program, runProgram, startProgram } from "../support/program.ts";
import { contentOf, type OtherSinks } from "./other-sinks-campaign.ts";

/** Three machines of a cluster as processes, a simulated service, a broker, and a Kafka sink. */
export interface ClusterScene {
  readonly simulator: Simulator;
  readonly machines: Map<string, Program>;
  configOf(machine: string): string;
  /** What the page of a machine gets from its server. */
  api(machine: string, path: string, method?: "GET" | "POST"): Promise<unknown>;
  folderOf(machine: string): string;
  /** With another build of the program where a script is given. */
  start(machine: string, script?: string): void;
  /** A machine that leaves the group after seconds; with another key of the service. */
  startWithShortLimits(machine: string, key: string, limits: Limits): Program;
  kill(machine: string, signal?: NodeJS.Signals): Promise<void>;
  status(): Promise<Status>;
  /** Until machines have reported since the call that they run every lane; gives the time it took. */
  allRunning(limitMs: number): Promise<number>;
  /** Until the sinks have every event that the service has shown; then lost and repeated ones. */
  account(limitMs: number): Promise<Account>;
  /** The same at this moment, while the service goes on. */
  accountNow(): Promise<Account>;
  command(...args: string[]): ReturnType<typeof runProgram>;
  close(): Promise<void>;
}

export interface Limits {
  readonly unfitMs: number;
  readonly stayAwayMs: number;
}

export interface Status {
  readonly lanes: number;
  readonly unowned: readonly number[];
  readonly machines: readonly {
    readonly machine: string;
    readonly atMs: number;
    readonly lanes: readonly { lane: number; state: string }[];
  }[];
}

export interface Account {
  readonly served: number;
  readonly delivered: number;
  readonly lost: number;
  readonly twice: number;
  /** Lost and repeated events of the sinks beside Kafka, by their names. */
  readonly others: Readonly<Record<string, Pick<Account, "lost" | "twice">>>;
}

/** Long enough for a busy machine: a late heartbeat moves lanes. */
const SESSION_MS = 10_000;
const SHORT_LIMITS = join(import.meta.dirname, "short-limits-driver.js");
/** Where the machines' logs are kept, for a long campaign. */
const LOGS = process.env.TIDEMARK_CLUSTER_LOGS;
const TOKEN = "a-token-of-thirty-two-characters-or-more";

export async function openClusterScene(
  broker: Broker,
  lanes: number,
  events: number,
  others: OtherSinks,
  days = 20,
): Promise<ClusterScene> {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-cluster-"));
  const addresses = broker.address.split(",");
  const brokers = addresses.map((address) => `'${address}'`).join(", ");
  const replication = String(addresses.length);
  const name = `c${randomBytes(4).toString("hex")}`;
  const topic = `${name}-events`;
  const simulator = await startSimulator({
    organizations: lanes * 3,
    events,
    days,
    liveEventsPerSecond: 10,
    lateness: { typicalMs: 500, lateShare: 0.1, lateMs: 5000, tailShare: 0, tailMs: 0 },
  });
  const env = { KEY: simulator.apiKey, TOKEN, ...others.env };
  const machines = new Map<string, Program>();
  const ports = new Map<string, number>();
  for (const machine of ["one", "two", "three"]) ports.set(machine, await freePort());
  const folderOf = (machine: string) => join(folder, machine);
  const configOf = (machine: string) => {
    mkdirSync(folderOf(machine), { recursive: true });
    const file = join(folderOf(machine), "tidemark.yaml");
    writeFileSync(
      file,
      [
        "accounts:",
        `  - { name: acme, insightsUrl: '${simulator.insightsUrl}', managementUrl: '${simulator.managementUrl}', apiKey: { env: KEY }, organizations: all, since: 30d }`,
        `state: ${join(folderOf(machine), "state")}`,
        `cluster: { name: ${name}, brokers: [${brokers}], machine: ${machine}, sessionTimeout: ${SESSION_MS / 1000}s, trial: ${addresses.length < 3} }`,
        "polling: { interval: 2s }",
        ...(ports.has(machine) ? [`server: { port: ${ports.get(machine)}, token: { env: TOKEN } }`] : []),
        "log: { level: info }",
        "sinks:",
        `  - { name: lake, type: kafka, brokers: [${brokers}], topic: ${topic}, positionsTopic: ${name}-positions, createTopics: { partitions: 3, replication: ${replication} }, transactionTimeout: 10s, openTimeout: 10s }`,
        ...others.lines,
      ].join("\n"),
      { mode: 0o600 },
    );
    return file;
  };
  const command = (...args: string[]) => runProgram([...args, "--config", configOf("tool")], env);
  const made = await command("cluster", "create", "--lanes", String(lanes), "--replication", replication);
  if (made.code !== 0) throw new Error(made.stderr);

  async function status(): Promise<Status> {
    const { stdout, stderr, code } = await command("cluster", "status", "--json");
    if (code === 2 || stdout === "") throw new Error(stderr);
    return JSON.parse(stdout) as Status;
  }

  const access = { brokers: addresses, clientId: "campaign" };
  const board = createMachineBoard(name, connectKafka(access, systemClock, silentLog));

  /** Lanes that no machine has reported as running since that time: a killed one cannot take its report back. */
  async function unownedSince(sinceMs: number): Promise<number[]> {
    await board.refresh(AbortSignal.timeout(300_000));
    const running = new Set(
      board
        .list(Date.now())
        .filter(({ atMs }) => atMs > sinceMs)
        .flatMap((machine) => machine.lanes.filter(({ state }) => state === "running"))
        .map(({ lane }) => lane),
    );
    return Array.from({ length: lanes }, (_, lane) => lane).filter((lane) => !running.has(lane));
  }

  async function accountOthers(served: ReadonlySet<string>): Promise<Account["others"]> {
    const found = [...(await others.delivered())].map(([sink, events]) => {
      const counts = new Map<string, number>();
      for (const event of events) counts.set(event, (counts.get(event) ?? 0) + 1);
      const lost = [...served].filter((event) => !counts.has(event)).length;
      return [sink, { lost, twice: [...counts.values()].filter((count) => count > 1).length }] as const;
    });
    return Object.fromEntries(found);
  }

  async function accountNow(): Promise<Account> {
    const served = new Set<string>();
    for (const { id } of simulator.organizations)
      for (const bytes of simulator.control.allEvents({ organization: id, pending: true }))
        served.add(Buffer.from(bytes).toString());
    const records = await readTopic(broker.address, topic).catch(() => []);
    const counts = new Map<string, number>();
    for (const { payload } of records) counts.set(payload!, (counts.get(payload!) ?? 0) + 1);
    const lost = [...served].filter((text) => !counts.has(text)).length;
    const twice = [...counts.values()].filter((count) => count > 1).length;
    const elsewhere = await accountOthers(
      new Set([...served].map((text) => contentOf(JSON.parse(text) as object))),
    );
    return { served: served.size, delivered: records.length, lost, twice, others: elsewhere };
  }

  async function account(limitMs: number): Promise<Account> {
    simulator.control.setLiveRate(0);
    for (const deadline = Date.now() + limitMs; ; ) {
      const found = await accountNow();
      const isComplete = found.lost === 0 && Object.values(found.others).every(({ lost }) => lost === 0);
      if (isComplete || Date.now() > deadline) return found;
      await sleep(1000);
    }
  }

  return {
    simulator,
    machines,
    configOf,
    folderOf,
    api: async (machine, path, method = "GET") =>
      (
        await fetch(`http://127.0.0.1:${ports.get(machine)}${path}`, {
          method,
          headers: { authorization: `Bearer ${TOKEN}` },
        })
      ).json() as Promise<unknown>,
    start(machine, script) {
      const program = startProgram(["run", "--config", configOf(machine)], env, script);
      if (LOGS !== undefined)
        program.child.stderr!.pipe(createWriteStream(join(LOGS, `${machine}.log`), { flags: "a" }));
      machines.set(machine, program);
    },
    startWithShortLimits(machine, key, { unfitMs, stayAwayMs }) {
      const args = [configOf(machine), String(unfitMs), String(stayAwayMs)];
      const program = startProgram(args, { ...env, KEY: key }, SHORT_LIMITS);
      machines.set(machine, program);
      return program;
    },
    async kill(machine, signal) {
      await machines.get(machine)?.kill(signal);
      machines.delete(machine);
    },
    status,
    async allRunning(limitMs) {
      const startMs = Date.now();
      for (;;) {
        const unowned = await unownedSince(startMs).catch(() => [-1]);
        if (unowned.length === 0) return Date.now() - startMs;
        if (Date.now() - startMs > limitMs)
          throw new Error(
            `no machine runs lane ${unowned.join(", ")}:\n${[...machines].map(([at, { stderr }]) => `${at}: ${stderr().slice(-3000)}`).join("\n")}`,
          );
        await sleep(250);
      }
    },
    account,
    accountNow,
    command,
    async close() {
      for (const machine of [...machines.keys()]) await machines.get(machine)!.kill();
      await board.end();
      await simulator.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
