import type { z } from "zod";
import { json } from "../http/exchange.ts";
import { Problem } from "../http/problem.ts";
import {
  type Application,
  defaultApplication,
  findApplication,
  listApplications,
  saveApplication,
} from "../world/applications.ts";
import { templates } from "../world/templates.ts";
import { createBody, updateBody } from "./application-body.ts";
import { listWrapper, pickFields } from "./list-query.ts";
import type { Call, Parts, Route } from "./router.ts";

/** Application templates and SSO applications. */
export function applicationRoutes({ world, provisioning }: Parts): Route[] {
  const { db } = world;
  const read = ["applications", "applications.readonly"];

  function create(call: Call): Application {
    const body = parse(createBody, call.body());
    const application = merged(
      defaultApplication(world.newId(), call.organization.id, body.name, world.clock.now()),
      body,
    );
    refuseTakenUrl(application);
    saveApplication(db, application);
    tell(call, "application_create", application);
    return application;
  }

  /** Any field that is not given goes back to its default; the template and the identity stay. */
  function update(call: Call): Application {
    const before = findApplication(db, call.organization.id, call.params.id!);
    const body = parse(updateBody, call.body());
    const fresh = defaultApplication(
      before._id,
      before.organization,
      body.name ?? before.name,
      Date.parse(String(before.created)),
    );
    const application = merged(fresh, body);
    refuseTakenUrl(application);
    saveApplication(db, application);
    tell(call, "application_update", application, changesBetween(before, application));
    provisioning.applicationChanged(application._id, application.organization);
    return application;
  }

  function remove(call: Call): Application {
    const application = findApplication(db, call.organization.id, call.params.id!);
    provisioning.applicationChanged(application._id, application.organization);
    db.prepare("DELETE FROM applications WHERE id = ?").run(application._id);
    db.prepare("DELETE FROM associations WHERE application = ?").run(application._id);
    tell(call, "application_delete", application);
    return application;
  }

  function refuseTakenUrl(application: Application): void {
    const others = listApplications(db, application.organization).filter(
      ({ _id }) => _id !== application._id,
    );
    if (others.some(({ ssoUrl }) => ssoUrl === application.ssoUrl))
      throw new Problem(400, "ssoUrl is already in use");
  }

  function tell(call: Call, type: string, application: Application, changes: readonly object[] = []): void {
    const { _id: id, displayLabel: name } = application;
    world.tell(call.organization.id, {
      event_type: type,
      initiated_by: call.initiator,
      resource: { type: "application", id, name },
      changes,
      auth_method: "api-key",
    });
  }

  return [
    {
      method: "GET",
      path: "/application-templates",
      scopes: ["applicationtemplates", "applicationtemplates.readonly"],
      handle: (call) =>
        json(200, listWrapper([...templates] as unknown as Record<string, unknown>[], call.query, "name")),
    },
    {
      method: "GET",
      path: "/application-templates/:id",
      scopes: ["applicationtemplates", "applicationtemplates.readonly"],
      handle(call) {
        const template = templates.find(({ _id }) => _id === call.params.id);
        if (template === undefined) throw new Problem(404, "Application template not found");
        return json(200, pickFields({ ...template }, call.query.get("fields")));
      },
    },
    {
      method: "GET",
      path: "/applications",
      scopes: read,
      handle: (call) =>
        json(200, listWrapper(listApplications(db, call.organization.id), call.query, "name")),
    },
    {
      method: "POST",
      path: "/applications",
      scopes: ["applications", "applications.create"],
      handle: (call) => json(200, create(call)),
    },
    {
      method: "GET",
      path: "/applications/:id",
      scopes: read,
      handle: (call) => json(200, findApplication(db, call.organization.id, call.params.id!)),
    },
    {
      method: "PUT",
      path: "/applications/:id",
      scopes: ["applications", "applications.update"],
      handle: (call) => json(200, update(call)),
    },
    {
      method: "DELETE",
      path: "/applications/:id",
      scopes: ["applications", "applications.delete"],
      handle: (call) => json(200, remove(call)),
    },
  ];
}

/** Given settings lie over the template's, member by member: an entry may carry only its value. */
function merged(base: Application, given: z.infer<typeof updateBody>): Application {
  const config: Record<string, unknown> = { ...base.config };
  for (const [name, entry] of Object.entries(given.config ?? {})) {
    config[name] = { ...(config[name] as object | undefined), ...entry };
  }
  return { ...base, ...given, config } as Application;
}

function changesBetween(before: Application, after: Application): object[] {
  const names = Object.keys(after).filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  return names.map((field) => ({ field, from: before[field], to: after[field] }));
}

export function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const details = result.error.issues.map((issue) => ({
    field: issue.path.join("."),
    message: issue.message,
  }));
  throw new Problem(
    400,
    `Validation failed: ${details.map(({ field, message }) => `${field}: ${message}`).join("; ")}`,
    { extra: { details } },
  );
}
