/**
 * The consequence of an event, in words that are the same for every event type: an account can be disabled
 * by `user_suspended` and by `user_update`. Detections are written on these.
 */
export type Effect =
  // Accounts
  | "enable"
  | "disable"
  | "lock"
  | "unlock"
  | "mfa_enable"
  | "mfa_disable"
  | "mfa_exclude"
  | "mfa_include"
  | "sudo_grant"
  | "sudo_revoke"
  | "privilege_raise"
  | "privilege_lower"
  | "role_change"
  | "password_change"
  | "password_reset"
  | "password_never_expires"
  | "email_change"
  | "api_key_set"
  | "api_key_remove"
  | "ssh_key_change"
  // Policies and settings
  | "policy_weaken"
  // Links
  | "member_add"
  | "member_remove"
  | "subgroup_add"
  | "subgroup_remove"
  | "access_grant"
  | "access_revoke"
  | "group_access_grant"
  | "group_access_revoke"
  | "link"
  | "unlink"
  | "link_update";

const LOW = 2;
const MEDIUM = 3;

/** How grave effects are, on the scale of OCSF. Those that are not here are informational. */
export const EFFECT_SEVERITY: Readonly<Partial<Record<Effect, number>>> = {
  mfa_disable: MEDIUM,
  mfa_exclude: MEDIUM,
  sudo_grant: MEDIUM,
  privilege_raise: MEDIUM,
  api_key_set: MEDIUM,
  policy_weaken: MEDIUM,
  lock: MEDIUM,
  disable: LOW,
  enable: LOW,
  role_change: LOW,
  password_never_expires: LOW,
  email_change: LOW,
  ssh_key_change: LOW,
  member_add: LOW,
  subgroup_add: LOW,
  access_grant: LOW,
  group_access_grant: LOW,
};
