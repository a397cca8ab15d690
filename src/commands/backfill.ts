import type { Command } from "commander";
import { loadConfig } from "../config/load.ts";
import { UsageError } from "../core/errors.ts";
import { change } from "./change.ts";
import type { Io } from "./io.ts";
import { listOption, timeOption, withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly since: number;
  readonly until?: number;
  readonly account?: string;
  readonly organization?: string[];
  readonly service?: string[];
  readonly sink?: string;
}

/** `tidemark backfill` and `tidemark reconcile`: reading the past, and comparing it with the service. */
export function registerBackfill(program: Command, io: Io): void {
  withStretch(program.command("backfill"), "tidemark backfill --since 90d --organization 5f0c…")
    .summary("read a time range of the past that has not been read")
    .description(
      "Reads a time range that has not been read yet. With --sink, reads it again for that sink alone. A running process does the work; without one it is done now.",
    )
    .option("--service <names>", "these services instead of the account's", listOption)
    .option("--sink <name>", "for this sink alone, even if it was read before")
    .action(async (flags: Flags) => {
      const { config } = loadConfig(flags.config, io.env);
      const body = { ...stretchOf(flags), services: flags.service, sink: flags.sink };
      await change(io, config, "backfill", body, "once");
    });
  withStretch(program.command("reconcile"), "tidemark reconcile --since 2d")
    .summary("compare a time range with the service again, now")
    .description(
      "Compares every event of a time range with the service again and fetches the events that are missing.",
    )
    .action(async (flags: Flags) => {
      const { config } = loadConfig(flags.config, io.env);
      await change(io, config, "reconcile", stretchOf(flags), "once");
    });
}

function withStretch(command: Command, example: string): Command {
  return withConfig(command, example)
    .requiredOption("--since <time>", "start: a time, or how long ago (90d)", timeOption)
    .option("--until <time>", "end: a time, or how long ago; now by default", timeOption)
    .option("--account <name>", "only this account")
    .option("--organization <ids>", "only these organizations", listOption);
}

function stretchOf(flags: Flags) {
  const { since: fromMs, until: toMs = Date.now(), account, organization: organizations } = flags;
  if (toMs <= fromMs) throw new UsageError("--until must be later than --since.");
  return { fromMs, toMs, account, organizations };
}
