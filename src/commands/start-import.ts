import type { Command } from "commander";
import type { ClusterClient } from "../app/cluster/client.ts";
import { UsageError } from "../core/errors.ts";
import { RouteError } from "../core/route.ts";
import { choiceOf } from "../imports/config.ts";
import { DEFAULTS } from "../imports/defaults.ts";
import { type Choice, choiceSchema, type Job } from "../imports/job.ts";
import { orderOf } from "../imports/scheduler.ts";
import { type StartOrder, startImport } from "../imports/start.ts";
import { OpenJobError } from "../imports/store/jobs.ts";
import { startContextOf } from "./import-context.ts";
import type { Io } from "./io.ts";
import {
  type AccountFlags,
  accountOf,
  type ManagementContext,
  type OpenManagement,
  printJson,
  using,
  withAccount,
} from "./management.ts";
import { watchJob } from "./watch-import.ts";

export interface SourceFlags extends AccountFlags {
  readonly application?: string;
  readonly workday?: string;
  readonly query?: string;
}

export interface ChoiceFlags {
  readonly only: readonly string[];
  readonly exclude: readonly string[];
  readonly onlyNew?: boolean;
  readonly state?: string;
  readonly postNameless?: boolean;
}

export interface StartFlags extends SourceFlags, ChoiceFlags {
  readonly operation: readonly string[];
  readonly reactivate?: boolean;
  readonly watch?: boolean;
}

export function sourceOptions(command: Command): Command {
  return withAccount(command)
    .option(
      "--application <id>",
      "the application that imports users, where no import of the config is named",
    )
    .option("--workday <id>", "the Workday integration, instead of an application")
    .option("--query <text>", "a filter that is passed to an application's source");
}

interface Source {
  readonly account: string;
  readonly organization: string | undefined;
  readonly application: string | undefined;
  readonly workday: string | undefined;
  readonly query: string | undefined;
}

/** The import of the config that is named, or what the options say. */
export function sourceFor(context: ManagementContext, name: string | undefined, flags: SourceFlags): Source {
  if (name !== undefined) {
    const definition = definitionFor(context, name);
    const { account, organization, application, workday, queryString: query } = definition;
    return { account, organization, application, workday, query };
  }
  if (!flags.application === !flags.workday) {
    throw new UsageError("Name an import of the config, or give either --application or --workday.");
  }
  const { organization, application, workday, query } = flags;
  return { account: accountOf(context, flags), organization, application, workday, query };
}

function definitionFor(context: ManagementContext, name: string) {
  const definition = context.definitions.find((candidate) => candidate.name === name);
  if (definition !== undefined) return definition;
  const names = context.definitions.map((candidate) => candidate.name).join(", ") || "none";
  throw new UsageError(`There is no import "${name}" in the config; it has: ${names}.`);
}

export function start(
  io: Io,
  open: OpenManagement,
  name: string | undefined,
  flags: StartFlags,
): Promise<void> {
  return using(open, flags, async (context) => {
    if (context.cluster !== undefined) {
      const job = await startInCluster(await context.cluster(), context, name, flags, io);
      return showStarted(io, context, job, flags);
    }
    const order = orderFrom(context, name, flags, io);
    const startContext = startContextOf(context);
    let id: number;
    try {
      ({ id } = await startImport(startContext, order, io.signal));
    } catch (error) {
      if (!(error instanceof OpenJobError)) throw error;
      throw new UsageError(
        `${error.message} Follow it with "tidemark imports watch ${error.job}", or end it with "tidemark imports resolve ${error.job} --ended".`,
        { cause: error },
      );
    }
    await showStarted(io, context, startContext.store.job(id)!, flags);
  });
}

async function showStarted(io: Io, context: ManagementContext, job: Job, flags: StartFlags): Promise<void> {
  if (flags.watch && job.serviceJob !== null) return watchJob(io, context, job.id, flags.json === true);
  if (flags.json) printJson(io, job);
  else io.stdout.write(startWords(job));
  if (job.state !== "running" && job.state !== "finished") io.setExitCode(1);
}

