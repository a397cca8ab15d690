import type { Command } from "commander";
import type { Config } from "../config/schema.ts";
import { UsageError } from "../core/errors.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { withConfig } from "./options.ts";

const LANES = 16;
const LANES_MAX = 1024;
const REPLICATION = 3;
const REPLICATION_MAX = 32;

export function registerCluster(program: Command, io: Io): void {
  const cluster = program
    .command("cluster")
    .summary("make a cluster and see its machines")
    .description("Many machines that share the work, with the state in Kafka. See docs/cluster.md.");
  withConfig(cluster.command("create"), "tidemark cluster create --lanes 16 --replication 3")
    .summary("make the topics of a new cluster")
    .description(
      "Makes the topics of the cluster that the config names, with the settings that they need, and writes a birth record into each lane. It is done once: the number of lanes stays as it is. Machines refuse to run without these records, so that a lost topic is never silently begun anew.",
    )
    .option("--lanes <number>", "parts that the work is cut into", String(LANES))
    .option("--replication <number>", "replicas of each topic", String(REPLICATION))
    .action(async (flags: { config: string; lanes: string; replication: string }) => {
      const config = await clusterConfig(flags.config, io);
      const lanes = numberOf("--lanes", flags.lanes, LANES_MAX);
      const replication = numberOf("--replication", flags.replication, REPLICATION_MAX);
      const { name, trial } = config.cluster;
      const { connectKafka } = await import("../app/cluster/connect-kafka.ts");
      const { createTopics, finishTopics, writeBirths } = await import("../cluster/topics.ts");
      const { createKafkaChangelog } = await import("../cluster/kafka-changelog.ts");
      const { systemClock } = await import("../core/clock.ts");
      const connect = connectKafka(config.cluster, systemClock, createLog(io, config.log.level));
      const link = await connect(io.signal);
      const topics = { name, lanes, replication, trial };
      const changelog = createKafkaChangelog({ name, connect, transactionTimeoutMs: 10_000 });
      let id: string;
      try {
        await createTopics(link, topics);
        id = await writeBirths(changelog, lanes, io.signal);
        await finishTopics(link, topics);
      } finally {
        link.end();
      }
      io.stdout.write(
        `The cluster "${name}" is made: ${lanes} lanes, id ${id}. Start "tidemark run" with this config on every machine.\n`,
      );
    });
  withConfig(cluster.command("adopt"), "tidemark cluster adopt /var/lib/tidemark/tidemark.db --lanes 16")
    .summary("make a cluster from the state of a single Tidemark or of all shards")
    .description(
      "Makes the cluster that the config names and gives it the state of these files: what was read is not read as new again. Everything must be delivered before, so stop the old process and let `tidemark run --once` finish. The files are kept and marked, so that no process goes on with them.",
    )
    .argument("<state...>", "the state file of a single Tidemark, or the files of all shards")
    .option("--lanes <number>", "parts that the work is cut into", String(LANES))
    .option("--replication <number>", "replicas of each topic", String(REPLICATION))
    .action(
      async (files: readonly string[], flags: { config: string; lanes: string; replication: string }) => {
        const config = await clusterConfig(flags.config, io);
        const lanes = numberOf("--lanes", flags.lanes, LANES_MAX);
        const replication = numberOf("--replication", flags.replication, REPLICATION_MAX);
        const { adopt } = await import("../app/cluster/adopt.ts");
        const log = createLog(io, config.log.level);
        const id = await adopt(config, files, { lanes, replication }, { log, signal: io.signal });
        io.stdout.write(
          `The cluster "${config.cluster.name}" has the state of ${files.join(", ")}: ${lanes} lanes, id ${id}. Start "tidemark run" with this config on every machine.\n`,
        );
      },
    );
  withConfig(cluster.command("status"), "tidemark cluster status")
    .summary("show machines and lanes")
    .description(
      "Shows the machines of the cluster and the lanes that each runs, as they last reported. Exits with 1 when a lane is not running anywhere.",
    )
    .option("--json", "print JSON")
    .action(async (flags: { config: string; json?: boolean }) => showStatus(flags, io));
}

