import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { fetchOnce, programOnPath } from "./components.ts";
import { SHORT_LIVED, trainedFlags, trainOnce } from "./java.ts";
import { freePort } from "./ports.ts";

const run = promisify(execFile);
const VERSION = "4.3.1";
const START_MS_MAX = 400_000;
const DATA = "data";

export const KAFKA_REMEDY =
  "needs java, and mvn once: TIDEMARK_REQUIRE=kafka fetches the broker, KAFKA_BROKERS uses an existing one";
export const KCAT_REMEDY = "install kcat";

/** The folder of the broker's jars; undefined where it cannot be had. */
export async function findKafka(): Promise<string | undefined> {
  if (!programOnPath("java")) return undefined;
  return fetchOnce("kafka", `kafka-${VERSION}`, async (folder) => {
    const pom = join(import.meta.dirname, "maven", "kafka", "pom.xml");
    const goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
    const options = ["-DincludeScope=runtime", `-DoutputDirectory=${folder}`];
    await run("mvn", ["-q", "-B", "-f", pom, goal, ...options], { maxBuffer: 16e6 });
  });
}

export interface Listener {
  readonly name: string;
  readonly protocol: "PLAINTEXT" | "SSL" | "SASL_PLAINTEXT" | "SASL_SSL";
  /** Where clients are sent, if not to the listener itself: a proxy's port. */
  readonly advertisedPort?: number;
}

export interface BrokerOptions {
  readonly listeners?: readonly Listener[];
  readonly properties?: Readonly<Record<string, string>>;
  /** As `kafka-storage.sh format --add-scram` takes it. */
  readonly scram?: readonly string[];
}

/** For tests that kill the broker: after kill -9 the new one waits until the old one's session has ended. */
export const QUICK_RESTART = { "broker.session.timeout.ms": "2000" } as const;

export interface Broker {
  /** `host:port` of the plain listener that no proxy stands before. */
  readonly address: string;
  /** The port that a listener of the options is bound to. */
  port(listener: string): number;
  /** kill -9. */
  kill(): Promise<void>;
  /** SIGSTOP: its sockets stay open and answer nothing. */
  hang(): void;
  /** SIGCONT. */
  resume(): void;
  /** After `kill`: the same broker with the same data and ports. Give it QUICK_RESTART. */
  start(): Promise<void>;
  /** Ends it and removes its data. */
  remove(): Promise<void>;
}

