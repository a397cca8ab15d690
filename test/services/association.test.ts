import { expect, test } from "vitest";
import type { Meaning } from "../../src/core/meaning.ts";
import { describe } from "../../src/services/index.ts";
import { journalEvent } from "../formats/event.ts";

function meaningOf(association: unknown, more: object = {}): Meaning {
  const event = { service: "directory", event_type: "association_change", association, ...more };
  return describe(journalEvent(event)).meaning;
}

const GROUP = { type: "user_group", object_id: "g", name: "Prod Admins" };
const USER = { type: "user", object_id: "u", name: "jo" };
const DEVICE = { type: "system", object_id: "s", name: "srv1" };
const APPLICATION = { type: "application", object_id: "a", name: "Payroll" };
const DEVICE_GROUP = { type: "system_group", object_id: "d", name: "Laptops" };
const POLICY = { type: "policy", object_id: "p", name: "FileVault" };

function linked(op: string, from: object, to: object, attributes?: unknown): Meaning {
  return meaningOf({ op, connection: { from, to }, attributes });
}

test.each([
  ["add", GROUP, USER, ["member_add"], []],
  ["remove", GROUP, USER, ["member_remove"], []],
  ["add", USER, GROUP, ["member_add"], []],
  ["add", GROUP, { ...GROUP, object_id: "g2" }, ["subgroup_add"], []],
  ["add", USER, DEVICE, ["access_grant"], ["login"]],
  ["remove", USER, DEVICE, ["access_revoke"], ["login"]],
  ["remove", USER, APPLICATION, ["access_revoke"], ["access"]],
  ["add", GROUP, APPLICATION, ["group_access_grant"], ["access"]],
  ["remove", GROUP, DEVICE_GROUP, ["group_access_revoke"], ["login"]],
  ["add", DEVICE_GROUP, DEVICE, ["link"], []],
  ["remove", POLICY, DEVICE_GROUP, ["unlink"], []],
  ["update", GROUP, USER, ["link_update"], []],
  ["unheard_of", GROUP, USER, [], []],
] as const)("%s %o and %o", (op, from, to, effects, privileges) => {
  const meaning = linked(op, from, to);
  expect(meaning.effects).toEqual(effects);
  expect(meaning.privileges).toEqual(privileges);
});

test("sudo in the attributes is a privilege of its own", () => {
  const sudo = (enabled: boolean, withoutPassword = false) => ({ sudo: { enabled, withoutPassword } });
  expect(linked("add", USER, DEVICE, sudo(true))).toMatchObject({
    effects: ["sudo_grant", "access_grant"],
    privileges: ["login", "sudo"],
  });
  expect(linked("add", USER, DEVICE, sudo(false)).effects).toEqual(["access_grant"]);
  expect(linked("update", USER, DEVICE, sudo(true, true))).toMatchObject({
    effects: ["sudo_grant"],
    privileges: ["sudo", "sudo_without_password"],
  });
  expect(linked("update", USER, DEVICE, sudo(false))).toMatchObject({
    effects: ["sudo_revoke"],
    privileges: ["sudo"],
  });
});

test("both ends are parties of the event, in any case of their types", () => {
  const { target, associate, link } = linked(
    "add",
    { ...GROUP, type: "USER_GROUP" },
    { ...USER, type: "USER" },
  );
  expect([target?.kind, target?.id?.value, target?.name?.value]).toEqual(["group", "g", "Prod Admins"]);
  expect([associate?.kind, associate?.id?.value]).toEqual(["user", "u"]);
  expect(link?.op).toBe("add");
});

test("older events name one end, and the resource is the other one", () => {
  const meaning = meaningOf(
    { op: "add", type: "user", id: "u", email: "jo@example.com" },
    { resource: { type: "user_group", id: "g", name: "Prod Admins" } },
  );
  expect(meaning.effects).toEqual(["member_add"]);
  expect([meaning.target?.kind, meaning.associate?.kind]).toEqual(["group", "user"]);
});

test("an association on another event type is a second party, and the resource stays the target", () => {
  const meaning = meaningOf(
    { op: "add", connection: { from: GROUP, to: USER } },
    { event_type: "user_create", resource: { type: "user", id: "new" } },
  );
  expect(meaning.link).toBeUndefined();
  expect([meaning.target?.id?.value, meaning.associate?.id?.value]).toEqual(["new", "u"]);
});

test("an association that cannot be read has no effect and is still a link", () => {
  for (const association of [
    undefined,
    null,
    7,
    "x",
    [],
    {},
    { connection: null },
    { connection: { from: 1 } },
  ]) {
    const meaning = meaningOf(association);
    expect(meaning.link?.op).toBe("unknown");
    expect(meaning.effects).toEqual([]);
  }
});
