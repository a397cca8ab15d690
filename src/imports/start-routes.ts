import { z } from "zod";
import { defineRoute, type Route, RouteError } from "../core/route.ts";
import { activateStaged } from "./activate.ts";
import { choiceOf } from "./config.ts";
import { DEFAULTS } from "./defaults.ts";
import { choiceSchema, type Job, jobSchema, requestSchema } from "./job.ts";
import { resolutionSchema, resolveJob } from "./resolve.ts";
import { idParams, jobOrRefuse, none, type RoutesContext } from "./route-context.ts";
import { orderOf } from "./scheduler.ts";
import { type StartOrder, startImport } from "./start.ts";
import { OpenJobError } from "./store/jobs.ts";

/** The operations that change something. */
export function changeRoutes(context: RoutesContext): readonly Route[] {
  return [startRoute(context), resolveRoute(context), activateRoute(context)];
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
    ...choiceSchema.shape,
  }),
]);

function startRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "POST",
    path: "/api/imports",
    summary:
      "Starts an import: one of the config by its name, or any other. 422: the service refused it; 502: it could not be reached or its answer was lost. Both answers contain the job.",
    scope: "write",
    params: none,
    query: none,
    body: startBody,
    response: jobSchema,
    status: 201,
    async run({ body, caller, stopped }) {
      const order = orderFrom(context, body, caller);
      try {
        const row = await startImport(context, order, stopped);
        return startedOrRefuse(jobOrRefuse(context, row.id));
      } catch (error) {
        if (error instanceof OpenJobError) throw new RouteError(409, error.message, { cause: error });
        throw error;
      }
    },
  });
}

/** Only a job that the service took, or that had nothing to post, is a success. */
function startedOrRefuse(job: Job): Job {
  if (job.state === "running" || job.state === "quiet" || job.state === "finished") return job;
  const wasRefused = job.state === "failed" && job.parts.some(({ state }) => state === "refused");
  const why = job.reason ?? job.parts.find(({ reason }) => reason !== null)?.reason ?? "no reason is known";
  const words = { failed: "failed", uncertain: "may not have started", ended: "was ended during its start" };
  const what = words[job.state as keyof typeof words] ?? "waits";
  throw new RouteError(wasRefused ? 422 : 502, `Job ${job.id} ${what}: ${why}`, { body: { job } });
}

function orderFrom(context: RoutesContext, body: z.output<typeof startBody>, caller: string): StartOrder {
  if ("import" in body) {
    const definition = context.definitions.find(({ name }) => name === body.import);
    if (definition === undefined)
      throw new RouteError(404, `There is no import named ${JSON.stringify(body.import)}.`);
    return { ...orderOf(definition), origin: "api", requestedBy: caller };
  }
  const { account, organization, application, workday, ...rest } = body;
  if (!context.accounts.includes(account)) {
    throw new RouteError(404, `There is no account named ${JSON.stringify(account)}.`);
  }
  if (!application === !workday) throw new RouteError(400, "Give either application or workday.");
  const { operations, allowUserReactivation, queryString } = rest;
  return {
    ...{ import: null, account, organization, application, workday },
    request: {
      ...{ operations, allowUserReactivation },
      ...(queryString === undefined ? {} : { queryString }),
    },
    choice: choiceOf(rest),
    ...{ origin: "api", requestedBy: caller },
    ...DEFAULTS,
  };
}

function resolveRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "POST",
    path: "/api/imports/:id/resolve",
    summary: "Says what became of a job whose start is uncertain, or ends one that hangs.",
    scope: "write",
    params: idParams,
    query: none,
    body: resolutionSchema,
    response: jobSchema,
    async run({ params, body, caller }) {
      jobOrRefuse(context, params.id);
      try {
        await resolveJob(context, params.id, body, caller);
      } catch (error) {
        throw new RouteError(409, (error as Error).message, { cause: error });
      }
      return jobOrRefuse(context, params.id);
    },
  });
}

function activateRoute(context: RoutesContext): Route {
  return defineRoute({
    method: "POST",
    path: "/api/imports/:id/activate",
    summary:
      "Activates the users of a job that are STAGED, or were created without a known state. `users` confirms how many; another number is refused.",
    scope: "write",
    params: idParams,
    query: none,
    body: z.strictObject({
      users: z.int().min(1).meta({ description: "The number that the job shows as staged." }),
    }),
    response: z.strictObject({
      activated: z.int(),
      failed: z.array(z.strictObject({ user: z.string(), reason: z.string() })),
    }),
    async run({ params, body, stopped }) {
      const { staged } = jobOrRefuse(context, params.id);
      if (staged !== body.users)
        throw new RouteError(409, `Job ${params.id} has ${staged} users to activate now, not ${body.users}.`);
      const { activated, failed } = await activateStaged(context, params.id, stopped);
      return { activated, failed: [...failed] };
    },
  });
}