/** One Apache Kafka broker with a controller of its own, on free ports, with its data in a temp folder. */
export async function startBroker(jars: string, options: BrokerOptions = {}): Promise<Broker> {
  const folder = await mkdtemp(join(tmpdir(), "tidemark-kafka-"));
  const names = ["DIRECT", "CONTROLLER", ...(options.listeners ?? []).map(({ name }) => name)];
  const free = await freePorts(names.length);
  const ports = new Map(names.map((name, at) => [name, free[at]!]));
  const file = join(folder, "server.properties");
  await writeFile(file, propertiesOf(folder, ports, options));
  const trained = await trainBroker(jars);
  if (options.scram === undefined) await layOut(trained, folder, 1);
  else await format(jars, file, folder, options.scram);
  const flags = trainedFlags(trained);
  let server = await launch(jars, file, folder, flags);
  return {
    address: `127.0.0.1:${ports.get("DIRECT")}`,
    port: (listener) => ports.get(listener)!,
    kill: () => end(server),
    hang: () => void server.kill("SIGSTOP"),
    resume: () => void server.kill("SIGCONT"),
    async start() {
      server = await launch(jars, file, folder, flags);
    },
    async remove() {
      await end(server);
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Several nodes, each a broker and a controller, in one cluster. `kill` and `start` are about one of them, each time another. */
export async function startBrokers(jars: string, count: number): Promise<Broker> {
  const folder = await mkdtemp(join(tmpdir(), "tidemark-kafkas-"));
  const free = await freePorts(count * 2);
  const nodes = Array.from({ length: count }, (_, at) => ({
    at,
    direct: free[at * 2]!,
    controller: free[at * 2 + 1]!,
    file: join(folder, `server-${at}.properties`),
  }));
  const trained = await trainBroker(jars);
  const flags = trainedFlags(trained);
  const voters = nodes.map(({ at, controller }) => `${at + 1}@127.0.0.1:${controller}`).join(",");
  for (const { at, direct, controller, file } of nodes) {
    const properties = {
      ...{ "node.id": String(at + 1), "controller.quorum.voters": voters },
      "offsets.topic.replication.factor": String(count),
      "transaction.state.log.replication.factor": String(count),
      "transaction.state.log.min.isr": "2",
      ...QUICK_RESTART,
    };
    const ports = new Map([
      ["DIRECT", direct],
      ["CONTROLLER", controller],
    ]);
    await writeFile(file, propertiesOf(join(folder, `node-${at}`), ports, { properties }));
    await layOut(trained, join(folder, `node-${at}`), at + 1);
  }
  const servers = await Promise.all(nodes.map(({ file }) => launch(jars, file, folder, flags)));
  let struck = 0;
  return {
    address: nodes.map(({ direct }) => `127.0.0.1:${direct}`).join(","),
    port: () => nodes[0]!.direct,
    async kill() {
      struck = (struck + 1) % count;
      await end(servers[struck]!);
    },
    hang: () => void servers[struck]!.kill("SIGSTOP"),
    resume: () => void servers[struck]!.kill("SIGCONT"),
    async start() {
      servers[struck] = await launch(jars, nodes[struck]!.file, folder, flags);
    },
    async remove() {
      await Promise.all(servers.map(end));
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Starts and ends a broker once, for what later ones need: the classes that Java has loaded, and formatted data. */
function trainBroker(jars: string): Promise<string> {
  return trainOnce(`kafka-${VERSION}`, async (flags, folder) => {
    const work = await mkdtemp(join(tmpdir(), "tidemark-kafka-"));
    const [direct, controller] = await freePorts(2);
    const ports = new Map([
      ["DIRECT", direct!],
      ["CONTROLLER", controller!],
    ]);
    const file = join(work, "server.properties");
    await writeFile(file, propertiesOf(work, ports, {}));
    await format(jars, file, work, []);
    await cp(join(work, DATA), join(folder, DATA), { recursive: true });
    const server = await launch(jars, file, work, flags);
    const exited = once(server, "exit");
    server.kill("SIGTERM");
    await exited;
    await rm(work, { recursive: true, force: true, maxRetries: 5 });
  });
}

async function format(jars: string, file: string, cwd: string, scram: readonly string[]): Promise<void> {
  const users = scram.flatMap((user) => ["--add-scram", user]);
  const args = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", file, ...users];
  await run("java", [...javaOptions(jars, []), "kafka.tools.StorageTool", ...args], { cwd });
}

/** A node's data as `format` leaves it. The id of its directory has to differ from those of other nodes. */
async function layOut(trained: string, folder: string, node: number): Promise<void> {
  await mkdir(folder, { recursive: true });
  await cp(join(trained, DATA), join(folder, DATA), { recursive: true });
  const file = join(folder, DATA, "meta.properties");
  const text = await readFile(file, "utf8");
  const id = randomBytes(16).toString("base64url");
  await writeFile(
    file,
    text.replace(/^node\.id=.*$/m, `node.id=${node}`).replace(/^directory\.id=.*$/m, `directory.id=${id}`),
  );
}

function javaOptions(jars: string, flags: readonly string[]): string[] {
  const logging = [
    "-Dorg.slf4j.simpleLogger.showDateTime=false",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
  ];
  return [...SHORT_LIVED, ...flags, ...logging, "-cp", `${jars}/*${delimiter}`];
}

async function launch(
  jars: string,
  file: string,
  cwd: string,
  flags: readonly string[],
): Promise<ChildProcess> {
  const server = spawn("java", [...javaOptions(jars, flags), "kafka.Kafka", file], {
    cwd,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lines = createInterface({ input: server.stderr! });
  const tail: string[] = [];
  await new Promise<void>((resolve, reject) => {
    const fail = () => reject(new Error(`Kafka did not start:\n${tail.join("\n")}`));
    const timer = setTimeout(fail, START_MS_MAX);
    server.once("exit", fail);
    lines.on("line", (line) => {
      tail.push(line);
      if (tail.length > 40) tail.shift();
      if (!line.includes("Kafka Server started")) return;
      clearTimeout(timer);
      server.off("exit", fail);
      resolve();
    });
  });
  return server;
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const exited = once(server, "exit");
  server.kill("SIGKILL");
  await exited;
}

function propertiesOf(
  folder: string,
  ports: ReadonlyMap<string, number>,
  { listeners = [], properties = {} }: BrokerOptions,
): string {
  const at = (name: string, port?: number) => `${name}://127.0.0.1:${port ?? ports.get(name)}`;
  const all: Record<string, string> = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": `1@127.0.0.1:${ports.get("CONTROLLER")}`,
    listeners: [...ports.keys()].map((name) => at(name)).join(","),
    "advertised.listeners": [
      at("DIRECT"),
      ...listeners.map(({ name, advertisedPort }) => at(name, advertisedPort)),
    ].join(","),
    "listener.security.protocol.map": [
      "DIRECT:PLAINTEXT",
      "CONTROLLER:PLAINTEXT",
      ...listeners.map(({ name, protocol }) => `${name}:${protocol}`),
    ].join(","),
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "DIRECT",
    "log.dirs": join(folder, DATA),
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    // The controller fences a broker that is silent for so long. On a starved machine a short time fences a healthy one:
    // its topics have no leader then, and it leaves out markers of transactions (KAFKA-20734).
    "broker.session.timeout.ms": "120000",
    "broker.heartbeat.interval.ms": "500",
    ...properties,
  };
  return Object.entries(all)
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");
}

async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  return ports;
}

/** A record as kcat, a reader that shares no code with ours, shows it. */
export interface ReadRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly ts: number;
  readonly key: string | null;
  readonly payload: string | null;
  /** Names and values in turn. */
  readonly headers?: readonly string[];
}

/** Everything in a topic up to its end, read with isolation.level=read_committed, as librdkafka sees it. */
export async function readTopic(address: string, topic: string): Promise<readonly ReadRecord[]> {
  // A commit is acknowledged a moment before its markers are written, and what they end can be read.
  await sleep(200);
  const settings = ["isolation.level=read_committed", "enable.partition.eof=true", "check.crcs=true"];
  const options = ["-C", "-J", "-e", "-q", "-o", "beginning", "-m", "30"];
  const { stdout } = await run(
    "kcat",
    ["-b", address, "-t", topic, ...options, ...settings.flatMap((setting) => ["-X", setting])],
    { maxBuffer: 1e9 },
  );
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as ReadRecord);
}

/** The partitions that librdkafka's partitioner, the same as Java's, chooses for these keys. */
export async function placeByKcat(
  address: string,
  topic: string,
  keys: readonly string[],
): Promise<Readonly<Record<string, number>>> {
  const producer = spawn("kcat", [
    "-b",
    address,
    "-t",
    topic,
    "-P",
    "-K",
    "\t",
    "-X",
    "partitioner=murmur2_random",
  ]);
  const closed = once(producer, "close");
  producer.stdin.end(keys.map((key) => `${key}\tplaced\n`).join(""));
  await closed;
  const placed = (await readTopic(address, topic)).filter(({ payload }) => payload === "placed");
  return Object.fromEntries(placed.map(({ key, partition }) => [key, partition]));
}

export interface KafkaForTests {
  /** A broker that exists already, where KAFKA_BROKERS names one: it is not killed, and nothing stands before it. */
  readonly brokers: string | undefined;
  /** Else what is needed to start one. */
  readonly jars: string | undefined;
}

export async function kafkaForTests(): Promise<KafkaForTests> {
  const brokers = process.env.KAFKA_BROKERS || undefined;
  if (brokers === undefined) return { brokers, jars: await findKafka() };
  process.stderr.write(
    "SKIPPED with KAFKA_BROKERS: tests that cut, kill or forbid need a broker of their own\n",
  );
  return { brokers, jars: undefined };
}
