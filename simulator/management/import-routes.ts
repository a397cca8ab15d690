import { z } from "zod";
import { json } from "../http/exchange.ts";
import { Problem } from "../http/problem.ts";
import { type Application, findApplication } from "../world/applications.ts";
import { type ImportEntry, type JobUser, sourceEntries } from "../world/import-jobs.ts";
import { importTemplate } from "../world/templates.ts";
import { workdayId } from "../world/world.ts";
import { parse } from "./applications.ts";
import { listWrapper, slice } from "./list-query.ts";
import type { Call, Parts, Route } from "./router.ts";

const jobBody = z.object({
  operations: z.array(z.enum(["users.create", "users.update"])).min(1),
  allowUserReactivation: z.boolean().optional(),
  queryString: z.string().optional(),
});
/** International addresses are valid: one @, something on both sides, a dot in the domain, no white space. */
const emailPattern = /^[^\s@"(),:;<>]+@[^\s@"(),:;<>]+\.[^\s@"(),:;<>.]+$/u;
const workdayBody = z
  .array(
    z.object({
      email: z.string().regex(emailPattern, { error: "is not an e-mail address" }),
      firstname: z.string().optional(),
      lastname: z.string().optional(),
      username: z.string().min(1),
      state: z.enum(["STAGED", "ACTIVATED"]).optional(),
      attributes: z.array(z.object({ name: z.string(), value: z.string() })).optional(),
    }),
  )
  .min(1);
const statesBody = z.object({
  user_ids: z.array(z.string()).min(1),
  state: z.enum(["ACTIVATED", "SUSPENDED"]),
  start_date: z.iso.datetime({ offset: true }),
});

/** Identity-management imports, Workday, and the states of users. */
export function importRoutes({ world, users, imports, schedules }: Parts): Route[] {
  function integration(call: Call): Application {
    const application = findApplication(world.db, call.organization.id, call.params.application!);
    if (application.name !== importTemplate)
      throw new Problem(400, "The application is not a custom-protocol integration");
    if (!application.active) throw new Problem(400, "The application is not active");
    return application;
  }

  function offered(application: Application, queryString: string): ImportEntry[] {
    const wanted = queryString.toLowerCase();
    return sourceEntries(world, application).filter((entry) =>
      JSON.stringify(entry).toLowerCase().includes(wanted),
    );
  }

  function startImport(call: Call): string {
    const application = integration(call);
    const body = parse(jobBody, call.body());
    return imports.start({
      organization: call.organization.id,
      application: application._id,
      kind: "import",
      request: {
        operations: body.operations,
        allowUserReactivation: body.allowUserReactivation ?? false,
        source: "custom:scim",
      },
      entries: offered(application, body.queryString ?? ""),
    });
  }

  function availableUsers(call: Call) {
    const isFiltered = world.settings.imports.previewQuery;
    const entries = offered(integration(call), isFiltered ? (call.query.get("query") ?? "") : "");
    if (world.settings.imports.usersShape === "array") return slice(entries, call.query);
    return sessionPage(entries, call, `${call.organization.id.slice(0, 8)}-session`);
  }

  /** The object that is seen in the field pages by a cursor, which belongs to a session. */
  function sessionPage(entries: readonly ImportEntry[], call: Call, session: string) {
    const cursor = call.query.get("cursor") ?? "";
    const given = call.query.get("sessionId") ?? call.query.get("session_id") ?? "";
    if (cursor !== "" && given !== session) throw new Problem(400, "The cursor needs its session: sessionId");
    const start = cursor === "" ? 0 : Number(cursor);
    if (!Number.isInteger(start) || start < 0) throw new Problem(400, "The cursor is not valid");
    const query = new URLSearchParams({ ...Object.fromEntries(call.query), skip: String(start) });
    const users = slice(entries, query);
    const next = start + users.length;
    return {
      users,
      cursor: next < entries.length ? String(next) : "",
      session_id: session,
      total_count: entries.length,
    };
  }

  function workday(call: Call): string {
    const id = workdayId(call.organization.id);
    if (call.params.workday !== id) throw new Problem(404, "Workday integration not found");
    return id;
  }

  function parseEntries(body: unknown) {
    try {
      return parse(workdayBody, body);
    } catch (error) {
      if (world.settings.imports.refusals === "named" || !(error instanceof Problem)) throw error;
      throw new Problem(400, "The request is not valid");
    }
  }

  function startWorkday(call: Call): string {
    const application = workday(call);
    const entries = parseEntries(call.body()).map((entry, index): ImportEntry => {
      const attributes = Object.fromEntries((entry.attributes ?? []).map(({ name, value }) => [name, value]));
      const { email, username, firstname = "", lastname = "", state } = entry;
      return {
        id: String(index),
        ...{ email, username, firstname, lastname, attributes },
        ...(state === undefined ? {} : { state }),
      };
    });
    const request = {
      operations: ["users.create", "users.update"] as const,
      allowUserReactivation: false,
      source: "workday:scim",
    };
    return imports.start({
      organization: call.organization.id,
      application,
      kind: "workday",
      request,
      entries,
    });
  }

  function workdayResults(call: Call) {
    const application = workday(call);
    const job = imports.find(call.params.job!);
    if (job === undefined || job.application !== application) throw new Problem(404, "Import job not found");
    return slice(imports.users(job.id), call.query).map(resultOf);
  }

  function scheduleStates(call: Call) {
    const { user_ids, state, start_date } = parse(statesBody, call.body());
    const atMs = Date.parse(start_date);
    if (atMs <= world.clock.now()) throw new Problem(400, "start_date must be in the future");
    const found = user_ids.map((id) => users.find(call.organization.id, id));
    return found.map((user) => {
      const schedule = schedules.add(
        { organization: user.organization, user: user.id, state, at_ms: atMs },
        call.initiator,
      );
      return {
        scheduledJobId: schedule.id,
        scheduledDate: new Date(atMs).toISOString(),
        state,
        systemUserId: user.id,
      };
    });
  }

  function listUsers(call: Call) {
    if (!world.settings.imports.listUsers) throw new Problem(404, "Not found");
    const rows = users.list(call.organization.id).map((user) => ({
      _id: user.id,
      ...{ username: user.username, email: user.email, firstname: user.firstname, lastname: user.lastname },
      ...{ state: user.suspended === 1 ? "SUSPENDED" : user.state, suspended: user.suspended === 1 },
      attributes: Object.entries(JSON.parse(user.attributes) as Record<string, string>).map(
        ([name, value]) => ({ name, value }),
      ),
    }));
    return listWrapper(rows, call.query, "_id");
  }

  const scopes = ["applications"];
  return [
    { method: "GET", path: "/systemusers", handle: (call) => json(200, listUsers(call)) },
    {
      method: "GET",
      path: "/v2/applications/:application/import/users",
      scopes,
      handle: (call) => json(200, availableUsers(call)),
    },
    {
      method: "POST",
      path: "/v2/applications/:application/import/jobs",
      scopes,
      handle: (call) => json(200, { _id: startImport(call) }),
    },
    {
      method: "POST",
      path: "/systemusers/:id/state/activate",
      handle(call) {
        const user = users.activate(users.find(call.organization.id, call.params.id!), call.initiator);
        return json(200, { _id: user.id, state: user.state });
      },
    },
    {
      method: "GET",
      path: "/v2/workdays/:workday/workers",
      handle(call) {
        const source = { _id: workday(call), organization: call.organization.id };
        const { badWorkers, sourceUsers, workerShapes } = world.settings.imports;
        const every = badWorkers === 0 ? 0 : Math.max(1, Math.floor(sourceUsers / badWorkers));
        const workers = sourceEntries(world, source).map((entry, index) => {
          const isBad = every > 0 && index % every === every - 1 && (index + 1) / every <= badWorkers;
          return workerOf(isBad ? { ...entry, email: "no address" } : entry, workerShapes, index);
        });
        return json(200, slice(workers, call.query));
      },
    },
    {
      method: "POST",
      path: "/v2/workdays/:workday/import",
      handle(call) {
        const id = startWorkday(call);
        return json(201, { jobId: id, _id: id });
      },
    },
    {
      method: "GET",
      path: "/v2/workdays/:workday/import/:job/results",
      handle: (call) => json(200, workdayResults(call)),
    },
    { method: "POST", path: "/v2/bulk/userstates", handle: (call) => json(201, scheduleStates(call)) },
  ];
}

/** The specification does not show a worker: both spellings are seen. */
function workerOf(entry: ImportEntry, shapes: "specified" | "mixed", index: number) {
  const { username, email, firstname, lastname, attributes } = entry;
  if (shapes === "mixed" && index % 2 === 1)
    return { email, firstName: firstname, lastName: lastname, username, attributes };
  const list = Object.entries(attributes).map(([name, value]) => ({ name, value }));
  return { email, firstname, lastname, username, attributes: list };
}

function resultOf({ entry, outcome, user, error, at }: JobUser) {
  return {
    status: outcome === "pending" ? "pending" : outcome === "failed" ? "failed" : "finished",
    statusMsg: error ?? outcome,
    systemUserId: user,
    username: entry.username,
    email: entry.email,
    updatedAt: at,
  };
}
