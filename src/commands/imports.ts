import { type Command, InvalidArgumentError } from "commander";
import { UsageError } from "../core/errors.ts";
import { activateStaged } from "../imports/activate.ts";
import { JOB_STATES, type JobState } from "../imports/job.ts";
import { type JobResolution, resolveJob } from "../imports/resolve.ts";
import { startContextOf } from "./import-context.ts";
import { exportCsv } from "./import-csv.ts";
import type { Io } from "./io.ts";
import { jobReader } from "./job-reader.ts";
import {
  type CommonFlags,
  collect,
  type OpenManagement,
  printJson,
  subcommand,
  using,
} from "./management.ts";
import { preview } from "./preview-import.ts";
import { list, runs, show } from "./show-imports.ts";
import { type ChoiceFlags, type SourceFlags, type StartFlags, sourceOptions, start } from "./start-import.ts";
import { watchJob } from "./watch-import.ts";

/** `tidemark imports`: who would be imported, starting it, and what became of every user. */
export function registerImports(program: Command, io: Io, open: OpenManagement): void {
  const imports = program
    .command("imports")
    .summary("user imports: start them, follow them, account for every user")
    .description("User imports: start them, follow them, see what became of every user.");
  const add = (name: string, summary: string, example: string) =>
    subcommand(imports, name, summary, `tidemark imports ${example}`);

  choiceOptions(
    sourceOptions(
      add("preview [name]", "show who would be imported, and what would change", "preview nightly-hr"),
    ),
  )
    .option("--limit <count>", "how many at the most", wholeNumber, 1000)
    .action((name: string | undefined, flags: SourceFlags & ChoiceFlags & { limit: number }) =>
      preview(io, open, name, flags),
    );
  choiceOptions(sourceOptions(add("start [name]", "start an import", "start nightly-hr --watch")))
    .option(
      "--operation <operation>",
      "users.create or users.update; may be repeated; both when absent",
      collect,
      [],
    )
    .option("--reactivate", "let suspended users be reactivated")
    .option("--watch", "follow it until it ends")
    .action((name: string | undefined, flags: StartFlags) => start(io, open, name, flags));
  add("list", "list jobs, the latest first", "list --state running")
    .option("--state <state>", `one of ${JOB_STATES.join(", ")}`, stateOf)
    .option("--account <name>", "only jobs of this account")
    .option("--limit <count>", "how many at the most", wholeNumber, 50)
    .action((flags: CommonFlags & { state?: JobState; account?: string; limit: number }) =>
      list(io, open, flags),
    );
  add("runs [name]", "list scheduled runs and when each import runs next", "runs nightly-hr")
    .option("--limit <count>", "how many at the most", wholeNumber, 20)
    .action((name: string | undefined, flags: CommonFlags & { limit: number }) =>
      runs(io, open, name, flags),
    );
  add("show <id>", "show a job and what became of its users", "show 12 --json").action(
    (id: string, flags: CommonFlags) => show(io, open, idOf(id), flags),
  );
  add(
    "watch <id>",
    "follow a job until it ends; the exit code is 0 when every user went well",
    "watch 12",
  ).action((id: string, flags: CommonFlags) =>
    using(open, flags, (context) => watchJob(io, context, idOf(id), flags.json === true)),
  );
  add(
    "activate <id>",
    "activate the users of a job that are STAGED, or were created without a known state",
    "activate 12 --yes",
  )
    .option("--yes", "activate them; without it the command says how many there are")
    .action((id: string, flags: CommonFlags & { yes?: boolean }) => activate(io, open, idOf(id), flags));
  add("export <id>", "write a job's users as CSV", "export 12 --csv users.csv")
    .option("--csv <file>", "the file to write; - is stdout", "-")
    .action((id: string, flags: CommonFlags & { csv: string }) => exportCsv(io, open, idOf(id), flags));
  add(
    "resolve <id>",
    "say what became of an uncertain start, or end a job that hangs or cannot be followed",
    "resolve 12 --not-started",
  )
    .option("--service-job <id>", "the start was taken: the service's job id")
    .option("--not-started", "the start was not taken")
    .option("--ended", "end the job, which was not seen to finish; its schedule may go on")
    .option("--reason <text>", "why it is ended; kept with the job")
    .action((id: string, flags: ResolveFlags) => resolve(io, open, idOf(id), flags));
}

/** Which workers of a Workday integration are posted. */
function choiceOptions(command: Command): Command {
  return command
    .option("--only <filter>", "only workers that match: field=value or text; may be repeated", collect, [])
    .option("--exclude <user>", "leave out this username or e-mail address; may be repeated", collect, [])
    .option("--only-new", "only workers who are not users yet")
    .option("--state <state>", "the state of created users: STAGED or ACTIVATED")
    .option("--post-nameless", "post workers without a first or last name instead of skipping them");
}

function activate(
  io: Io,
  open: OpenManagement,
  id: number,
  flags: CommonFlags & { yes?: boolean },
): Promise<void> {
  return using(open, flags, async (context) => {
    const job = await jobReader(context).job(id);
    if (job === undefined) throw new UsageError(`There is no job ${id}; see "tidemark imports list".`);
    if (job.staged === 0) throw new UsageError(`Job ${id} has no users to activate.`);
    if (flags.yes !== true)
      throw new UsageError(`This activates ${job.staged} users of job ${id}; repeat it with --yes.`);
    const { activated, failed } =
      context.cluster === undefined
        ? await activateStaged(startContextOf(context), id, io.signal)
        : ((await (
            await context.cluster()
          ).call("POST", "/api/imports/:id/activate", {
            params: { id },
            body: { users: job.staged },
          })) as Awaited<ReturnType<typeof activateStaged>>);
    if (failed.length > 0) io.setExitCode(1);
    if (flags.json) return printJson(io, { activated, failed });
    io.stdout.write(`${activated} users activated.\n`);
    for (const { user, reason } of failed) io.stdout.write(`${user} not activated: ${reason}\n`);
  });
}

interface ResolveFlags extends CommonFlags {
  readonly serviceJob?: string;
  /** commander turns --not-started into this name. */
  readonly notStarted?: boolean;
  readonly ended?: boolean;
  readonly reason?: string;
}

function resolve(io: Io, open: OpenManagement, id: number, flags: ResolveFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const by = io.env.USER ?? "command line";
    try {
      const input = { params: { id }, body: resolutionOf(flags), caller: by };
      if (context.cluster === undefined) await resolveJob(startContextOf(context), id, input.body, by);
      else await (await context.cluster()).call("POST", "/api/imports/:id/resolve", input);
    } catch (error) {
      throw new UsageError((error as Error).message, { cause: error });
    }
    const job = (await jobReader(context).job(id))!;
    if (flags.json) printJson(io, job);
    else io.stdout.write(`Job ${id} is ${job.state} now${job.reason === null ? "" : `: ${job.reason}`}.\n`);
  });
}

function resolutionOf(flags: ResolveFlags): JobResolution {
  const given: JobResolution[] = [
    ...(flags.serviceJob === undefined ? [] : [{ serviceJob: flags.serviceJob }]),
    ...(flags.notStarted === true ? [{ started: false } as const] : []),
    ...(flags.ended === true
      ? [{ ended: true as const, ...(flags.reason === undefined ? {} : { reason: flags.reason }) }]
      : []),
  ];
  if (given.length !== 1) throw new UsageError("Give one of --service-job ID, --not-started and --ended.");
  if (flags.reason !== undefined && flags.ended !== true)
    throw new UsageError("--reason belongs to --ended.");
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
