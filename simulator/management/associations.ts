import { z } from "zod";
import { json } from "../http/exchange.ts";
import { Problem } from "../http/problem.ts";
import { findApplication } from "../world/applications.ts";
import type { User } from "../world/user.ts";
import { parse } from "./applications.ts";
import { slice } from "./list-query.ts";
import type { Call, Parts, Route } from "./router.ts";

const body = z.object({
  op: z.enum(["add", "remove"]),
  type: z.enum(["user_group", "user"]),
  id: z.string().min(1),
});

/** Bindings of users and groups to an application. */
export function associationRoutes({ world, users, provisioning }: Parts): Route[] {
  const { db } = world;
  const scopes = ["associations.applications", "associations"];

  function change(call: Call): void {
    const application = findApplication(db, call.organization.id, call.params.application!);
    const { op, type, id } = parse(body, call.body());
    if (type === "user") users.find(call.organization.id, id);
    else findGroup(call.organization.id, id);
    const statement =
      op === "add"
        ? "INSERT OR IGNORE INTO associations VALUES (?, ?, ?)"
        : "DELETE FROM associations WHERE application = ? AND type = ? AND target = ?";
    const { changes } = db.prepare(statement).run(application._id, type, id);
    if (type === "user") provisioning.userChanged(id);
    else provisioning.applicationChanged(application._id, application.organization);
    if (changes === 0) return;
    world.tell(call.organization.id, {
      event_type: "association_change",
      initiated_by: call.initiator,
      resource: { type: "application", id: application._id, name: application.displayLabel },
      association: { op, type, id },
      auth_method: "api-key",
    });
  }

  function findGroup(organization: string, id: string): void {
    const row = db
      .prepare("SELECT 1 FROM user_groups WHERE id = ? AND organization = ?")
      .get(id, organization);
    if (row === undefined) throw new Problem(404, "User group not found");
  }

  function list(call: Call) {
    const application = findApplication(db, call.organization.id, call.params.application!);
    const targets = call.query.get("targets");
    if (targets !== "user" && targets !== "user_group")
      throw new Problem(400, "targets is required: user_group or user");
    const rows = db
      .prepare<[string, string], { type: string; id: string }>(
        "SELECT type, target AS id FROM associations WHERE application = ? AND type = ? ORDER BY target",
      )
      .all(application._id, targets);
    return slice(rows, call.query).map((to) => ({ to }));
  }

  function boundUsers(call: Call) {
    const application = findApplication(db, call.organization.id, call.params.application!);
    const rows = db
      .prepare<[string, string], User>(
        `SELECT * FROM users WHERE id IN (
           SELECT target FROM associations WHERE application = ? AND type = 'user'
           UNION SELECT user_id FROM associations JOIN user_group_members ON group_id = target
             WHERE application = ? AND type = 'user_group') ORDER BY id`,
      )
      .all(application._id, application._id);
    return slice(rows, call.query).map(({ id, username, email, state }) => ({
      id,
      type: "user",
      username,
      email,
      state,
      paths: pathsTo(application._id, id),
    }));
  }

  /** How the user is reached: directly, and through each group that is bound. */
  function pathsTo(application: string, user: string) {
    const direct = db
      .prepare("SELECT 1 FROM associations WHERE application = ? AND type = 'user' AND target = ?")
      .get(application, user);
    const groups = db
      .prepare<[string, string], { id: string }>(
        `SELECT target AS id FROM associations JOIN user_group_members ON group_id = target
         WHERE application = ? AND type = 'user_group' AND user_id = ? ORDER BY target`,
      )
      .all(application, user);
    const step = (type: string, id: string) => ({ to: { type, id, attributes: null } });
    return [
      ...(direct === undefined ? [] : [[step("user", user)]]),
      ...groups.map(({ id }) => [step("user_group", id), step("user", user)]),
    ];
  }

  return [
    {
      method: "POST",
      path: "/v2/applications/:application/associations",
      scopes,
      handle(call) {
        change(call);
        return { status: 204 };
      },
    },
    {
      method: "GET",
      path: "/v2/applications/:application/associations",
      scopes: ["associations.applications", "associations.applications.readonly"],
      handle: (call) => json(200, list(call)),
    },
    {
      method: "GET",
      path: "/v2/applications/:application/users",
      handle: (call) => json(200, boundUsers(call)),
    },
  ];
}
