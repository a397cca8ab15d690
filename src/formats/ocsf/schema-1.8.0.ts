import type { ClassName, OcsfClass, OcsfSchema, Row } from "./schema.ts";

const IAM = { category: 3, categoryName: "Identity & Access Management" };
const APPLICATION = { category: 6, categoryName: "Application Activity" };
const OWN = { actor: false, device: true };
const BY_PROFILE = { actor: true, device: true };

const classes: Readonly<Record<ClassName, OcsfClass>> = {
  base_event: {
    uid: 0,
    name: "Base Event",
    category: 0,
    categoryName: "Uncategorized",
    activities: {},
    hostProfile: BY_PROFILE,
  },
  authentication: {
    uid: 3002,
    name: "Authentication",
    ...IAM,
    activities: { 1: "Logon", 2: "Logoff" },
    hostProfile: OWN,
  },
  account_change: {
    uid: 3001,
    name: "Account Change",
    ...IAM,
    activities: {
      1: "Create",
      2: "Enable",
      3: "Password Change",
      4: "Password Reset",
      5: "Disable",
      6: "Delete",
      9: "Lock",
      10: "MFA Factor Enable",
      11: "MFA Factor Disable",
      12: "Unlock",
    },
    hostProfile: OWN,
  },
  entity_management: {
    uid: 3004,
    name: "Entity Management",
    ...IAM,
    activities: {
      1: "Create",
      2: "Read",
      3: "Update",
      4: "Delete",
      5: "Move",
      6: "Enroll",
      7: "Unenroll",
      8: "Enable",
      9: "Disable",
      10: "Activate",
      11: "Deactivate",
      12: "Suspend",
      13: "Resume",
    },
    hostProfile: OWN,
  },
  user_access: {
    uid: 3005,
    name: "User Access Management",
    ...IAM,
    activities: { 1: "Assign Privileges", 2: "Revoke Privileges" },
    hostProfile: OWN,
  },
  group_management: {
    uid: 3006,
    name: "Group Management",
    ...IAM,
    activities: { 1: "Assign Privileges", 2: "Revoke Privileges", 5: "Delete", 6: "Create" },
    hostProfile: OWN,
  },
  detection_finding: {
    uid: 2004,
    name: "Detection Finding",
    category: 2,
    categoryName: "Findings",
    activities: { 1: "Create", 2: "Update", 3: "Close" },
    hostProfile: { actor: true, device: false },
  },
  device_config_state_change: {
    uid: 5019,
    name: "Device Config State Change",
    category: 5,
    categoryName: "Discovery",
    activities: { 1: "Log" },
    hostProfile: { actor: false, device: false },
  },
  web_resources_activity: {
    uid: 6001,
    name: "Web Resources Activity",
    ...APPLICATION,
    activities: { 1: "Create", 2: "Read", 3: "Update", 4: "Delete", 6: "Import", 7: "Export" },
    hostProfile: BY_PROFILE,
  },
  application_lifecycle: {
    uid: 6002,
    name: "Application Lifecycle",
    ...APPLICATION,
    activities: { 1: "Install", 2: "Remove", 8: "Update" },
    hostProfile: BY_PROFILE,
  },
};

type Entry = readonly [
  name: ClassName,
  activity: number | string,
  types: string,
  more?: { severity?: number; self?: true },
];

