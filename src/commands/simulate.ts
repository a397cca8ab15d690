import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type Command, InvalidArgumentError } from "commander";
import type { Fault, Simulator, SimulatorOptions } from "../../simulator/index.ts";
import type { Receiver } from "../../simulator/receiver.ts";
import type { Io } from "./io.ts";
import { collect } from "./management.ts";

interface Flags {
  readonly port: number;
  readonly host: string;
  readonly seed: number;
  readonly organizations: number;
  readonly events: number;
  readonly days: number;
  readonly eventBytes: number;
  readonly live: number;
  readonly late: boolean;
  readonly clock?: string;
  readonly speed: number;
  readonly skew: number;
  readonly apiKey?: string;
  readonly optionalEndpoints: boolean;
  readonly exporterServices: boolean;
  readonly gzip: boolean;
  readonly file?: string;
  readonly fault: readonly Fault[];
  readonly throttle?: number;
  readonly headerBytesMax?: number;
  readonly importPace: number;
  readonly importFailures: number;
  readonly importUsers: number;
  readonly receiver?: number;
  readonly receiverRefuses: readonly string[];
  readonly options?: string;
  readonly json?: boolean;
}

const examples = `
Examples:
  $ tidemark simulate
  $ tidemark simulate --port 8080 --organizations 200 --events 1000000 --live 50
  $ tidemark simulate --clock 2025-03-01T12:00:00Z --speed 60 --json
  $ tidemark simulate --fault '{"kind":"status","status":429,"retryAfter":2,"share":0.1}'
  $ curl -s http://127.0.0.1:8080/_control/statistics`;

/** `tidemark simulate`: the directory service in this process, until a signal stops it. */
export function registerSimulate(program: Command, io: Io): void {
  program
    .command("simulate")
    .summary("run the directory service that the exporter reads, with made-up events")
    .description(
      "Runs a service that answers like the directory's Insights and management APIs, for tests and demos.",
    )
    .option("--port <port>", "port to listen on, 0 for any free one; e.g. --port 8080", integer, 0)
    .option("--host <address>", "address to listen on; e.g. --host 0.0.0.0", "127.0.0.1")
    .option("--seed <number>", "the same seed and clock give the same events; e.g. --seed 7", integer, 1)
    .option("--organizations <count>", "number of organizations; e.g. --organizations 200", integer, 5)
    .option("--events <count>", "events of history; e.g. --events 1000000", integer, 10_000)
    .option("--days <count>", "days of history; e.g. --days 90", integer, 30)
    .option(
      "--event-bytes <bytes>",
      "approximate mean size of an event; e.g. --event-bytes 2000",
      integer,
      1024,
    )
    .option("--live <perSecond>", "new events per second of its clock; e.g. --live 50", decimal, 5)
    .option("--no-late", "make every event visible at once instead of indexing some late; e.g. --no-late")
    .option("--clock <time>", "where its clock starts; e.g. --clock 2025-03-01T12:00:00Z")
    .option(
      "--speed <factor>",
      "how fast its clock runs; e.g. --speed 60 for a minute per second",
      decimal,
      1,
    )
    .option("--skew <ms>", "how wrong its clock is, in milliseconds; e.g. --skew=-90000", decimal, 0)
    .option("--api-key <key>", "the administrator's key; e.g. --api-key test-key")
    .option(
      "--optional-endpoints",
      "also serve count, interval and distinct; e.g. --optional-endpoints",
      false,
    )
    .option(
      "--exporter-services",
      "also accept the service names that the vendor's exporter sends; e.g. --exporter-services",
      false,
    )
    .option("--no-gzip", "never compress answers; e.g. --no-gzip")
    .option("--file <path>", "keep its state in this SQLite file; e.g. --file world.db")
    .option("--fault <json>", `a failure, repeatable; e.g. --fault '{"kind":"latency","ms":200}'`, fault, [])
    .option(
      "--throttle <perSecond>",
      "answer 429 above this many requests a second; e.g. --throttle 20",
      decimal,
    )
    .option("--header-bytes-max <bytes>", "answer 431 above this; e.g. --header-bytes-max 16384", integer)
    .option(
      "--import-pace <perSecond>",
      "users that an import handles per second; e.g. --import-pace 2",
      decimal,
      20,
    )
    .option(
      "--import-failures <share>",
      "share of users that fail in an import; e.g. --import-failures 0.1",
      decimal,
      0.04,
    )
    .option(
      "--import-users <count>",
      "users that an import source offers; e.g. --import-users 500",
      integer,
      25,
    )
    .option(
      "--receiver <port>",
      "also run a destination to practise with, which takes events over HTTP; e.g. --receiver 8088",
      integer,
    )
    .option(
      "--receiver-refuses <eventType>",
      "an event type that the receiver refuses, repeatable; e.g. --receiver-refuses sso_auth",
      collect,
      [],
    )
    .option(
      "--options <file>",
      "further options as JSON, see the simulator's README; e.g. --options world.json",
    )
    .option("--json", "print one line of JSON when it is ready; e.g. --json")
    .addHelpText("after", examples)
    .action((flags: Flags) => simulate(flags, io));
}

