import { Problem } from "../http/problem.ts";
import type { Provisioning } from "./provisioning.ts";
import type { User } from "./user.ts";
import type { World } from "./world.ts";

/**
 * The moves of a user: STAGED → ACTIVATED by activation, now or scheduled; ⇄ suspended; → deleted. Every move tells
 * an event and lets provisioning look again.
 */
export interface Users {
  find(organization: string, id: string): User;
  list(organization: string): User[];
  byLogin(organization: string, username: string, email: string): User | undefined;
  create(user: Omit<User, "id" | "suspended">): User;
  update(
    user: User,
    changed: Partial<Pick<User, "email" | "firstname" | "lastname" | "state" | "suspended" | "attributes">>,
  ): User;
  activate(user: User, by: Readonly<Record<string, unknown>>): User;
  suspend(user: User, by: Readonly<Record<string, unknown>>): User;
  unsuspend(user: User, by: Readonly<Record<string, unknown>>): User;
  remove(user: User, by: Readonly<Record<string, unknown>>): void;
}

export function createUsers(world: World, provisioning: Provisioning): Users {
  const { db } = world;

  function find(organization: string, id: string): User {
    const user = db
      .prepare<[string, string], User>("SELECT * FROM users WHERE id = ? AND organization = ?")
      .get(id, organization);
    if (user === undefined) throw new Problem(404, "User not found");
    return user;
  }

  function update(user: User, changed: Partial<User>): User {
    const next = { ...user, ...changed };
    db.prepare(
      "UPDATE users SET email = @email, firstname = @firstname, lastname = @lastname, state = @state, suspended = @suspended, attributes = @attributes WHERE id = @id",
    ).run(next);
    provisioning.userChanged(user.id);
    return next;
  }

  /** Changes one field and tells it as an event of that type. */
  function move(
    user: User,
    changed: Partial<User>,
    type: string,
    by: Readonly<Record<string, unknown>>,
  ): User {
    const [field, to] = Object.entries(changed)[0]!;
    const next = update(user, changed);
    const shown = (value: unknown) => (field === "suspended" ? value === 1 : value);
    const change = { field, from: shown(user[field as keyof User]), to: shown(to) };
    world.tell(user.organization, {
      event_type: type,
      initiated_by: by,
      resource: resourceOf(user),
      changes: [change],
      auth_method: "api-key",
    });
    return next;
  }

  return {
    find,
    list: (organization) =>
      db.prepare<[string], User>("SELECT * FROM users WHERE organization = ? ORDER BY id").all(organization),
    byLogin: (organization, username, email) =>
      db
        .prepare<[string, string, string], User>(
          "SELECT * FROM users WHERE organization = ? AND (username = ? OR email = ?) ORDER BY id LIMIT 1",
        )
        .get(organization, username, email),
    create(user) {
      const id = world.newId();
      db.prepare(
        "INSERT INTO users (id, organization, username, email, firstname, lastname, state, source, attributes) VALUES (@id, @organization, @username, @email, @firstname, @lastname, @state, @source, @attributes)",
      ).run({ ...user, id });
      return find(user.organization, id);
    },
    update,
    activate(user, by) {
      if (user.suspended === 1) throw new Problem(400, "A suspended user cannot be activated");
      return user.state === "ACTIVATED" ? user : move(user, { state: "ACTIVATED" }, "user_activated", by);
    },
    suspend: (user, by) => (user.suspended === 1 ? user : move(user, { suspended: 1 }, "user_suspended", by)),
    unsuspend: (user, by) =>
      user.suspended === 0 ? user : move(user, { suspended: 0 }, "user_unsuspended", by),
    remove(user, by) {
      db.prepare("DELETE FROM users WHERE id = ?").run(user.id);
      provisioning.userChanged(user.id);
      db.prepare("DELETE FROM user_group_members WHERE user_id = ?").run(user.id);
      db.prepare("DELETE FROM associations WHERE type = 'user' AND target = ?").run(user.id);
      world.tell(user.organization, {
        event_type: "user_delete",
        initiated_by: by,
        resource: resourceOf(user),
        auth_method: "api-key",
      });
    },
  };
}

function resourceOf(user: Pick<User, "id" | "username">): Readonly<Record<string, unknown>> {
  return { type: "user", id: user.id, username: user.username };
}
