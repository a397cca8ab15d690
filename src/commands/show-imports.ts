import { UsageError } from "../core/errors.ts";
import type { Job, JobState, JobUser } from "../imports/job.ts";
import { nextRun } from "../imports/schedule.ts";
import { sayIncomplete } from "./incomplete.ts";
import type { Io } from "./io.ts";
import { jobReader } from "./job-reader.ts";
import {
  type CommonFlags,
  type ManagementContext,
  type OpenManagement,
  printJson,
  printTable,
  using,
} from "./management.ts";

const SHOWN_MAX = 20;
/** The reason of a job is shown whole: it may have several sentences. */
const REASON_LENGTH_MAX = 2000;

export function list(
  io: Io,
  open: OpenManagement,
  flags: CommonFlags & { state?: JobState; account?: string; limit: number },
): Promise<void> {
  return using(open, flags, async (context) => {
    const found = await jobReader(context).list(flags);
    sayIncomplete(io, found);
    if (flags.json) return printJson(io, found.jobs);
    printTable(io, ["JOB", "IMPORT", "REQUESTED", "BY", "STATE", "USERS"], found.jobs.map(jobCells));
  });
}

function jobCells(job: Job) {
  const requested = job.requestedAt.slice(0, 19).replace("T", " ");
  return [job.id, job.import ?? job.source, requested, job.requestedBy, job.state, job.summary];
}

/** What was scheduled, what became of it, and when each import runs next. */
export function runs(
  io: Io,
  open: OpenManagement,
  name: string | undefined,
  flags: CommonFlags & { limit: number },
): Promise<void> {
  return using(open, flags, async (context) => {
    const next = nextRuns(context, name);
    const answer = await jobReader(context).runs({ import: name, limit: flags.limit });
    sayIncomplete(io, answer);
    if (flags.json) return printJson(io, { next, runs: answer.runs });
    printTable(
      io,
      ["IMPORT", "NEXT RUN", "SCHEDULE"],
      next.map((one) => [one.import, one.nextRunAt, one.schedule]),
    );
    io.stdout.write("\n");
    printTable(
      io,
      ["IMPORT", "SCHEDULED FOR", "OUTCOME", "JOB", "STATE", "REASON"],
      answer.runs.map((run) => [run.import, run.local, run.outcome, run.job, run.jobState, run.reason]),
    );
  });
}

function nextRuns({ definitions, clock, refusal }: ManagementContext, name: string | undefined) {
  const isOwn = ({ account, organization }: (typeof definitions)[number]) =>
    refusal?.(account, organization) === undefined;
  const named = definitions.filter((definition) =>
    name === undefined ? isOwn(definition) : definition.name === name,
  );
  if (named.length === 0 && name !== undefined) {
    const names = definitions.map((definition) => definition.name).join(", ") || "none";
    throw new UsageError(`There is no import "${name}" in the config; it has: ${names}.`);
  }
  return named.map((definition) => {
    const { name: own, schedule, timeZone } = definition;
    // A schedule fires in its organization's shard alone.
    const next =
      schedule === undefined || !isOwn(definition) ? undefined : nextRun(schedule, timeZone, clock.now());
    return {
      import: own,
      schedule: schedule === undefined ? null : `${schedule} ${timeZone}`,
      nextRunAt: next === undefined ? null : new Date(next.ms).toISOString(),
    };
  });
}

export function show(io: Io, open: OpenManagement, id: number, flags: CommonFlags): Promise<void> {
  return using(open, flags, async (context) => {
    const jobs = jobReader(context);
    const job = await jobs.job(id);
    if (job === undefined) throw new UsageError(`There is no job ${id}; see "tidemark imports list".`);
    if (flags.json) {
      const [users, timeline] = [await jobs.users(id), await jobs.timeline(id)];
      return printJson(io, { ...job, users, timeline });
    }
    io.stdout.write(`${job.summary}\n\n`);
    printTable(io, ["FIELD", "VALUE"], fieldsOf(job), REASON_LENGTH_MAX);
    for (const outcome of ["failed", "skipped", "pending"] as const) {
      const users = await jobs.users(id, { outcome, limit: SHOWN_MAX });
      const title =
        outcome === "pending" ? (job.endedAt === null ? "Waiting" : "Unaccounted") : TITLES[outcome];
      printUsers(io, title, users, job.counts[outcome]);
    }
    if (job.staged > 0)
      io.stdout.write(
        `\n${job.staged} users can be activated: they are STAGED, or were created and no event says their state. Activate them with "tidemark imports activate ${id}".\n`,
      );
  });
}

const TITLES = { failed: "Failed", skipped: "Skipped" } as const;

function printUsers(io: Io, title: string, users: readonly JobUser[], count: number): void {
  if (users.length === 0) return;
  const some = count > users.length ? ` (the first ${users.length} of ${count})` : "";
  io.stdout.write(`\n${title}${some}:\n`);
  printTable(
    io,
    ["USER", "REASON", "EVENT"],
    users.map((user) => [user.username ?? user.email ?? user.userId ?? "", user.reason, user.event]),
  );
}

function fieldsOf(job: Job): [string, string | number | null][] {
  const { counts, parts } = job;
  const taken = parts.filter(({ state }) => state === "taken").length;
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
    ...(job.offerNote === null ? [] : [["offer", job.offerNote] as [string, string]]),
    ...(parts.length > 1 ? [["parts", `${taken} of ${parts.length} taken`] as [string, string]] : []),
    ["events", `${counts.events}${job.lastEventAt === null ? "" : `, the last at ${job.lastEventAt}`}`],
  ];
}
