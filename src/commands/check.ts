import type { Command } from "commander";
import { checkAccount } from "../app/check/account.ts";
import { checkArchives } from "../app/check/archives.ts";
import type { CheckFinding } from "../app/check/finding.ts";
import { refuseMismatch } from "../app/check/positions.ts";
import { checkServer } from "../app/check/server.ts";
import { advice, checkSinks } from "../app/check/sinks.ts";
import { hasState, runsHere } from "../app/check/state.ts";
import { sharedOrganizations } from "../app/shared-organizations.ts";
import { sinkConfigs } from "../app/sinks.ts";
import { loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { shardText } from "../core/shard.ts";
import { openStateForReading } from "../journal/database.ts";
import { refuseOtherShard } from "../journal/shard.ts";
import { counted } from "./count-words.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly online?: boolean;
  readonly json?: boolean;
}

export function registerCheck(program: Command, io: Io): void {
  withConfig(program.command("check"), "tidemark check --online")
    .summary("check the config, and with --online the service and every sink")
    .description(
      "Checks the config and refuses what `run` would refuse. With --online it also asks the service, explains a wrong key, region, role, organization or plan, checks the port, and asks every sink whether it could deliver. It writes nothing.",
    )
    .option("--online", "ask the service and every sink; writes nothing")
    .option("--json", "one JSON object a line")
    .action(async (flags: Flags) => {
      const { config } = loadConfig(flags.config, io.env);
      const report = (finding: CheckFinding) => {
        if (!finding.ok) io.setExitCode(1);
        const mark = finding.ok ? (finding.warning ? "note" : "ok") : "FAILED";
        io.stdout.write(
          flags.json
            ? `${JSON.stringify(finding)}\n`
            : `${mark.padEnd(6)}  ${finding.subject}: ${finding.message}\n`,
        );
      };
      for await (const finding of findingsOf(config, flags, io)) report(finding);
    });
}

/** The same refusals as `run`, in the same words and with the same exit code, come first. */
async function* findingsOf(config: Config, flags: Flags, io: Io): AsyncGenerator<CheckFinding> {
  const isOnline = flags.online === true;
  const isRunning = runsHere(config);
  const server: CheckFinding[] = [];
  for await (const finding of checkServer(config, isOnline, isRunning)) server.push(finding);
  refuseState(config, isRunning);
  yield {
    subject: flags.config,
    ok: true,
    message: `the config is valid: ${counted(config.accounts.length, "account")}, ${counted(config.sinks.length, "sink")}${config.shard === undefined ? "" : `, shard ${shardText(config.shard)}`}`,
  };
  yield* server;
  for (const { sink, message } of sharedOrganizations(config.accounts, sinkConfigs(config)))
    yield { subject: `sink ${sink}`, ok: true, warning: true, message };
  if (isOnline) for (const account of config.accounts) yield* checkAccount(account, config.shard, io.signal);
  if (!isOnline) {
    for (const sink of sinkConfigs(config)) yield* advice(sink);
    return;
  }
  const { signal, stderr: stdout } = io;
  const log = createLog(io, "error");
  let lanes: number | undefined;
  if (config.cluster !== undefined) {
    const { checkClusterTopics } = await import("../app/check/cluster.ts");
    lanes = yield* checkClusterTopics(config.cluster, log, signal);
  }
  yield* checkSinks(config, { log, signal, stdout, lanes });
  yield* checkArchives(config, lanes, signal);
}

function refuseState(config: Config, isRunning: boolean): void {
  if (!hasState(config)) return;
  const db = openStateForReading(config.state);
  try {
    refuseOtherShard(db, config.state, config.shard);
    refuseMismatch(config, db, isRunning);
  } finally {
    db.close();
  }
}
