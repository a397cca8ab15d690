import type { Command } from "commander";
import { loadConfig, loadConfigForReading } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { UsageError } from "../core/errors.ts";
import { formatDuration } from "../core/time.ts";
import type { DeadLettersView } from "../core/view/dead-letters.ts";
import type { View } from "../core/view.ts";
import { openStateForReading } from "../journal/database.ts";
import {
  createDeadLetters,
  type DeadLetterFilter,
  type DeadLetterGroup,
  type DeadLetterRow,
} from "../journal/dead-letters.ts";
import { change } from "./change.ts";
import { sayIncomplete } from "./incomplete.ts";
import type { Io } from "./io.ts";
import { openView } from "./open.ts";
import { countOption, withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly sink?: string;
  readonly reason?: string;
  readonly group?: string;
  readonly json?: boolean;
  readonly each?: boolean;
  readonly limit: number;
  readonly all?: boolean;
}

/** Of one question to a cluster. */
const LISTED_MAX = 1000;

/** `tidemark dead-letters`: events that a sink refused. */
export function registerDeadLetters(program: Command, io: Io): void {
  const group = program
    .command("dead-letters")
    .summary("events that a sink refused: list, show, replay or delete them")
    .description("Events that a sink refused: list them, show one, return them to the sink, or delete them.");
  registerList(group, io);
  registerShow(group, io);
  for (const [kind, summary] of [
    ["replay", "return them to their sinks"],
    ["drop", "delete them"],
  ] as const) {
    withFilter(group.command(kind), `tidemark dead-letters ${kind} --group 3f2a91c0`)
      .summary(summary)
      .argument("[id]", "only this one", countOption)
      .option("--all", "all of them")
      .action(async (id: number | undefined, flags: Flags) => {
        const { sink, reason, group } = filterOf(flags);
        const filter = { sink, reason, group, ...(id === undefined ? {} : { ids: [id] }) };
        if (!Object.values(filter).some((value) => value !== undefined) && !flags.all)
          throw new UsageError("Name the dead letters: an id, --group, --sink, --reason, or --all.");
        const { config } = loadConfig(flags.config, io.env);
        // In a cluster each lane has its own letters: the request over all lanes has a bound and checks names.
        const bound = config.cluster === undefined ? boundOf(kind, config, filter) : {};
        await change(io, config, kind, { ...filter, ...bound });
      });
  }
}

/** Letters that are refused after this request are not part of it. Replayed ones come back with later pages. */
function boundOf(
  kind: "replay" | "drop",
  { state, sinks }: Config,
  { ids, sink, group }: DeadLetterFilter,
): Pick<DeadLetterFilter, "pageMax" | "untilMs"> {
  const db = openStateForReading(state);
  try {
    const letters = createDeadLetters(db);
    // A sink without letters is no mistake, but one that is not known is.
    const isSink = sinks.some(({ name }) => name === sink);
    for (const named of [{ ids }, { group }, { sink: isSink ? undefined : sink }])
      if (Object.values(named)[0] !== undefined && letters.list(named, 1).length === 0)
        throw new UsageError(
          'No dead letter matches, so nothing was changed. "tidemark dead-letters list" shows them.',
        );
    return kind === "replay" ? { pageMax: letters.newestPage() } : { untilMs: Date.now() };
  } finally {
    db.close();
  }
}

function registerList(group: Command, io: Io): void {
  withFilter(group.command("list"), "tidemark dead-letters list --sink siem")
    .summary("list them, grouped by sink and reason")
    .option("--each", "one line for each dead letter instead of one for each group")
    .option("--json", "one JSON object a line, one for each dead letter")
    .option("--limit <count>", "how many dead letters at the most", countOption, 100)
    .action(async (flags: Flags) => {
      const { config } = loadConfigForReading(flags.config, io.env);
      if (config.cluster !== undefined) return listInCluster(flags, io);
      const db = openStateForReading(config.state);
      try {
        const letters = createDeadLetters(db);
        const isEach = flags.each || flags.json || flags.reason !== undefined || flags.group !== undefined;
        if (isEach) return listEach(letters.list(filterOf(flags), flags.limit), flags.json === true, io);
        const groups = letters.groups().filter(({ sink }) => flags.sink === undefined || sink === flags.sink);
        io.stdout.write(groups.length === 0 ? "There are no dead letters.\n" : groupsText(groups));
      } finally {
        db.close();
      }
    });
}

