import { z } from "zod";
import { defineRoute, type Route } from "../core/route.ts";
import { incomplete } from "../core/view/fields.ts";
import type { ImportDefinition } from "./config.ts";
import { JOB_STATES, jobEventSchema, jobSchema, jobUserSchema, OUTCOMES } from "./job.ts";
import { idParams, jobOrRefuse, none, type RoutesContext } from "./route-context.ts";
import { nextRun } from "./schedule.ts";
import { changeRoutes } from "./start-routes.ts";
import type { RunRow } from "./store/runs.ts";

/** How many an answer can have. */
export const IMPORT_JOBS_MAX = 1000;
export const IMPORT_ROWS_MAX = 10_000;

const paging = {
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(IMPORT_ROWS_MAX)
    .default(1000)
    .meta({ description: "How many at the most." }),
  offset: z.coerce.number().int().min(0).default(0).meta({ description: "How many to leave out first." }),
};

/** The HTTP API below /api/imports. */
export function importRoutes(context: RoutesContext): readonly Route[] {
  return [
    listRoute(context),
    definitionsRoute(context),
    runsRoute(context),
    showRoute(context),
    usersRoute(context),
    timelineRoute(context),
    ...changeRoutes(context),
  ];
}

/** The same operations without a state: their schemas, for a process that has others run them. */
export function importRouteShapes(): readonly Omit<Route, "run">[] {
  return importRoutes({} as RoutesContext);
}

function listRoute({ store }: RoutesContext): Route {
  return defineRoute({
    method: "GET",
    path: "/api/imports",
    summary: "Import jobs, the latest first.",
    scope: "read",
    params: none,
    query: z.strictObject({
      state: z.enum(JOB_STATES).optional().meta({ description: "Only jobs in this state." }),
      account: z.string().optional().meta({ description: "Only jobs of this account." }),
      import: z.string().optional().meta({ description: "Only jobs of this import of the config." }),
      limit: z.coerce
        .number()
        .int()
        .min(1)
        .max(IMPORT_JOBS_MAX)
        .default(100)
        .meta({ description: "How many at the most." }),
    }),
    body: undefined,
    response: z.strictObject({ jobs: z.array(jobSchema), incomplete }),
    run: async ({ query }) => ({ jobs: store.list(query) }),
  });
}

export const runSchema = z.strictObject({
  import: z.string(),
  local: z.string().meta({ description: "Date and time on the wall clock of the schedule." }),
  scheduledAt: z.iso.datetime(),
  outcome: z.enum(["started", "refused", "missed", "overlapped"]),
  job: z.int().nullable(),
  jobState: z.enum(JOB_STATES).nullable(),
  reason: z.string().nullable(),
});

const definitionSchema = z.strictObject({
  name: z.string(),
  account: z.string(),
  organization: z.string().nullable(),
  schedule: z.string().nullable(),
  timeZone: z.string(),
  nextRunAt: z.iso.datetime().nullable(),
  lastRun: runSchema.nullable().meta({ description: "The latest scheduled run, whatever became of it." }),
});

function definitionsRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "GET",
    path: "/api/imports/definitions",
    summary: "The imports of the config, with the last and the next scheduled run of each.",
    scope: "read",
    params: none,
    query: none,
    body: undefined,
    response: z.strictObject({ imports: z.array(definitionSchema), incomplete }),
    run: async () => ({
      imports: context.definitions
        .filter(({ account, organization }) => !context.refusal?.(account, organization))
        .map((definition) => described(context, definition)),
    }),
  });
}

function described(
  { store, clock }: RoutesContext,
  definition: ImportDefinition,
): z.output<typeof definitionSchema> {
  const { name, account, organization = null, schedule = null, timeZone } = definition;
  const next = schedule === null ? undefined : nextRun(schedule, timeZone, clock.now());
  const [last] = store.runs.list({ import: name, limit: 1 });
  return {
    ...{ name, account, organization, schedule, timeZone },
    nextRunAt: next === undefined ? null : new Date(next.ms).toISOString(),
    lastRun: last === undefined ? null : runOf(last),
  };
}

/** A run in the words of the page and the commands: `refused` is a started run whose job failed. */
export function runOf(run: RunRow): z.output<typeof runSchema> {
  const isRefused = run.outcome === "started" && run.jobState === "failed";
  return {
    import: run.import,
    local: run.local,
    scheduledAt: new Date(run.scheduledMs).toISOString(),
    outcome: isRefused ? "refused" : run.outcome,
    job: run.job,
    jobState: run.jobState,
    reason: run.reason,
  };
}

function runsRoute({ store }: RoutesContext): Route {
  return defineRoute({
    method: "GET",
    path: "/api/imports/runs",
    summary: "Scheduled runs, the latest first: started, missed, overlapped and refused ones.",
    scope: "read",
    params: none,
    query: z.strictObject({
      import: z.string().optional().meta({ description: "Only runs of this import of the config." }),
      limit: paging.limit,
    }),
    body: undefined,
    response: z.strictObject({ runs: z.array(runSchema), incomplete }),
    run: async ({ query }) => ({ runs: store.runs.list(query).map(runOf) }),
  });
}

function showRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "GET",
    path: "/api/imports/:id",
    summary: "One import job with its counts.",
    scope: "read",
    params: idParams,
    query: none,
    body: undefined,
    response: jobSchema,
    run: async ({ params }) => jobOrRefuse(context, params.id),
  });
}

function usersRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "GET",
    path: "/api/imports/:id/users",
    summary: "What became of each user of a job.",
    scope: "read",
    params: idParams,
    query: z.strictObject({
      outcome: z.enum(OUTCOMES).optional().meta({ description: "Only users with this outcome." }),
      ...paging,
    }),
    body: undefined,
    response: z.strictObject({ users: z.array(jobUserSchema) }),
    async run({ params, query }) {
      jobOrRefuse(context, params.id);
      return { users: context.store.users.list(params.id, query) };
    },
  });
}

function timelineRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "GET",
    path: "/api/imports/:id/timeline",
    summary: "A job's events in the order of their time.",
    scope: "read",
    params: idParams,
    query: z.strictObject(paging),
    body: undefined,
    response: z.strictObject({ events: z.array(jobEventSchema) }),
    async run({ params, query }) {
      jobOrRefuse(context, params.id);
      return { events: context.store.users.timeline(params.id, query) };
    },
  });
}
