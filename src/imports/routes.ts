import { z } from "zod";
import { defineRoute, type Route, RouteError } from "../core/route.ts";
import type { ImportDefinition } from "./config.ts";
import { DEFAULTS } from "./defaults.ts";
import {
  JOB_STATES,
  type Job,
  jobEventSchema,
  jobSchema,
  jobUserSchema,
  OUTCOMES,
  requestSchema,
} from "./job.ts";
import { nextRun } from "./schedule.ts";
import { orderOf } from "./scheduler.ts";
import { type StartContext, type StartOrder, startImport } from "./start.ts";
import { OpenJobError } from "./store.ts";

export interface RoutesContext extends StartContext {
  readonly definitions: readonly ImportDefinition[];
  readonly accounts: readonly string[];
}

const none = z.strictObject({});
const idParams = z.strictObject({
  id: z.coerce.number().int().positive().meta({ description: "The job's number." }),
});
const paging = {
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(10_000)
    .default(1000)
    .meta({ description: "How many at the most." }),
  offset: z.coerce.number().int().min(0).default(0).meta({ description: "How many to leave out first." }),
};

/** The HTTP API below /api/imports. */
export function importRoutes(context: RoutesContext): readonly Route[] {
  return [
    listRoute(context),
    definitionsRoute(context),
    showRoute(context),
    usersRoute(context),
    timelineRoute(context),
    startRoute(context),
    resolveRoute(context),
  ];
}

function listRoute({ jobs }: RoutesContext): Route {
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
        .max(1000)
        .default(100)
        .meta({ description: "How many at the most." }),
    }),
    body: undefined,
    response: z.strictObject({ jobs: z.array(jobSchema) }),
    run: async ({ query }) => ({ jobs: jobs.list(query) }),
  });
}

const definitionSchema = z.strictObject({
  name: z.string(),
  account: z.string(),
  organization: z.string().nullable(),
  schedule: z.string().nullable(),
  timeZone: z.string(),
  nextRunAt: z.iso.datetime().nullable(),
});

function definitionsRoute({ definitions, clock }: RoutesContext): Route {
  return defineRoute({
    method: "GET",
    path: "/api/imports/definitions",
    summary: "The imports of the config, and when each runs next.",
    scope: "read",
    params: none,
    query: none,
    body: undefined,
    response: z.strictObject({ imports: z.array(definitionSchema) }),
    run: async () => ({ imports: definitions.map((definition) => described(definition, clock.now())) }),
  });
}

function described(definition: ImportDefinition, nowMs: number): z.output<typeof definitionSchema> {
  const { name, account, organization = null, schedule = null, timeZone } = definition;
  const next = schedule === null ? undefined : nextRun(schedule, timeZone, nowMs);
  const nextRunAt = next === undefined ? null : new Date(next.ms).toISOString();
  return { name, account, organization, schedule, timeZone, nextRunAt };
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
      return { users: context.jobs.users(params.id, query) };
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
      return { events: context.jobs.timeline(params.id, query) };
    },
  });
}

const startBody = z.union([
  z.strictObject({ import: z.string().meta({ description: "The name of an import of the config." }) }),
  z.strictObject({
    account: z.string().meta({ description: "The account whose key starts it." }),
    organization: z.string().optional().meta({ description: "The organization's id." }),
    application: z.string().optional().meta({ description: "The application that imports users." }),
    workday: z
      .string()
      .optional()
      .meta({ description: "The Workday integration, instead of an application." }),
    ...requestSchema.shape,
  }),
]);

function startRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "POST",
    path: "/api/imports",
    summary: "Starts an import: one of the config by its name, or any other.",
    scope: "write",
    params: none,
    query: none,
    body: startBody,
    response: jobSchema,
    status: 201,
    async run({ body, caller, signal }) {
      try {
        const row = await startImport(context, orderFrom(context, body, caller), signal);
        return jobOrRefuse(context, row.id);
      } catch (error) {
        if (error instanceof OpenJobError) throw new RouteError(409, error.message, { cause: error });
        throw error;
      }
    },
  });
}

function orderFrom(context: RoutesContext, body: z.output<typeof startBody>, caller: string): StartOrder {
  if ("import" in body) {
    const definition = context.definitions.find(({ name }) => name === body.import);
    if (definition === undefined)
      throw new RouteError(404, `There is no import named ${JSON.stringify(body.import)}.`);
    return { ...orderOf(definition), origin: "api", requestedBy: caller };
  }
  const { account, organization, application, workday, ...request } = body;
  if (!context.accounts.includes(account)) {
    throw new RouteError(404, `There is no account named ${JSON.stringify(account)}.`);
  }
  if (!application === !workday) throw new RouteError(400, "Give either application or workday.");
  return {
    ...{ import: null, account, organization, application, workday, request },
    ...{ origin: "api", requestedBy: caller },
    ...DEFAULTS,
  };
}

const resolveBody = z.union([
  z.strictObject({
    serviceJob: z.string().min(1).meta({ description: "The service's job id: the start was taken." }),
  }),
  z.strictObject({ started: z.literal(false).meta({ description: "The start was not taken." }) }),
  z.strictObject({
    ended: z.literal(true).meta({ description: "The job is over; its schedule may go on." }),
  }),
]);
export type Resolution = z.output<typeof resolveBody>;

function resolveRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "POST",
    path: "/api/imports/:id/resolve",
    summary: "Says what became of a job whose start is uncertain, or ends one that hangs.",
    scope: "write",
    params: idParams,
    query: none,
    body: resolveBody,
    response: jobSchema,
    async run({ params, body, caller }) {
      jobOrRefuse(context, params.id);
      try {
        resolveJob(context, params.id, body, caller);
      } catch (error) {
        throw new RouteError(409, (error as Error).message, { cause: error });
      }
      return jobOrRefuse(context, params.id);
    },
  });
}

/** A person's word about a job. Throws when it contradicts what is known. */
export function resolveJob(
  { jobs, clock }: Pick<StartContext, "jobs" | "clock">,
  id: number,
  resolution: Resolution,
  by: string,
): void {
  const nowMs = clock.now();
  const job = jobs.row(id);
  if (job === undefined) throw new Error(`There is no job ${id}.`);
  if ("ended" in resolution) {
    jobs.move(id, "finished", nowMs, { reason: `ended by ${by}`, endedMs: nowMs });
    return;
  }
  if (job.service_job !== null) throw new Error(`Job ${id} is the service's job ${job.service_job} already.`);
  if (job.state === "requested") throw new Error(`Job ${id} is being started; its answer may still come.`);
  if ("serviceJob" in resolution) jobs.confirm(id, resolution.serviceJob, nowMs);
  else jobs.move(id, "failed", nowMs, { reason: `not started, says ${by}`, endedMs: nowMs });
}

function jobOrRefuse({ jobs }: RoutesContext, id: number): Job {
  const job = jobs.job(id);
  if (job === undefined) throw new RouteError(404, `There is no job ${id}.`);
  return job;
}