/** The machine that runs the lane of the organization starts it. A job that was refused is shown as here. */
async function startInCluster(
  cluster: ClusterClient,
  context: ManagementContext,
  name: string | undefined,
  flags: StartFlags,
  io: Io,
): Promise<Job> {
  const { account, organization, application, workday, request, choice, requestedBy } = orderFrom(
    context,
    name,
    flags,
    io,
  );
  const body = { account, organization, application, workday, ...request, ...choice };
  const isChanged =
    name !== undefined && JSON.stringify(choice) !== JSON.stringify(choiceOf(definitionFor(context, name)));
  if (isChanged)
    throw new UsageError(
      "In a cluster a named import is started as the config has it: leave out the options that choose workers, or name the Workday integration with --workday instead of the import.",
    );
  try {
    const input = { body: name === undefined ? body : { import: name }, caller: requestedBy };
    return (await cluster.call("POST", "/api/imports", input)) as Job;
  } catch (error) {
    if (error instanceof RouteError && error.body.job !== undefined) return error.body.job as Job;
    if (error instanceof RouteError && error.status < 500)
      throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

export function startWords(
  job: Pick<Job, "id" | "state" | "reason" | "parts" | "serviceJob" | "summary">,
): string {
  switch (job.state) {
    case "failed":
      return `Job ${job.id} was refused: ${job.reason}\n`;
    case "uncertain":
      return `Job ${job.id} is uncertain (${job.reason}): the service may have started it. It is not repeated. Its events will show it, or say what happened with "tidemark imports resolve ${job.id}".\n`;
    case "ended":
      return `Job ${job.id} was ended while it was started (${job.reason}). ${job.serviceJob === null ? "The service gave no job id" : `The service runs it as ${job.serviceJob}; its events are still counted`}.\n`;
    case "requested":
      return `Job ${job.id} waits: ${job.parts.find(({ reason }) => reason !== null)?.reason ?? "it is not sent yet"}. "tidemark run" sends it again.\n`;
    case "finished":
      return job.serviceJob === null
        ? `Job ${job.id} has nothing to do: ${job.summary}.\n`
        : `Job ${job.id} has finished as ${job.serviceJob}: ${job.summary}.\n`;
    default:
      return `Job ${job.id} runs as ${job.serviceJob}. ${job.summary}. Follow it with "tidemark imports watch ${job.id}".\n`;
  }
}

function orderFrom(
  context: ManagementContext,
  name: string | undefined,
  flags: StartFlags,
  io: Io,
): StartOrder {
  const by = { origin: "command", requestedBy: io.env.SUDO_USER ?? io.env.USER ?? "command line" } as const;
  if (name !== undefined) {
    return { ...orderOf(definitionFor(context, name)), choice: choiceFrom(context, name, flags), ...by };
  }
  const operations = flags.operation.map(operationOf);
  return {
    import: null,
    ...placeOf(sourceFor(context, name, flags)),
    request: {
      operations: operations.length > 0 ? operations : ["users.create", "users.update"],
      allowUserReactivation: flags.reactivate === true,
      ...(flags.query === undefined ? {} : { queryString: flags.query }),
    },
    choice: choiceFrom(context, name, flags),
    ...by,
    ...DEFAULTS,
  };
}

function placeOf({ account, organization, application, workday }: Source) {
  return { account, organization, application, workday };
}

/** The choice of the named import with the options over it. */
export function choiceFrom(
  context: ManagementContext,
  name: string | undefined,
  flags: SourceFlags & ChoiceFlags,
): Choice {
  const base = name === undefined ? choiceSchema.parse({}) : choiceOf(definitionFor(context, name));
  const state = stateFrom(flags.state) ?? base.state;
  const choice: Choice = {
    only: [...base.only, ...flags.only],
    exclude: [...base.exclude, ...flags.exclude],
    onlyNew: base.onlyNew || flags.onlyNew === true,
    postNameless: base.postNameless || flags.postNameless === true,
    ...(state === undefined ? {} : { state }),
  };
  const isGiven =
    flags.only.length + flags.exclude.length > 0 || flags.onlyNew || flags.state || flags.postNameless;
  if (isGiven && sourceFor(context, name, flags).workday === undefined) {
    throw new UsageError(
      "--only, --exclude, --only-new, --state and --post-nameless choose workers of a Workday integration; an application filters with --query.",
    );
  }
  return choice;
}

function stateFrom(text: string | undefined): Choice["state"] {
  if (text === undefined || text === "STAGED" || text === "ACTIVATED") return text;
  throw new UsageError(`--state is STAGED or ACTIVATED, not ${JSON.stringify(text)}.`);
}

function operationOf(text: string): "users.create" | "users.update" {
  if (text === "users.create" || text === "users.update") return text;
  throw new UsageError(`--operation is users.create or users.update, not ${JSON.stringify(text)}.`);
}
