import type { Command } from "commander";
import { type ActionBody, type ActionKind, perform } from "../app/actions.ts";
import { openApp } from "../app.ts";
import { loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import { createRequests } from "../journal/command-queue.ts";
import { openState, openStateForReading } from "../journal/database.ts";
import { createDeadLetters, type DeadLetterFilter } from "../journal/dead-letters.ts";
import { isLocked } from "../journal/lock.ts";
import type { Io } from "./io.ts";
import { createLog } from "./log.ts";
import { countOption, listOption, timeOption, withConfig } from "./options.ts";
import { showProgress } from "./progress.ts";

const ASK_TIMEOUT_MS = 30_000;

/** Commands that change something: through the running process where there is one, else by taking the lock (R15). */
export function registerChanges(program: Command, io: Io): void {
  registerBackfill(program, io);
  registerReconcile(program, io);
  registerDeadLetters(program, io);
  registerSinks(program, io);
}

async function change<Kind extends ActionKind>(
  io: Io,
  config: Config,
  kind: Kind,
  body: ActionBody<Kind>,
  afterwards?: "once",
): Promise<void> {
  if (isLocked(config.state)) {
    const db = openState(config.state);
    try {
      const result = await createRequests(db, systemClock).ask(kind, body, ASK_TIMEOUT_MS, io.signal);
      if (!result.ok) throw new UsageError(result.message);
      io.stdout.write(`${result.message}\n`);
    } finally {
      db.close();
    }
    return;
  }
  // Renaming and forgetting mend a state that does not fit its sinks: they must not be refused for it.
  const mending = kind === "rename" || kind === "forget";
  const app = await openApp({ config, log: createLog(io, config.log.level), stdout: io.stdout, mending });
  try {
    io.stdout.write(`${await perform(app.actions, kind, body, io.signal)}\n`);
    if (afterwards !== "once") return;
    const progress = showProgress(io, app);
    await app.once(io.signal).finally(progress.stop);
  } finally {
    await app.close();
  }
}

interface StretchFlags {
  readonly config: string;
  readonly since: number;
  readonly until?: number;
  readonly account?: string;
  readonly organization?: string[];
  readonly service?: string[];
  readonly sink?: string;
}

function withStretch(command: Command, example: string): Command {
  return withConfig(command, example)
    .requiredOption("--since <time>", "from when on: a time, or how long ago (90d)", timeOption)
    .option("--until <time>", "until when: a time, or how long ago; now by default", timeOption)
    .option("--account <name>", "only this account")
    .option("--organization <ids>", "only these organizations", listOption);
}

function stretchOf(flags: StretchFlags) {
  const { since: fromMs, until: toMs = Date.now(), account, organization: organizations } = flags;
  if (toMs <= fromMs) throw new UsageError("--until must come after --since.");
  return { fromMs, toMs, account, organizations };
}

function registerBackfill(program: Command, io: Io): void {
  withStretch(program.command("backfill"), "tidemark backfill --since 90d --organization 5f0c…")
    .summary("read a stretch of the past that has not been read")
    .description(
      "Reads a stretch of the past that no window covers yet; with --sink, reads it again for that sink alone. A running process takes it up; without one it is read now.",
    )
    .option("--service <names>", "these services instead of the account's", listOption)
    .option("--sink <name>", "for this sink alone, whatever has been read before")
    .action(async (flags: StretchFlags) => {
      const { config } = loadConfig(flags.config, io.env);
      await change(
        io,
        config,
        "backfill",
        { ...stretchOf(flags), services: flags.service, sink: flags.sink },
        "once",
      );
    });
}

function registerReconcile(program: Command, io: Io): void {
  withStretch(program.command("reconcile"), "tidemark reconcile --since 2d")
    .summary("compare a stretch with the service again, now")
    .description(
      "Compares every window of a stretch with the service again, by identities, and fetches what is missing.",
    )
    .action(async (flags: StretchFlags) => {
      const { config } = loadConfig(flags.config, io.env);
      await change(io, config, "reconcile", stretchOf(flags), "once");
    });
}

interface LetterFlags {
  readonly config: string;
  readonly sink?: string;
  readonly reason?: string;
  readonly json?: boolean;
  readonly limit: number;
  readonly all?: boolean;
}

function registerDeadLetters(program: Command, io: Io): void {
  const group = program
    .command("dead-letters")
    .description("Events that a sink refused for good: look at them, give them back, or drop them.");
  withFilter(group.command("list"), "tidemark dead-letters list --sink siem")
    .summary("list them")
    .option("--json", "one JSON object a line")
    .option("--limit <count>", "how many at the most", countOption, 100)
    .action((flags: LetterFlags) => {
      const { config } = loadConfig(flags.config, io.env);
      const db = openStateForReading(config.state);
      try {
        const rows = createDeadLetters(db).list(filterOf(flags), flags.limit);
        for (const row of rows) {
          io.stdout.write(
            flags.json
              ? `${JSON.stringify(row)}\n`
              : `${row.id}\t${row.sink}\t${row.timestamp}\t${row.organization ?? "-"}\t${row.service}/${row.eventType}\t${row.reason}\n`,
          );
        }
        if (rows.length === 0 && !flags.json) io.stdout.write("There are no dead letters.\n");
      } finally {
        db.close();
      }
    });
  withConfig(group.command("show"), "tidemark dead-letters show 12")
    .summary("show the event of one, byte for byte")
    .argument("<id>", "its number in the list", countOption)
    .action((id: number, flags: { config: string }) => {
      const { config } = loadConfig(flags.config, io.env);
      const db = openStateForReading(config.state);
      try {
        const bytes = createDeadLetters(db).bytesOf(id);
        if (bytes === undefined)
          throw new UsageError(`There is no dead letter ${id}: see "tidemark dead-letters list".`);
        io.stdout.write(bytes);
        io.stdout.write("\n");
      } finally {
        db.close();
      }
    });
  for (const [kind, summary] of [
    ["replay", "give them back to their sinks"],
    ["drop", "drop them for good"],
  ] as const) {
    withFilter(group.command(kind), `tidemark dead-letters ${kind} --sink siem --reason mapping`)
      .summary(summary)
      .argument("[id]", "only this one", countOption)
      .option("--all", "all of them")
      .action(async (id: number | undefined, flags: LetterFlags) => {
        const filter = { ...filterOf(flags), ...(id === undefined ? {} : { id }) };
        if (Object.keys(filter).length === 0 && !flags.all) {
          throw new UsageError(`Say which: an id, --sink, --reason, or --all for every dead letter.`);
        }
        await change(io, loadConfig(flags.config, io.env).config, kind, filter);
      });
  }
}

function withFilter(command: Command, example: string): Command {
  return withConfig(command, example)
    .option("--sink <name>", "only those of this sink")
    .option("--reason <text>", "only those whose reason holds this text");
}

function filterOf(flags: LetterFlags): DeadLetterFilter {
  return {
    ...(flags.sink === undefined ? {} : { sink: flags.sink }),
    ...(flags.reason === undefined ? {} : { reason: flags.reason }),
  };
}

function registerSinks(program: Command, io: Io): void {
  const group = program
    .command("sinks")
    .description("The positions of sinks: renamed, removed, or not fitting their destination.");
  withConfig(group.command("rename"), "tidemark sinks rename disk archive")
    .summary("a sink has another name in the config now")
    .argument("<from>")
    .argument("<to>")
    .action((from: string, to: string, flags: { config: string }) =>
      change(io, loadConfig(flags.config, io.env).config, "rename", { from, to }),
    );
  withConfig(group.command("forget"), "tidemark sinks forget disk")
    .summary("a sink is gone for good, with what it has not delivered")
    .argument("<name>")
    .action((sink: string, flags: { config: string }) =>
      change(io, loadConfig(flags.config, io.env).config, "forget", { sink }),
    );
  withConfig(group.command("resume"), "tidemark sinks resume lake --from destination")
    .summary("decide how a sink goes on whose position does not fit")
    .argument("<name>")
    .requiredOption("--from <where>", "destination, state, beginning or now; the alarm says what each means")
    .action(async (sink: string, flags: { config: string; from: string }) => {
      const choices = ["destination", "state", "beginning", "now"] as const;
      const from = choices.find((choice) => choice === flags.from);
      if (from === undefined) throw new UsageError(`--from takes ${choices.join(", ")}.`);
      await change(io, loadConfig(flags.config, io.env).config, "resume", { sink, from });
    });
}