/** The event types whose name does not say it all. A text as activity is one that the class does not know. */
const TABLE: readonly Entry[] = [
  ["detection_finding", 1, "alert_created"],
  ["detection_finding", 2, "alert_updated alert_status_updated"],

  ["account_change", 1, "admin_create user_create user_create_provision"],
  ["account_change", 2, "admin_unsuspend user_activated user_unsuspended"],
  ["account_change", 3, "admin_password_change user_password_change user_password_set", { self: true }],
  ["account_change", 4, "admin_password_reset_request user_password_reset_request", { self: true }],
  ["account_change", 5, "admin_suspended user_suspended", { severity: 2 }],
  ["account_change", 6, "admin_delete user_delete user_delete_provision"],
  ["account_change", 9, "admin_lockout user_lockout", { severity: 3, self: true }],
  ["account_change", 10, "admin_totp_finish_enrollment totp_finish_enrollment", { self: true }],
  ["account_change", 11, "admin_totp_disable totp_delete_enrollment", { severity: 3, self: true }],
  ["account_change", 12, "user_unlocked"],
  ["account_change", "Update", "admin_update systemuser_update user_update user_update_provision"],
  [
    "account_change",
    "MFA Enrollment Started",
    "admin_totp_start_enrollment totp_start_enrollment",
    { self: true },
  ],
  ["account_change", "MFA Exclusion Expired", "user_mfa_exclusion_expired", { self: true }],
  ["account_change", "Password Expired", "user_password_expired", { self: true }],
  ["account_change", "Email Sent", "user_activation_email user_password_warning_email"],
  ["account_change", "Activation Schedule Create", "user_activation_schedule_create"],
  ["account_change", "Activation Schedule Delete", "user_activation_schedule_delete"],
  ["account_change", "Suspension Schedule Create", "user_suspension_schedule_create"],
  ["account_change", "Suspension Schedule Delete", "user_suspension_schedule_delete"],

  ["authentication", 1, "admin_login_attempt user_login_attempt login_attempt user_login sso_auth"],
  ["authentication", 1, "radius_auth radius_auth_attempt ldap_bind saas_management_login_event"],
  ["authentication", 1, "passwordmanager_app_unlock passwordmanager_extension_unlock"],
  ["authentication", 2, "user_logout"],

  ["user_access", 1, "user_admin_granted", { severity: 3 }],
  ["user_access", 2, "user_admin_revoked"],
  ["group_management", 1, "user_group_admin_grant", { severity: 3 }],
  ["group_management", 2, "user_group_admin_revoke"],
  ["group_management", 5, "group_delete"],
  ["group_management", 6, "group_create"],
  ["group_management", "Update", "group_update"],

  ["device_config_state_change", 1, "os_major_upgrade os_minor_upgrade"],
  ["device_config_state_change", 1, "os_major_rollback os_minor_rollback", { severity: 2 }],

  ["web_resources_activity", 1, "object_storage_create report_create"],
  ["web_resources_activity", 2, "invoice_download mtp_download_invoice report_run"],
  ["web_resources_activity", 2, "object_storage_get_download_url_request passwordmanager_item_autofill"],
  ["web_resources_activity", 2, "passwordmanager_item_copy passwordmanager_item_reveal"],
  ["web_resources_activity", 2, "passwordmanager_item_history_reveal"],
  ["web_resources_activity", 3, "report_update"],
  ["web_resources_activity", 4, "object_storage_delete report_delete"],
  ["web_resources_activity", 6, "passwordmanager_items_import"],
  ["web_resources_activity", 7, "report_export", { severity: 2 }],
  ["web_resources_activity", 7, "passwordmanager_items_export", { severity: 3 }],
  ["web_resources_activity", "Upload Validation", "object_storage_upload_validation_result"],

  ["application_lifecycle", 1, "software_add"],
  ["application_lifecycle", 2, "software_remove"],
  ["application_lifecycle", 8, "software_change"],
  ["application_lifecycle", "Install Requested", "software_add_request"],
  ["application_lifecycle", "Remove Requested", "software_remove_request"],
  ["application_lifecycle", "Update Requested", "software_change_request"],
  ["application_lifecycle", "Status Update", "software_status_update"],

  ["entity_management", 1, "access_management_access_request"],
  ["entity_management", 2, "ldap_search ldap_srch configuration_file_download"],
  ["entity_management", 2, "system_fde_key_decrypt", { severity: 3 }],
  ["entity_management", 3, "access_management_access_request_approval association_change"],
  ["entity_management", 3, "access_management_association_change"],
  // A new member, group or permission changes the folder or policy; it creates neither.
  ["entity_management", 3, "passwordmanager_folder_member_add passwordmanager_folder_member_remove"],
  ["entity_management", 3, "passwordmanager_folder_group_add passwordmanager_folder_group_remove"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_group_add"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_group_remove"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_user_add"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_user_remove"],
  ["entity_management", 6, "device_enrollment system_create"],
  ["entity_management", 7, "system_delete"],
  ["entity_management", "Run", "command_run"],
  ["entity_management", "Command Result", "command_result"],
  ["entity_management", "Policy Result", "policy_result"],
  ["entity_management", "Device Command", "device_command"],
  ["entity_management", "MDM Command Result", "mdm_command_result"],
  ["entity_management", "Remote Session Start", "remote_session_start"],
  ["entity_management", "Remote Session Join", "remote_session_join"],
  ["entity_management", "Remote Session End", "remote_session_end"],
  ["entity_management", "Remote Session Feedback", "remote_session_feedback"],
  ["entity_management", "Discover", "saas_management_account_discover saas_management_tenant_discover"],
  ["entity_management", "Discover", "saas_management_application_discover"],
  ["entity_management", "Backup Request", "passwordmanager_backup_request"],
];

/** What the last word of an event type says, of those that the table does not hold. */
const ENDINGS: readonly (readonly [ClassName, number, string])[] = [
  ["authentication", 1, "auth auth_attempt login login_attempt logon"],
  ["authentication", 2, "logout logoff"],
  ["entity_management", 1, "create created add added include included signup register"],
  ["entity_management", 2, "read get view download"],
  ["entity_management", 3, "update updated modify modified patch change changed approve reject cancel"],
  ["entity_management", 3, "restore regenerate review assign"],
  ["entity_management", 4, "delete deleted remove removed exclude excluded"],
  ["entity_management", 5, "move moved"],
  ["entity_management", 6, "enroll enrolled pair paired"],
  ["entity_management", 7, "unenroll unenrolled unpair unpaired"],
  ["entity_management", 8, "enable enabled re-enable"],
  ["entity_management", 9, "disable disabled"],
  ["entity_management", 10, "activate activated reactivate reactivated"],
  ["entity_management", 11, "deactivate deactivated"],
  ["entity_management", 12, "suspend suspended"],
  ["entity_management", 13, "resume resumed unsuspend unsuspended"],
];

const rows: ReadonlyMap<string, Row> = new Map(
  TABLE.flatMap(([name, activity, types, more]) =>
    types
      .split(" ")
      .map((type) => [
        type,
        { class: name, activity, severity: more?.severity ?? 1, self: more?.self ?? false },
      ]),
  ),
);

const endings: ReadonlyMap<string, Row> = new Map(
  ENDINGS.flatMap(([name, activity, words]) =>
    words.split(" ").map((word) => [word, { class: name, activity, severity: 1, self: false }]),
  ),
);

function rowOf(eventType: string): Row {
  const known = rows.get(eventType);
  if (known !== undefined) return known;
  for (let at = eventType.indexOf("_"); at >= 0; at = eventType.indexOf("_", at + 1)) {
    const ending = endings.get(eventType.slice(at + 1));
    if (ending !== undefined) return ending;
  }
  return { class: "entity_management", activity: eventType, severity: 1, self: false };
}

export const ocsf180: OcsfSchema = { version: "1.8.0", classes, rowOf };
