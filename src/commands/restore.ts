import type { Command } from "commander";
import { afterRestore } from "../app/after-restore.ts";
import { reshardConfig } from "../app/reshard.ts";
import { loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { shardText } from "../core/shard.ts";
import { restore } from "../journal/backup.ts";
import { takeLock } from "../journal/lock.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly json?: boolean;
  readonly reshard?: boolean;
}

export function registerRestore(program: Command, io: Io): void {
  withConfig(program.command("restore"), "tidemark restore /backups/tidemark-2026-01-31.db")
    .summary("put a copy of the state file in place; the present one is kept")
    .description(
      "Puts a copy that `tidemark backup` made in the place of the state file. The copy is checked through first, and the present state is kept beside it under another name. Refused while a process is running with the state file. Says for every sink and archive what happens next. With --reshard it makes the state of the config's shard from the final copies of all old shards, as docs/shards.md describes.",
    )
    .argument("<file...>", "the copy; with --reshard the final copies of all old shards")
    .option("--reshard", "make the state of the config's shard from the final copies of all old shards")
    .option("--json", "print one JSON object")
    .action(async (copies: readonly string[], flags: Flags) => {
      const { config } = loadConfig(flags.config, io.env);
      const lock = takeLock(config.state);
      try {
        if (flags.reshard) putResharded(config, copies, flags, io);
        else await putCopy(config, copies, flags, io);
      } finally {
        lock.release();
      }
    });
}

async function putCopy(config: Config, copies: readonly string[], flags: Flags, io: Io): Promise<void> {
  const [copy, ...others] = copies;
  if (others.length > 0)
    throw new UsageError(
      "Give one copy, or use --reshard to make a state from the copies of all old shards.",
    );
  const { facts, aside } = await restore(config.state, copy!, systemClock.now());
  const next = await afterRestore(config);
  if (flags.json) {
    io.stdout.write(`${JSON.stringify({ state: config.state, aside, ...facts, next })}\n`);
    return;
  }
  const made = facts.madeMs === null ? "" : `, made at ${new Date(facts.madeMs).toISOString()}`;
  io.stdout.write(
    `${config.state} is now the copy ${copy}${made}: journal ${facts.journal} up to page ${facts.endPage}.\n`,
  );
  if (aside !== null) io.stdout.write(`The state before it is kept as ${aside}.\n`);
  io.stdout.write(`What happens with the next "tidemark run":\n`);
  for (const line of next) io.stdout.write(`  - ${line}\n`);
}

function putResharded(config: Config, copies: readonly string[], flags: Flags, io: Io): void {
  const made = reshardConfig(config, copies, systemClock.now());
  const { shard, state } = config;
  if (flags.json) {
    const shardOrNull = shard === undefined ? null : shardText(shard);
    io.stdout.write(`${JSON.stringify({ state, shard: shardOrNull, ...made })}\n`);
    return;
  }
  const name = shard === undefined ? "all organizations" : `shard ${shardText(shard)}`;
  io.stdout.write(
    `${state} is now the state of ${name}: ${made.organizations} organizations, ${made.windows} windows, ${made.events} events known, ${made.deadLetters} dead letters. Its journal ${made.journal} begins behind everything that was delivered.\n`,
  );
  if (made.aside !== null) io.stdout.write(`The state before it is kept as ${made.aside}.\n`);
  io.stdout.write("Start it when the states of all new shards are in place.\n");
}