async function listInCluster(flags: Flags, io: Io): Promise<void> {
  if (flags.reason !== undefined)
    throw new UsageError("In a cluster, list a group or a sink: --reason is for `replay` and `drop`.");
  const { sink, group } = flags;
  const { view, close } = await openView(flags.config, io);
  try {
    const isEach = flags.each || flags.json || group !== undefined;
    const pages = await pagesOf(view, isEach ? flags : { ...flags, limit: 1 });
    const letters = pages.flatMap((page) => page.letters);
    const groups = pages[0]!.groups.filter((one) => sink === undefined || one.sink === sink);
    if (sayIncomplete(io, ...pages) && (isEach ? letters : groups).length === 0) return;
    if (isEach) return listEach(letters, flags.json === true, io);
    io.stdout.write(groups.length === 0 ? "There are no dead letters.\n" : groupsText(groups));
  } finally {
    await close();
  }
}

/** One page at least. An answer of a cluster has a limit. */
async function pagesOf(
  view: Pick<View, "deadLetters">,
  { sink, group, limit }: Pick<Flags, "sink" | "group" | "limit">,
): Promise<DeadLettersView[]> {
  const pages: DeadLettersView[] = [];
  let before: number | undefined;
  for (let left = limit; ; ) {
    const asked = Math.min(left, LISTED_MAX);
    const page = await view.deadLetters({ sink, group, before, limit: asked });
    pages.push(page);
    left -= page.letters.length;
    if (left <= 0 || page.letters.length < asked) return pages;
    before = page.letters.at(-1)!.id;
  }
}

function listEach(rows: readonly DeadLetterRow[], json: boolean, io: Io): void {
  for (const row of rows) {
    const { id, sink, timestamp, organization, service, eventType, reason } = row;
    const cells = [id, sink, timestamp, organization ?? "-", `${service}/${eventType}`, reason];
    io.stdout.write(json ? `${JSON.stringify(row)}\n` : `${cells.join("\t")}\n`);
  }
  if (rows.length === 0 && !json) io.stdout.write("There are no dead letters.\n");
}

function groupsText(groups: readonly DeadLetterGroup[]): string {
  const blocks = groups.map(({ id, sink, reason, count, lastMs, example }) => {
    const age = formatDuration(Math.max(0, Date.now() - lastMs));
    const answer = example.answer === null ? "" : `  answer: ${oneLine(example.answer)}\n`;
    // "…" replaces what differs within the group; --reason compares with whole reasons such as this one.
    const whole = example.reason === reason ? "" : `  newest reason: ${oneLine(example.reason)}\n`;
    const head = `${id}  ${sink}  ${count} ${count === 1 ? "event" : "events"}, the last ${age} ago`;
    return `${head}\n  reason: ${oneLine(reason)}\n${whole}${answer}  newest: ${example.id}\n`;
  });
  const advice = [
    "Show the newest event of a group:  tidemark dead-letters show NEWEST",
    "Return a group to its sink:        tidemark dead-letters replay --group GROUP",
    "Delete a group:                    tidemark dead-letters drop --group GROUP",
  ];
  return `${blocks.join("\n")}\n${advice.join("\n")}\n`;
}

/** Answers come from outside: control characters would move the cursor. */
function oneLine(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
}

function registerShow(group: Command, io: Io): void {
  withConfig(group.command("show"), "tidemark dead-letters show 12")
    .summary("show the event of one, byte for byte")
    .argument("<id>", "its number in the list", countOption)
    .action(async (id: number, flags: { config: string }) => {
      const { config } = loadConfigForReading(flags.config, io.env);
      if (config.cluster !== undefined) return showInCluster(id, flags, io);
      const db = openStateForReading(config.state);
      try {
        const bytes = createDeadLetters(db).bytesOf(id);
        if (bytes === undefined)
          throw new UsageError(`There is no dead letter ${id}. "tidemark dead-letters list" shows them.`);
        io.stdout.write(bytes);
        io.stdout.write("\n");
      } finally {
        db.close();
      }
    });
}

async function showInCluster(id: number, flags: { config: string }, io: Io): Promise<void> {
  const { view, close } = await openView(flags.config, io);
  try {
    const letter = await view.deadLetter(id);
    if (letter === undefined)
      throw new UsageError(`There is no dead letter ${id}. "tidemark dead-letters list" shows them.`);
    io.stdout.write(`${letter.body}\n`);
  } finally {
    await close();
  }
}

function withFilter(command: Command, example: string): Command {
  return withConfig(command, example)
    .option("--sink <name>", "only those of this sink")
    .option("--group <id>", "only those of this group, as `dead-letters list` shows it")
    .option("--reason <text>", "only those whose reason contains this text");
}

function filterOf({ sink, reason, group }: Flags): DeadLetterFilter {
  return { sink, reason, group };
}
