import type { Effect } from "../../core/effect.ts";
import type { ClassName, Row } from "./schema.ts";

type Entry = readonly [name: ClassName, activity: number | string];

/** How an update of an account is written, by its most important effect. */
const ACCOUNT: Readonly<Partial<Record<Effect, Entry>>> = {
  enable: ["account_change", 2],
  disable: ["account_change", 5],
  lock: ["account_change", 9],
  unlock: ["account_change", 12],
  mfa_enable: ["account_change", 10],
  mfa_disable: ["account_change", 11],
  mfa_exclude: ["account_change", "MFA Exclude"],
  mfa_include: ["account_change", "MFA Include"],
  sudo_grant: ["user_access", 1],
  sudo_revoke: ["user_access", 2],
  privilege_raise: ["user_access", 1],
  privilege_lower: ["user_access", 2],
  role_change: ["user_access", "Role Change"],
  password_change: ["account_change", 3],
  password_reset: ["account_change", 4],
  password_never_expires: ["account_change", "Password Expiry Disable"],
  email_change: ["account_change", "Email Change"],
  api_key_set: ["account_change", "API Key Set"],
  api_key_remove: ["account_change", "API Key Remove"],
  ssh_key_change: ["account_change", "SSH Key Change"],
};

/** The same for updates of other things, and for links between them. */
const ENTITY: Readonly<Partial<Record<Effect, Entry>>> = {
  enable: ["entity_management", 8],
  disable: ["entity_management", 9],
  member_add: ["group_management", 3],
  member_remove: ["group_management", 4],
  subgroup_add: ["group_management", 7],
  subgroup_remove: ["group_management", 8],
  group_access_grant: ["group_management", 1],
  group_access_revoke: ["group_management", 2],
  access_grant: ["user_access", 1],
  access_revoke: ["user_access", 2],
  sudo_grant: ["user_access", 1],
  sudo_revoke: ["user_access", 2],
  link: ["entity_management", "Link"],
  unlink: ["entity_management", "Unlink"],
};

/** Rows that only say that something was updated become more exact; all other rows stay as they are. */
export function withEffect(row: Row, effects: readonly Effect[], isGroup: boolean): Row {
  const [first] = effects;
  if (first === undefined) return row;
  const entry = tableFor(row)?.[first];
  if (entry === undefined) return row;
  const [name, activity] = entry;
  // A group that gets sudo is a group with privileges, not a user.
  return { ...row, class: name === "user_access" && isGroup ? "group_management" : name, activity };
}

function tableFor({ class: name, activity }: Row) {
  if (name === "account_change" && activity === "Update") return ACCOUNT;
  return name === "entity_management" && activity === 3 ? ENTITY : undefined;
}