async function simulate(flags: Flags, io: Io): Promise<void> {
  const further =
    flags.options === undefined
      ? {}
      : (JSON.parse(await readFile(flags.options, "utf8")) as SimulatorOptions);
  const { startSimulator } = await import("../../simulator/index.ts");
  const simulator = await startSimulator({ ...optionsOf(flags), ...further });
  try {
    const receiver = await receiverOf(flags);
    const print =
      flags.json === true
        ? (...args: Parameters<typeof summary>) => `${JSON.stringify(summary(...args))}\n`
        : words;
    io.stdout.write(print(simulator, receiver));
    if (!io.signal.aborted) await once(io.signal, "abort");
    await receiver?.close();
  } finally {
    await simulator.close();
  }
}

async function receiverOf(flags: Flags): Promise<Receiver | undefined> {
  if (flags.receiver === undefined) return undefined;
  const { startReceiver } = await import("../../simulator/receiver.ts");
  return startReceiver({ port: flags.receiver, host: flags.host, refuses: flags.receiverRefuses });
}

function optionsOf(flags: Flags): SimulatorOptions {
  const { port, host, seed, organizations, events, days, eventBytes, optionalEndpoints, gzip } = flags;
  return {
    ...{ port, host, seed, organizations, events, days, eventBytes, optionalEndpoints, gzip },
    ...(flags.exporterServices ? { furtherServices: "exporter" as const } : {}),
    liveEventsPerSecond: flags.live,
    ...(flags.late ? {} : { lateness: "none" }),
    clock: {
      ...(flags.clock === undefined ? {} : { start: flags.clock }),
      speed: flags.speed,
      skewMs: flags.skew,
    },
    ...(flags.apiKey === undefined ? {} : { apiKey: flags.apiKey }),
    ...(flags.file === undefined ? {} : { file: flags.file }),
    faults: flags.fault,
    ...(flags.throttle === undefined ? {} : { throttle: { requestsPerSecond: flags.throttle } }),
    ...(flags.headerBytesMax === undefined ? {} : { headerBytesMax: flags.headerBytesMax }),
    imports: {
      usersPerSecond: flags.importPace,
      failureShare: flags.importFailures,
      sourceUsers: flags.importUsers,
    },
  };
}

function summary(simulator: Simulator, receiver: Receiver | undefined) {
  const { url, insightsUrl, managementUrl, apiKey, keys, organizations, providerId, oauth } = simulator;
  return {
    ...{ url, insightsUrl, managementUrl, apiKey, keys, organizations, providerId, oauth },
    ...(receiver === undefined ? {} : { receiver: { url: receiver.url, token: receiver.token } }),
  };
}

function words(simulator: Simulator, receiver: Receiver | undefined): string {
  const shown = simulator.organizations.slice(0, 10).map(({ id, name }) => `  ${id}  ${name}`);
  const more = simulator.organizations.length - shown.length;
  return [
    `The simulated directory listens at ${simulator.url}`,
    `  insights    ${simulator.insightsUrl}/insights/directory/v1/events`,
    `  management  ${simulator.managementUrl}`,
    `  control     ${simulator.url}/_control/`,
    `  x-api-key   ${simulator.apiKey}`,
    `  provider    ${simulator.providerId}`,
    `  OAuth       ${simulator.oauth.tokenUrl}, client ${simulator.oauth.clientId}`,
    `Organizations (${simulator.organizations.length}):`,
    ...shown,
    ...(more > 0 ? [`  … and ${more} more`] : []),
    ...(receiver === undefined
      ? []
      : [
          `The receiver listens at ${receiver.url}`,
          `  events      POST ${receiver.url}/events, with the token ${receiver.token}`,
          `  received    GET ${receiver.url}/`,
        ]),
    "Stop it with Ctrl-C.",
    "",
  ].join("\n");
}

function integer(text: string): number {
  if (!/^-?\d+$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

function decimal(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new InvalidArgumentError("It must be a number.");
  return value;
}

function fault(text: string, previous: readonly Fault[]): readonly Fault[] {
  try {
    return [...previous, JSON.parse(text) as Fault];
  } catch {
    throw new InvalidArgumentError("It must be JSON.");
  }
}
