import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { type Command, InvalidArgumentError } from "commander";
import { UsageError } from "../core/errors.ts";
import { JOB_STATES, type Job, type JobState, type JobUser } from "../imports/job.ts";
import { type Resolution, resolveJob } from "../imports/routes.ts";
import { openJobs } from "../imports/store.ts";
import type { Io } from "./io.ts";
import {
  type CommonFlags,
  collect,
  type OpenManagement,
  printJson,
  printTable,
  subcommand,
  using,
} from "./management.ts";
import { preview, type SourceFlags, type StartFlags, sourceOptions, start } from "./start-import.ts";
import { watchJob } from "./watch-import.ts";

/** `tidemark imports`: who would be imported, starting it, and what became of every user. */
export function registerImports(program: Command, io: Io, open: OpenManagement): void {
  const imports = program
    .command("imports")
    .description("User imports: start them, follow them, see what became of every user.");
  const add = (name: string, summary: string, example: string) =>
    subcommand(imports, name, summary, `tidemark imports ${example}`);

  sourceOptions(add("preview [name]", "show who would be imported", "preview nightly-hr"))
    .option("--limit <count>", "how many at the most", wholeNumber, 100)
    .action((name: string | undefined, flags: SourceFlags & { limit: number }) =>
      preview(io, open, name, flags),
    );
  sourceOptions(add("start [name]", "start an import", "start nightly-hr --watch"))
    .option(
      "--operation <operation>",
      "users.create or users.update; may be repeated; both when absent",
      collect,
      [],
    )
    .option("--reactivate", "let suspended users be reactivated")
    .option("--query <text>", "a filter that is passed to the source")
    .option("--watch", "follow it until it ends")
    .action((name: string | undefined, flags: StartFlags) => start(io, open, name, flags));
  add("list", "list jobs, the latest first", "list --state running")
    .option("--state <state>", `one of ${JOB_STATES.join(", ")}`, stateOf)
    .option("--account <name>", "only jobs of this account")
    .option("--limit <count>", "how many at the most", wholeNumber, 50)
    .action((flags: CommonFlags & { state?: JobState; account?: string; limit: number }) =>
      list(io, open, flags),
    );
  add("show <id>", "show a job, its users and its events", "show 12 --json").action(
    (id: string, flags: CommonFlags) => show(io, open, id, flags),
  );
  add(
    "watch <id>",
    "follow a job until it ends; the exit code is 0 when every user went well",
    "watch 12",
  ).action((id: string, flags: CommonFlags) =>
    using(open, flags, (context) => watchJob(io, context, idOf(id), flags.json === true)),
  );
  add("export <id>", "write a job's users as CSV", "export 12 --csv users.csv")
    .option("--csv <file>", "the file to write; - is stdout", "-")
    .action((id: string, flags: CommonFlags & { csv: string }) => exportCsv(io, open, id, flags));
  add(
    "resolve <id>",
    "say what became of an uncertain start, or end a job that hangs",
    "resolve 12 --not-started",
  )
    .option("--service-job <id>", "the start was taken: the service's job id")
    .option("--not-started", "the start was not taken")
    .option("--ended", "the job is over; its schedule may go on")
    .action((id: string, flags: ResolveFlags) => resolve(io, open, id, flags));
}

function list(
  io: Io,
  open: OpenManagement,
  flags: CommonFlags & { state?: JobState; account?: string; limit: number },
): Promise<void> {
  return using(open, flags, async (context) => {
    const found = openJobs(context.database("read")).list(flags);
    if (flags.json) return printJson(io, found);
    printTable(
      io,
      ["JOB", "IMPORT", "REQUESTED", "BY", "STATE", "CREATED", "UPDATED", "REACTIVATED", "FAILED"],
      found.map(jobCells),
    );
  });
}

function jobCells(job: Job) {
  const { counts } = job;
  return [
    job.id,
    job.import ?? job.source,
    job.requestedAt.slice(0, 19).replace("T", " "),
    job.requestedBy,
    job.state,
    ...[counts.created, counts.updated, counts.reactivated, counts.failed],
  ];
}