async function showStatus(flags: { config: string; json?: boolean }, io: Io): Promise<void> {
  const config = await clusterConfig(flags.config, io);
  const { connectKafka } = await import("../app/cluster/connect-kafka.ts");
  const { checkTopics } = await import("../cluster/topics.ts");
  const { createMachineBoard } = await import("../cluster/machines.ts");
  const { lanesWithoutOwner } = await import("../cluster/owners.ts");
  const { systemClock } = await import("../core/clock.ts");
  const connect = connectKafka(config.cluster, systemClock, createLog(io, config.log.level));
  const link = await connect(io.signal);
  const { lanes, problems } = await checkTopics(
    link,
    config.cluster.name,
    config.cluster.trial,
    io.signal,
  ).finally(() => link.end());
  const board = createMachineBoard(config.cluster.name, connect);
  await board.refresh(io.signal).finally(() => board.end());
  const machines = board.list(Date.now());
  const unowned = lanesWithoutOwner(lanes, machines);
  if (flags.json) io.stdout.write(`${JSON.stringify({ lanes, machines, unowned, problems }, null, 2)}\n`);
  else io.stdout.write(statusText(config.cluster.name, lanes, machines, unowned, problems));
  if (unowned.length > 0) io.setExitCode(1);
}

type Machines = ReturnType<ReturnType<typeof import("../cluster/machines.ts").createMachineBoard>["list"]>;

function statusText(
  name: string,
  lanes: number,
  machines: Machines,
  unowned: readonly number[],
  problems: readonly string[],
): string {
  const lines = [`Cluster ${name}: ${lanes} lanes, ${machines.length} machines.`];
  for (const { machine, version, atMs, lanes: own, alarms } of machines) {
    lines.push(`${machine} (${version}, reported at ${new Date(atMs).toISOString()}):`);
    for (const { lane, state, sinceMs, behindEvents, reason } of own)
      lines.push(
        `  lane ${lane}: ${state} since ${new Date(sinceMs).toISOString()}, ${behindEvents > 0 ? "up to " : ""}${behindEvents} events behind${reason === undefined ? "" : `, ${reason}`}`,
      );
    for (const { message } of alarms) lines.push(`  alarm: ${message}`);
  }
  const opening = unowned.filter((lane) =>
    machines.some((machine) => machine.lanes.some((own) => own.lane === lane && own.state === "opening")),
  );
  const alone = unowned.filter((lane) => !opening.includes(lane));
  if (unowned.length === 0) lines.push("Every lane runs.");
  if (opening.length > 0) lines.push(`Being opened, and not running yet: lane ${opening.join(", ")}.`);
  if (alone.length > 0) lines.push(`No machine runs lane ${alone.join(", ")}.`);
  return `${[...lines, ...problems].join("\n")}\n`;
}

type WithCluster = Config & { readonly cluster: NonNullable<Config["cluster"]> };

async function clusterConfig(file: string, io: Io): Promise<WithCluster> {
  const { loadConfig } = await import("../config/load.ts");
  const { config } = loadConfig(file, io.env);
  if (config.cluster === undefined)
    throw new UsageError(`The config ${file} has no "cluster": see docs/cluster.md.`);
  return config as WithCluster;
}

function numberOf(flag: string, text: string, max: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= 1 && number <= max) return number;
  throw new UsageError(`${flag} is a whole number from 1 to ${max}, not ${text}.`);
}

/** Commands that work on one state file, which a cluster does not have. */
const OF_ONE_FILE = ["tap", "backup", "restore", "drift", "doctor", "rebuild-index", "search", "sql"];

/** Throws for a command that works on one state file when the config runs a cluster. */
export async function refuseInCluster(name: string, configFile: string | undefined, io: Io): Promise<void> {
  if (!OF_ONE_FILE.includes(name) || configFile === undefined) return;
  const { existsSync } = await import("node:fs");
  if (!existsSync(configFile)) return;
  const { loadConfigForReading } = await import("../config/load.ts");
  let isCluster = false;
  try {
    isCluster = loadConfigForReading(configFile, io.env).config.cluster !== undefined;
  } catch {
    // The command itself reports a config that cannot be loaded.
  }
  if (!isCluster) return;
  throw new UsageError(
    `"tidemark ${name}" works on one state file, and this config runs a cluster, whose state is in Kafka. See the machines with "tidemark cluster status", and look at the page of a machine for the rest.`,
  );
}
