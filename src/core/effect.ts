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
