import { z } from "zod";
import { json } from "../http/exchange.ts";
import { Problem } from "../http/problem.ts";
import { parse } from "./applications.ts";
import type { Call, Parts, Route } from "./router.ts";

interface SystemRow {
  readonly id: string;
  readonly organization: string;
  readonly document: string;
}

const change = z.object({ op: z.enum(["add", "remove"]), type: z.string().min(1), id: z.string().min(1) });
const metadata = z.looseObject({ displayName: z.string().min(1).optional() });

/** The calls of a Linux system about itself; an administrator may make them about any system. */
export function systemRoutes({ world }: Parts): Route[] {
  const { db } = world;

  function find(call: Call): SystemRow {
    const id = call.params.system!;
    if (call.system !== null && call.system !== id)
      throw new Problem(401, "A system may ask about itself only");
    const row = db
      .prepare<[string, string], SystemRow>("SELECT * FROM systems WHERE id = ? AND organization = ?")
      .get(id, call.organization.id);
    if (row === undefined) throw new Problem(404, "System not found");
    return row;
  }

  function update(call: Call) {
    const before = JSON.parse(find(call).document) as Record<string, unknown>;
    const after = {
      ...before,
      ...parse(metadata, call.body()),
      _id: before._id,
      organization: before.organization,
    };
    db.prepare("UPDATE systems SET document = ? WHERE id = ?").run(JSON.stringify(after), before._id);
    tell(call, "system_update", {
      changes: [{ field: "displayName", from: before.displayName, to: after.displayName }],
    });
    return after;
  }

  function remove(call: Call) {
    const system = find(call);
    db.prepare("DELETE FROM systems WHERE id = ?").run(system.id);
    db.prepare("DELETE FROM system_group_members WHERE system_id = ?").run(system.id);
    db.prepare("DELETE FROM system_associations WHERE system_id = ?").run(system.id);
    tell(call, "system_delete");
    return JSON.parse(system.document) as unknown;
  }

  function tell(call: Call, type: string, more: Record<string, unknown> = {}): void {
    const id = call.params.system ?? call.system;
    world.tell(call.organization.id, {
      event_type: type,
      initiated_by: call.initiator,
      resource: { type: "system", id },
      ...more,
    });
  }

  function memberOf(call: Call) {
    const rows = db
      .prepare<[string], { id: string; name: string }>(
        "SELECT id, name FROM system_groups JOIN system_group_members ON group_id = id WHERE system_id = ? ORDER BY id",
      )
      .all(find(call).id);
    return rows.map(({ id, name }) => ({ id, type: "system_group", compiledAttributes: {}, name }));
  }

  function associations(call: Call) {
    const targets = call.query.get("targets");
    const rows = db
      .prepare<[string], { type: string; id: string }>(
        "SELECT type, target AS id FROM system_associations WHERE system_id = ? ORDER BY type, target",
      )
      .all(find(call).id);
    return rows.filter(({ type }) => targets === null || type === targets).map((to) => ({ to }));
  }

  function associate(call: Call): void {
    const { op, type, id } = parse(change, call.body());
    const system = find(call);
    const statement =
      op === "add"
        ? "INSERT OR IGNORE INTO system_associations VALUES (?, ?, ?)"
        : "DELETE FROM system_associations WHERE system_id = ? AND type = ? AND target = ?";
    db.prepare(statement).run(system.id, type, id);
    tell(call, "association_change", { association: { op, type, id } });
  }

  function traversedUsers(call: Call) {
    const rows = db
      .prepare<[string, string], { id: string }>(
        `SELECT target AS id FROM system_associations WHERE system_id = ? AND type = 'user'
         UNION SELECT user_id FROM system_associations JOIN user_group_members ON group_id = target
           WHERE system_id = ? AND type = 'user_group' ORDER BY 1`,
      )
      .all(find(call).id, find(call).id);
    return rows.map(({ id }) => ({ id, type: "user" }));
  }

  function changeMembership(call: Call): void {
    const { op, id } = parse(change, call.body());
    if (call.system !== null && call.system !== id)
      throw new Problem(403, "A system may change its own membership only");
    const group = db
      .prepare("SELECT 1 FROM system_groups WHERE id = ? AND organization = ?")
      .get(call.params.group, call.organization.id);
    if (group === undefined) throw new Problem(404, "System group not found");
    const statement =
      op === "add"
        ? "INSERT OR IGNORE INTO system_group_members VALUES (?, ?)"
        : "DELETE FROM system_group_members WHERE group_id = ? AND system_id = ?";
    db.prepare(statement).run(call.params.group, id);
    world.tell(call.organization.id, {
      event_type: "association_change",
      initiated_by: call.initiator,
      resource: { type: "system_group", id: call.params.group },
      association: { op, type: "system", id },
    });
  }

  const noContent = (act: (call: Call) => void) => (call: Call) => {
    act(call);
    return { status: 204 };
  };
  const systemContext = true;
  return [
    {
      method: "GET",
      path: "/systems/:system",
      systemContext,
      handle: (call) => json(200, JSON.parse(find(call).document)),
    },
    { method: "PUT", path: "/systems/:system", systemContext, handle: (call) => json(200, update(call)) },
    { method: "DELETE", path: "/systems/:system", systemContext, handle: (call) => json(200, remove(call)) },
    {
      method: "GET",
      path: "/v2/systems/:system/memberof",
      systemContext,
      handle: (call) => json(200, memberOf(call)),
    },
    {
      method: "GET",
      path: "/v2/systems/:system/associations",
      systemContext,
      handle: (call) => json(200, associations(call)),
    },
    { method: "POST", path: "/v2/systems/:system/associations", systemContext, handle: noContent(associate) },
    {
      method: "GET",
      path: "/v2/systems/:system/users",
      systemContext,
      handle: (call) => json(200, traversedUsers(call)),
    },
    {
      method: "POST",
      path: "/v2/systemgroups/:group/members",
      systemContext,
      handle: noContent(changeMembership),
    },
  ];
}
