import type { Command } from "commander";
import { type ArchiveOperation, holdText } from "../app/archive-operations.ts";
import { olderStateIn } from "../app/older-state.ts";
import type { Hold } from "../archive/deletion/holds.ts";
import { loadConfig } from "../config/load.ts";
import { dayOf } from "../core/archive.ts";
import { UsageError } from "../core/errors.ts";
import { archiveFactOf } from "../journal/archive/state.ts";
import { openStateForReading } from "../journal/database.ts";
import { type ArchiveFlags, archiveOf, checkDays, dayOption } from "./archive-store.ts";
import { change } from "./change.ts";
import type { Io } from "./io.ts";
import { listOption, withConfig } from "./options.ts";

interface Flags extends ArchiveFlags {
  readonly organization?: string[];
  readonly from?: string;
  readonly to?: string;
}

/** Holds, pruning and erasure: each leaves an entry in the archive's log. */
export function registerDeletions(archive: Command, io: Io): void {
  const named = (command: Command, example: string) =>
    withConfig(command, example).option(
      "--archive <name>",
      "the archive, where the config has more than one",
    );
  const ask = (flags: Flags, operation: ArchiveOperation) => {
    checkDays(flags);
    const { name } = archiveOf(flags, io);
    return change(io, loadConfig(flags.config, io.env).config, "archive", { archive: name, operation });
  };
  const time = ({ from, to }: Flags) => ({ from: from ?? null, to: to ?? null });
  const ids = ({ organization = [] }: Flags) => organization.map((id) => id.toLowerCase());

  const hold = archive.command("hold").summary("keep evidence beyond its retention");
  named(hold.command("add"), 'tidemark archive hold add "Case 17" --organization 5f0c… --from 2026-01-01')
    .summary("put organizations or times on hold")
    .argument("<case>", "the case; the log has only a salted hash of it")
    .option("--organization <id>", "only these; without it all", listOption)
    .option("--from <date>", "from this day on", dayOption)
    .option("--to <date>", "up to this day", dayOption)
    .action((text: string, flags: Flags) =>
      ask(flags, { kind: "hold", case: text, organizations: ids(flags), ...time(flags) }),
    );
  named(hold.command("release"), "tidemark archive hold release hold-1a2b3c4d")
    .summary("end a hold")
    .argument("<hold>", "its id, as the list shows it")
    .action((id: string, flags: Flags) => ask(flags, { kind: "release", hold: id }));
  named(hold.command("list"), "tidemark archive hold list")
    .summary("list the holds that are in force")
    .option("--json", "print one JSON array")
    .action(async (flags: Flags) => {
      const own = archiveOf(flags, io);
      const { config } = loadConfig(flags.config, io.env);
      if (config.cluster !== undefined) {
        if (flags.json) throw new UsageError("In a cluster the holds of all lanes are listed as text only.");
        return ask(flags, { kind: "holds" });
      }
      const older = await olderStateIn(config, own);
      if (older !== undefined) throw older;
      const db = openStateForReading(config.state);
      const list = JSON.parse(archiveFactOf(db, own.name, "holds") ?? "[]") as Hold[];
      db.close();
      const lines = list.map((hold) => `${holdText(hold)}\n`);
      io.stdout.write(flags.json ? `${JSON.stringify(list)}\n` : lines.join("") || "Nothing is on hold.\n");
    });

  named(archive.command("prune"), "tidemark archive prune --dry-run")
    .summary("remove days that are past their retention and not on hold")
    .option("--dry-run", "only say what would be removed")
    .option(
      "--without-service",
      "also while the service does not answer: you answer for this machine's clock, and the log says so",
    )
    .action((flags: Flags & { dryRun?: boolean; withoutService?: boolean }) =>
      ask(flags, {
        kind: "prune",
        dryRun: flags.dryRun ?? false,
        ...(flags.withoutService && { withoutService: true }),
      }),
    );

  named(archive.command("erase"), 'tidemark archive erase --organization 5f0c… --reason "contract ended"')
    .summary("erase an organization or one event")
    .description(
      "Removes the bytes and the secret that their hashes were made with, and leaves an entry in the log. Everything else still verifies.",
    )
    .requiredOption("--organization <id>", "the organization")
    .option("--event <id>", "only this event, by its id or identity")
    .option("--from <date>", "from this day on", dayOption)
    .option("--to <date>", "up to this day", dayOption)
    .requiredOption("--reason <text>", "why; the log has only a salted hash of it")
    .action(
      (
        flags: ArchiveFlags & {
          organization: string;
          event?: string;
          from?: string;
          to?: string;
          reason: string;
        },
      ) =>
        ask(
          {
            config: flags.config,
            ...(flags.archive && { archive: flags.archive }),
            ...(flags.from && { from: flags.from }),
            ...(flags.to && { to: flags.to }),
          },
          {
            kind: "erase",
            organization: flags.organization.toLowerCase(),
            ...(flags.event && { event: flags.event }),
            from: flags.from ?? null,
            // Said here: a process that goes on with it after a crash must not reach further.
            to: flags.to ?? (flags.event === undefined ? dayOf(Date.now()) : null),
            reason: flags.reason,
          },
        ),
    );
}