function show(io: Io, open: OpenManagement, text: string, flags: CommonFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const jobs = openJobs(context.database("read"));
    const id = idOf(text);
    const job = jobs.job(id);
    if (job === undefined) throw new UsageError(`There is no job ${id}; see "tidemark imports list".`);
    if (flags.json) {
      const page = { limit: 1_000_000, offset: 0 };
      return printJson(io, { ...job, users: jobs.users(id, page), timeline: jobs.timeline(id, page) });
    }
    printTable(io, ["FIELD", "VALUE"], fieldsOf(job));
    const failed = jobs.users(id, { outcome: "failed", limit: 20, offset: 0 });
    if (failed.length === 0) return;
    io.stdout.write(
      `\nFailed${job.counts.failed > failed.length ? ` (the first ${failed.length} of ${job.counts.failed})` : ""}:\n`,
    );
    printTable(
      io,
      ["USER", "REASON", "EVENT"],
      failed.map((user) => [nameOf(user), user.reason, user.event]),
    );
  });
}

function fieldsOf(job: Job): [string, string | number | null][] {
  const { counts } = job;
  return [
    ["job", job.id],
    ["import", job.import],
    ["account", job.account],
    ["organization", job.organization],
    [job.kind, job.source],
    ["service's job", job.serviceJob],
    ["requested", `${job.requestedAt} by ${job.requestedBy} (${job.origin})`],
    ["state", `${job.state} since ${job.stateSince}`],
    ["reason", job.reason],
    ["events", `${counts.events}${job.lastEventAt === null ? "" : `, the last at ${job.lastEventAt}`}`],
    ...(["created", "updated", "reactivated", "failed", "pending"] as const).map((name): [string, number] => [
      name,
      counts[name],
    ]),
  ];
}

function nameOf(user: JobUser): string {
  return user.username ?? user.email ?? user.userId ?? "";
}

function exportCsv(
  io: Io,
  open: OpenManagement,
  text: string,
  flags: CommonFlags & { csv: string },
): Promise<void> {
  return using(open, flags, async (context) => {
    const jobs = openJobs(context.database("read"));
    const id = idOf(text);
    if (jobs.row(id) === undefined)
      throw new UsageError(`There is no job ${id}; see "tidemark imports list".`);
    const users = jobs.users(id, { limit: 10_000_000, offset: 0 });
    if (flags.json) return printJson(io, users);
    const content = csvOf(users);
    if (flags.csv === "-") {
      io.stdout.write(content);
      return;
    }
    const file = createWriteStream(flags.csv);
    file.end(content);
    await once(file, "finish");
    io.stdout.write(`${users.length} users written to ${flags.csv}.\n`);
  });
}

const CSV_COLUMNS = ["username", "email", "userId", "outcome", "reason", "event", "timestamp"] as const;

/** RFC 4180; a cell that a spreadsheet would run as a formula is made text. */
export function csvOf(users: readonly JobUser[]): string {
  const rows = users.map((user) => CSV_COLUMNS.map((column) => csvCell(user[column] ?? "")));
  return [CSV_COLUMNS, ...rows].map((row) => `${row.join(",")}\r\n`).join("");
}

function csvCell(value: string): string {
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

interface ResolveFlags extends CommonFlags {
  readonly serviceJob?: string;
  /** commander turns --not-started into this name. */
  readonly notStarted?: boolean;
  readonly ended?: boolean;
}

function resolve(io: Io, open: OpenManagement, text: string, flags: ResolveFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const jobs = openJobs(context.database("write"));
    const id = idOf(text);
    try {
      resolveJob({ jobs, clock: context.clock }, id, resolutionOf(flags), io.env.USER ?? "command line");
    } catch (error) {
      throw new UsageError((error as Error).message, { cause: error });
    }
    const job = jobs.job(id)!;
    if (flags.json) printJson(io, job);
    else io.stdout.write(`Job ${id} is ${job.state} now.\n`);
  });
}

function resolutionOf(flags: ResolveFlags): Resolution {
  const given: Resolution[] = [
    ...(flags.serviceJob === undefined ? [] : [{ serviceJob: flags.serviceJob }]),
    ...(flags.notStarted === true ? [{ started: false } as const] : []),
    ...(flags.ended === true ? [{ ended: true } as const] : []),
  ];
  if (given.length !== 1) throw new UsageError("Give one of --service-job ID, --not-started and --ended.");
  return given[0]!;
}

function idOf(text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new UsageError(`${JSON.stringify(text)} is no job: give its number from "tidemark imports list".`);
  return Number(text);
}

function stateOf(text: string): JobState {
  const state = JOB_STATES.find((candidate) => candidate === text);
  if (state === undefined) throw new InvalidArgumentError(`It is one of ${JOB_STATES.join(", ")}.`);
  return state;
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}
