import type { Command } from "commander";
import { UsageError } from "../core/errors.ts";
import { importSourceOf } from "../directory/import-source.ts";
import { DEFAULTS } from "../imports/defaults.ts";
import type { Job } from "../imports/job.ts";
import { orderOf } from "../imports/scheduler.ts";
import { type StartOrder, startImport } from "../imports/start.ts";
import { OpenJobError, openJobs } from "../imports/store.ts";
import type { Io } from "./io.ts";
import {
  type AccountFlags,
  accountOf,
  callOptions,
  type ManagementContext,
  type OpenManagement,
  printJson,
  printTable,
  using,
  withAccount,
} from "./management.ts";
import { watchJob } from "./watch-import.ts";

export interface SourceFlags extends AccountFlags {
  readonly application?: string;
  readonly workday?: string;
}

export interface StartFlags extends SourceFlags {
  readonly operation: readonly string[];
  readonly reactivate?: boolean;
  readonly query?: string;
  readonly watch?: boolean;
}

export function sourceOptions(command: Command): Command {
  return withAccount(command)
    .option(
      "--application <id>",
      "the application that imports users, where no import of the config is named",
    )
    .option("--workday <id>", "the Workday integration, instead of an application");
}

interface Source {
  readonly account: string;
  readonly organization: string | undefined;
  readonly application: string | undefined;
  readonly workday: string | undefined;
}

/** The import of the config that is named, or what the options say. */
function sourceFor(context: ManagementContext, name: string | undefined, flags: SourceFlags): Source {
  if (name !== undefined) {
    const definition = definitionFor(context, name);
    const { account, organization, application, workday } = definition;
    return { account, organization, application, workday };
  }
  if (!flags.application === !flags.workday) {
    throw new UsageError("Name an import of the config, or give either --application or --workday.");
  }
  const { organization, application, workday } = flags;
  return { account: accountOf(context, flags), organization, application, workday };
}

function definitionFor(context: ManagementContext, name: string) {
  const definition = context.definitions.find((candidate) => candidate.name === name);
  if (definition !== undefined) return definition;
  const names = context.definitions.map((candidate) => candidate.name).join(", ") || "none";
  throw new UsageError(`There is no import "${name}" in the config; it has: ${names}.`);
}

export function preview(
  io: Io,
  open: OpenManagement,
  name: string | undefined,
  flags: SourceFlags & { limit: number },
): Promise<void> {
  return using(open, flags, async (context) => {
    const source = sourceFor(context, name, flags);
    const users: Readonly<Record<string, unknown>>[] = [];
    for await (const user of offered(context, source, io)) {
      if (users.length === flags.limit) break;
      users.push(user);
    }
    if (flags.json) return printJson(io, users);
    const text = (value: unknown) => (typeof value === "string" ? value : "");
    printTable(
      io,
      ["USERNAME", "EMAIL", "FIRST NAME", "LAST NAME"],
      users.map((user) => [text(user.username), text(user.email), text(user.firstname), text(user.lastname)]),
    );
  });
}

async function* offered(context: ManagementContext, source: Source, io: Io) {
  const client = context.management(source.account);
  const options = callOptions(
    { config: "", ...(source.organization ? { organization: source.organization } : {}) },
    io,
  );
  if (source.workday !== undefined) yield* await client.workdayWorkers(source.workday, options);
  else yield* client.importUsers(source.application ?? "", options);
}

export function start(
  io: Io,
  open: OpenManagement,
  name: string | undefined,
  flags: StartFlags,
): Promise<void> {
  return using(open, flags, async (context) => {
    const order = orderFrom(context, name, flags, io);
    const { clock, log } = context;
    const jobs = openJobs(context.database("write"));
    const source = (account: string) => importSourceOf(context.management(account));
    let id: number;
    try {
      ({ id } = await startImport({ jobs, source, clock, log }, order, io.signal));
    } catch (error) {
      if (!(error instanceof OpenJobError)) throw error;
      throw new UsageError(
        `${error.message} Follow it with "tidemark imports watch ${error.job}", or end it with "tidemark imports resolve ${error.job} --ended".`,
        { cause: error },
      );
    }
    const job = jobs.job(id)!;
    if (flags.watch && job.serviceJob !== null) return watchJob(io, context, id, flags.json === true);
    if (flags.json) printJson(io, job);
    else io.stdout.write(startWords(job));
    if (job.state !== "running") io.setExitCode(1);
  });
}

function startWords(job: Job): string {
  switch (job.state) {
    case "failed":
      return `Job ${job.id} was refused: ${job.reason}\n`;
    case "uncertain":
      return `Job ${job.id} is uncertain (${job.reason}): the service may have started it. It is not repeated; its events will show, or say it with "tidemark imports resolve ${job.id}".\n`;
    default:
      return `Job ${job.id} runs as ${job.serviceJob}. Follow it with "tidemark imports watch ${job.id}".\n`;
  }
}

function orderFrom(
  context: ManagementContext,
  name: string | undefined,
  flags: StartFlags,
  io: Io,
): StartOrder {
  const by = { origin: "command", requestedBy: io.env.SUDO_USER ?? io.env.USER ?? "command line" } as const;
  if (name !== undefined) return { ...orderOf(definitionFor(context, name)), ...by };
  const operations = flags.operation.map(operationOf);
  return {
    import: null,
    ...sourceFor(context, name, flags),
    request: {
      operations: operations.length > 0 ? operations : ["users.create", "users.update"],
      allowUserReactivation: flags.reactivate === true,
      ...(flags.query === undefined ? {} : { queryString: flags.query }),
    },
    ...by,
    ...DEFAULTS,
  };
}

function operationOf(text: string): "users.create" | "users.update" {
  if (text === "users.create" || text === "users.update") return text;
  throw new UsageError(`--operation is users.create or users.update, not ${JSON.stringify(text)}.`);
}
