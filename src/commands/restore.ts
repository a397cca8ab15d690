import type { Command } from "commander";
import { afterRestore } from "../app/after-restore.ts";
import { loadConfig } from "../config/load.ts";
import { systemClock } from "../core/clock.ts";
import { restore } from "../journal/backup.ts";
import { takeLock } from "../journal/lock.ts";
import type { Io } from "./io.ts";
import { withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly json?: boolean;
}

export function registerRestore(program: Command, io: Io): void {
  withConfig(program.command("restore"), "tidemark restore /backups/tidemark-2026-01-31.db")
    .summary("put a copy of the state file in place; the present one is kept")
    .description(
      "Puts a copy that `tidemark backup` made in the place of the state file. The copy is checked through first, and the present state is kept beside it under another name. Refused while a process is running with the state file. Says for every sink what happens next.",
    )
    .argument("<file>", "the copy")
    .option("--json", "print one JSON object")
    .action(async (copy: string, flags: Flags) => {
      const { config } = loadConfig(flags.config, io.env);
      const lock = takeLock(config.state);
      try {
        const { facts, aside } = await restore(config.state, copy, systemClock.now());
        const next = afterRestore(config);
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
      } finally {
        lock.release();
      }
    });
}
