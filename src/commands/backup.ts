import type { Command } from "commander";
import { loadConfigForReading } from "../config/load.ts";
import { systemClock } from "../core/clock.ts";
import { explain } from "../core/errors.ts";
import { backUp } from "../journal/backup.ts";
import { takeLock } from "../journal/lock.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly json?: boolean;
  readonly final?: boolean;
}

export function registerBackup(program: Command, io: Io): void {
  withConfig(program.command("backup"), "tidemark backup /backups/tidemark-2026-01-31.db")
    .summary("make a consistent copy of the state file, also while a process is running")
    .description(
      "Makes a consistent copy of the state file while a process may be running. The copy is on disk when the command returns, and no file is overwritten. With --final it is the last copy before the number of shards changes: refused while a process is running or while anything is not delivered, and no process goes on with the state file afterwards.",
    )
    .argument("<file>", "where the copy goes; must not be there yet")
    .option("--final", "the last copy of this state, to be split with `restore --reshard`")
    .option("--json", "print one JSON object")
    .action(async (target: string, flags: Flags) => {
      const { config } = loadConfigForReading(flags.config, io.env);
      const nowMs = systemClock.now();
      const progress = (share: number) => {
        if (io.interactive) io.stderr.write(`\r\x1b[KCopying: ${Math.floor(share * 100)}%`);
      };
      const final = flags.final === true;
      const lock = final ? takeLock(config.state) : undefined;
      const unnoted = (error: unknown) =>
        io.stderr.write(
          `Note: the copy is whole, but the state file could not be changed (${explain(error)}), so "tidemark doctor" does not know of this copy.\n`,
        );
      const options = { nowMs, signal: io.signal, progress, unnoted, final };
      const facts = await backUp(config.state, target, options).finally(() => lock?.release());
      if (io.interactive) io.stderr.write("\r\x1b[K");
      const made = new Date(nowMs).toISOString();
      io.stdout.write(
        flags.json
          ? `${JSON.stringify({ file: target, made, ...facts })}\n`
          : `${target} is a copy of ${config.state} as it was at ${made}: journal ${facts.journal} up to page ${facts.endPage}.\nKeep it away from this disk; ${final ? `"tidemark restore --reshard" makes the states of the new shards from the final copies of all old ones. ${config.state} is not used any more; "tidemark restore ${target}" takes it back` : `"tidemark restore ${target}" puts it in place`}.\n`,
      );
    });
}
