import type { Effect } from "../../core/effect.ts";
import {
  type Carried,
  decide,
  type Fields,
  isUser,
  type Judge,
  type Link,
  type Meaning,
  type Party,
} from "../../core/meaning.ts";
import { sudoOf } from "./association.ts";
import { judgeAccount, judgeSetting } from "./change-effects.ts";
import { changesOf } from "./changes.ts";

type Privilege = string | Carried;

export interface Effects {
  readonly effects: readonly Effect[];
  readonly privileges: readonly Privilege[];
  readonly judge?: Judge;
}

const NONE: Effects = { effects: [], privileges: [] };
/** Only the attributes of a link changed. */
const CHANGED: Effects = { effects: ["link_update"], privileges: [] };
const SUDO: readonly Privilege[] = ["sudo"];

/** The event types whose name alone tells the effect. */
const BY_TYPE: ReadonlyMap<string, Effects> = new Map(
  (
    [
      ["disable", "admin_suspended user_suspended"],
      ["enable", "admin_unsuspend user_unsuspended user_activated"],
      ["lock", "admin_lockout user_lockout user_locked_out"],
      ["unlock", "user_unlocked"],
      ["mfa_enable", "admin_totp_finish_enrollment totp_finish_enrollment"],
      ["mfa_disable", "admin_totp_disable totp_delete_enrollment"],
      ["mfa_include", "user_mfa_exclusion_expired"],
      ["password_change", "admin_password_change user_password_change user_password_set"],
      ["password_reset", "admin_password_reset_request user_password_reset_request"],
      ["sudo_grant", "user_admin_granted user_group_admin_grant system_admin_grant"],
      ["sudo_revoke", "user_admin_revoked user_group_admin_revoke"],
    ] as const
  ).flatMap(([effect, types]) => {
    const privileges = effect === "sudo_grant" || effect === "sudo_revoke" ? SUDO : [];
    return types.split(" ").map((type): [string, Effects] => [type, { effects: [effect], privileges }]);
  }),
);

/** The consequences of an event, the most important first, and the privileges that it grants or revokes. */
export function effectsOf(event: Fields, meaning: Meaning): Effects {
  const type = event.event_type;
  if (typeof type !== "string") return NONE;
  const known = BY_TYPE.get(type);
  if (known !== undefined) return known;
  if (meaning.link !== undefined) return effectsOfLink(meaning.link, event.association);
  if (meaning.changes !== undefined && /_update(_provision)?$/.test(type))
    return effectsOfUpdate(type, meaning);
  return NONE;
}

/** From the gravest to the least: the first one names the class and the activity of an update. */
export const RANKS: readonly Effect[] = [
  "mfa_disable",
  "mfa_exclude",
  "sudo_grant",
  "privilege_raise",
  "api_key_set",
  "disable",
  "policy_weaken",
  "lock",
  "enable",
  "unlock",
  "role_change",
  "password_never_expires",
  "password_reset",
  "password_change",
  "email_change",
  "ssh_key_change",
  "mfa_enable",
  "mfa_include",
  "sudo_revoke",
  "privilege_lower",
  "api_key_remove",
];

function effectsOfUpdate(type: string, { changes, target }: Meaning): Effects {
  const isAccount = isUser(target) || /^(user|admin|systemuser)_/.test(type);
  const judgeOne = isAccount ? judgeAccount : judgeSetting;
  const found = new Set<Effect>();
  const privileges: Privilege[] = [];
  for (const change of changesOf(changes && decide(changes))) {
    const judged = judgeOne(change);
    if (judged === undefined) continue;
    found.add(judged.effect);
    if (judged.privilege !== undefined && !privileges.includes(judged.privilege))
      privileges.push(judged.privilege);
  }
  if (found.size === 0) return NONE;
  // A policy that is switched off protects less.
  const isPolicy = !isAccount && target?.kind === "policy";
  if (isPolicy && found.has("disable")) found.add("policy_weaken");
  const judge = isAccount ? "account" : isPolicy ? "policy" : "setting";
  return { effects: RANKS.filter((effect) => found.has(effect)), privileges, judge };
}

function effectsOfLink(link: Link, association: unknown): Effects {
  const { from, to } = link;
  if (from === undefined || to === undefined) return NONE;
  const ends = [from, to] as const;
  const member = ends.find(isUser);
  const group = ends.find((end) => end.kind === "group");
  if (member && group) return plain(link, "member_add", "member_remove");
  if (from.kind === "group" && to.kind === "group") return plain(link, "subgroup_add", "subgroup_remove");
  if (member) return access(link, other(ends, member), association, "access_grant", "access_revoke");
  if (group && !ends.some((end) => end.kind === "policy" || end.kind === "organization"))
    return access(link, other(ends, group), association, "group_access_grant", "group_access_revoke");
  return plain(link, "link", "unlink");
}

function plain({ op }: Link, add: Effect, remove: Effect): Effects {
  if (op === "add") return { effects: [add], privileges: [] };
  if (op === "remove") return { effects: [remove], privileges: [] };
  return op === "update" ? CHANGED : NONE;
}

function other(ends: readonly [Party, Party], one: Party): Party {
  return ends[0] === one ? ends[1] : ends[0];
}

/** Access to devices and applications. The attributes of the link may add sudo, or take it away. */
function access({ op }: Link, thing: Party, association: unknown, grant: Effect, revoke: Effect): Effects {
  const base = thing.kind === "device" || thing.kind === "device_group" ? "login" : "access";
  const sudo = sudoOf(association);
  const privileges: Privilege[] = op === "update" ? [] : [base];
  if (sudo?.isEnabled || (sudo && op === "update")) privileges.push("sudo");
  if (sudo?.isWithoutPassword) privileges.push("sudo_without_password");
  switch (op) {
    case "add":
      return { effects: sudo?.isEnabled ? ["sudo_grant", grant] : [grant], privileges };
    case "remove":
      return { effects: sudo?.isEnabled ? [revoke, "sudo_revoke"] : [revoke], privileges };
    case "update":
      if (sudo === undefined) return CHANGED;
      return { effects: [sudo.isEnabled ? "sudo_grant" : "sudo_revoke"], privileges };
    case "unknown":
      return NONE;
  }
}
