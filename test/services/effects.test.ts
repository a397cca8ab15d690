import { expect, test } from "vitest";
import type { Meaning } from "../../src/core/meaning.ts";
import { describe } from "../../src/services/index.ts";
import { journalEvent } from "../formats/event.ts";

function updated(eventType: string, type: string, ...changes: unknown[]): Meaning {
  const event = {
    service: "directory",
    event_type: eventType,
    resource: { type, id: "r", name: "jo" },
    changes,
  };
  return describe(journalEvent(event)).meaning;
}

function userEffects(...changes: unknown[]): readonly string[] {
  return updated("user_update", "user", ...changes).effects;
}

const change = (field: string, from: unknown, to: unknown) => ({ field, from, to });

test.each([
  [change("suspended", false, true), "disable"],
  [change("suspended", true, false), "enable"],
  [change("state", "ACTIVATED", "SUSPENDED"), "disable"],
  [change("state", "SUSPENDED", "ACTIVATED"), "enable"],
  [change("account_locked", false, true), "lock"],
  [change("account_locked", true, false), "unlock"],
  [change("enable_user_portal_multifactor", true, false), "mfa_disable"],
  [change("enableMultiFactor", false, true), "mfa_enable"],
  [change("totp_enabled", "true", "false"), "mfa_disable"],
  [change("mfa.exclusion", false, true), "mfa_exclude"],
  [change("mfa", { exclusion: true }, { exclusion: false }), "mfa_include"],
  [change("sudo", false, true), "sudo_grant"],
  [change("passwordless_sudo", true, undefined), "sudo_revoke"],
  [change("ldap_binding_user", false, true), "privilege_raise"],
  [change("roleName", "Help Desk", "Administrator"), "privilege_raise"],
  [change("roleName", "Administrator", "Read Only"), "privilege_lower"],
  [change("role", "5f0c", "5f0d"), "role_change"],
  [change("password_date", "2026-01-01", "2026-11-01"), "password_change"],
  [change("password_expired", false, true), "password_reset"],
  [change("password_never_expires", false, true), "password_never_expires"],
  [change("email", "a@example.com", "b@example.com"), "email_change"],
  [change("apiKeySet", false, true), "api_key_set"],
  [change("ssh_keys", [], [{ name: "k" }]), "ssh_key_change"],
])("an update with %o is a %s", (entry, effect) => {
  expect(userEffects(entry)).toEqual([effect]);
});

test("changes that are no change, or of other fields, have no effect", () => {
  expect(
    userEffects(
      change("suspended", false, false),
      change("department", "a", "b"),
      change("state", "STAGED", "STAGED"),
      change("mfa", { exclusion: false }, { exclusion: false }),
      { field: 7, to: true },
      { to: true },
      null,
      "suspended",
    ),
  ).toEqual([]);
});

test("all effects are named, the gravest first, and privileges with them", () => {
  const meaning = updated(
    "user_update",
    "user",
    change("email", "a", "b"),
    change("suspended", true, false),
    change("sudo", false, true),
    change("enable_user_portal_multifactor", true, false),
  );
  expect(meaning.effects).toEqual(["mfa_disable", "sudo_grant", "enable", "email_change"]);
  expect(meaning.privileges).toEqual(["sudo"]);
});

test("a policy that is switched off or demands less is weaker", () => {
  const effects = (...changes: unknown[]) => updated("authnpolicy_update", "authnpolicy", ...changes).effects;
  expect(effects(change("disabled", false, true))).toEqual(["disable", "policy_weaken"]);
  expect(effects(change("disabled", true, false))).toEqual(["enable"]);
  expect(effects(change("effect", { action: "deny" }, { action: "allow" }))).toEqual(["policy_weaken"]);
  expect(effects(change("effect", { action: "allow" }, { action: "deny" }))).toEqual([]);
  const settings = (...changes: unknown[]) =>
    updated("organization_update", "organization", ...changes).effects;
  expect(settings(change("settings.passwordPolicy.minLength", 14, 8))).toEqual(["policy_weaken"]);
  expect(settings(change("settings.passwordPolicy.minLength", 8, 14))).toEqual([]);
  expect(
    settings(
      change(
        "settings",
        { passwordPolicy: { needsNumeric: true } },
        { passwordPolicy: { needsNumeric: false } },
      ),
    ),
  ).toEqual(["policy_weaken"]);
  expect(settings(change("maxLoginAttempts", 5, 50))).toEqual(["policy_weaken"]);
});

test("event types with names that tell the effect have it, whatever their changes are", () => {
  const effects = (event_type: string) =>
    describe(journalEvent({ service: "directory", event_type })).meaning.effects;
  expect(effects("user_suspended")).toEqual(["disable"]);
  expect(effects("user_locked_out")).toEqual(["lock"]);
  expect(effects("admin_totp_disable")).toEqual(["mfa_disable"]);
  expect(effects("user_admin_granted")).toEqual(["sudo_grant"]);
  expect(effects("user_create")).toEqual([]);
});

test("a thousand nested changes are read within bounds", () => {
  const deep = (depth: number): unknown => (depth === 0 ? true : { a: deep(depth - 1), b: deep(depth - 1) });
  expect(userEffects(...Array.from({ length: 1000 }, () => change("x", {}, deep(8))))).toEqual([]);
});
