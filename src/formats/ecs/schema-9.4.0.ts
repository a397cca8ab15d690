import type { Effect } from "../../core/effect.ts";
import { isLoginOf } from "../login-services.ts";

/** How an event type is classified in ECS. */
export interface EcsRow {
  readonly kind: "event" | "alert";
  readonly category: readonly string[];
  readonly type: readonly string[];
}

export const ECS_VERSION = "9.4.0";

type Entry = readonly [category: string, type: string, types: string];

/** Event types whose last word is not enough. */
const TABLE: readonly Entry[] = [
  [
    "authentication",
    "start",
    "admin_login_attempt user_login_attempt login_attempt user_login sso_auth sso_auth_failed",
  ],
  ["authentication", "start", "radius_auth radius_auth_attempt ldap_bind saas_management_login_event"],
  ["authentication", "start", "passwordmanager_app_unlock passwordmanager_extension_unlock"],
  ["authentication", "end", "user_logout"],

  ["iam", "user creation", "admin_create user_create user_create_provision passwordmanager_user_signup"],
  ["iam", "user deletion", "admin_delete user_delete user_delete_provision passwordmanager_user_remove"],
  ["iam", "user change", "admin_update user_update systemuser_update user_update_provision"],
  [
    "iam",
    "user change",
    "admin_unsuspend admin_suspended admin_lockout admin_password_change user_mfa_update",
  ],
  ["iam", "user change", "admin_password_reset_request admin_totp_finish_enrollment admin_totp_disable"],
  [
    "iam",
    "user change",
    "user_activated user_unsuspended user_suspended user_lockout user_unlocked user_locked_out",
  ],
  ["iam", "user change", "user_password_change user_password_set user_password_reset_request"],
  ["iam", "user change", "totp_finish_enrollment totp_delete_enrollment"],
  ["iam", "user change", "user_activation_schedule_create user_activation_schedule_delete"],
  ["iam", "user change", "user_suspension_schedule_create user_suspension_schedule_delete"],
  ["iam", "user change", "passwordmanager_user_enable passwordmanager_user_re-enable"],
  ["iam", "user change", "passwordmanager_user_disable passwordmanager_user_update"],
  ["iam", "user change", "passwordmanager_user_activate passwordmanager_user_deactivate"],
  ["iam", "user change", "passwordmanager_user_reactivate saas_management_account_user_assign"],
  ["iam", "user change", "passwordmanager_user_device_pair passwordmanager_user_device_unpair"],
  ["iam", "user change", "passwordmanager_folder_member_add passwordmanager_folder_member_update"],
  ["iam", "user change", "passwordmanager_folder_member_remove"],
  ["iam", "user change", "passwordmanager_sharedfolders_policy_user_add"],
  ["iam", "user change", "passwordmanager_sharedfolders_policy_user_remove"],
  ["iam", "user admin change", "user_admin_granted user_admin_revoked system_admin_grant"],
  ["iam", "user info", "admin_totp_start_enrollment totp_start_enrollment user_password_expired"],
  ["iam", "user info", "user_mfa_exclusion_expired"],
  ["iam email", "info", "user_activation_email user_password_warning_email"],
  ["iam", "group creation", "group_create"],
  ["iam", "group deletion", "group_delete"],
  ["iam", "group change", "group_update passwordmanager_folder_group_add"],
  ["iam", "group change", "passwordmanager_folder_group_update passwordmanager_folder_group_remove"],
  ["iam", "group change", "passwordmanager_sharedfolders_policy_group_add"],
  ["iam", "group change", "passwordmanager_sharedfolders_policy_group_remove"],
  ["iam", "group admin change", "user_group_admin_grant user_group_admin_revoke"],
  ["iam", "info", "access_management_access_request"],
  ["iam", "change", "access_management_access_request_approval access_management_association_change"],
  ["iam", "change", "access_management_access_request_settings_update association_change"],
  ["iam", "change", "access_management_approval_flow_update"],
  ["iam", "creation", "access_management_approval_flow_create"],
  ["iam", "deletion", "access_management_approval_flow_delete"],

  ["host", "change", "system_create system_update system_delete device_enrollment device_command"],
  ["host", "change", "system_fde_key_update os_major_upgrade os_minor_upgrade"],
  ["host", "change", "os_major_rollback os_minor_rollback"],
  ["host", "access", "system_fde_key_decrypt configuration_file_download"],
  ["host", "info", "mdm_command_result policy_result"],
  ["process", "start", "command_run"],
  ["process", "info", "command_result"],
  ["session", "start", "remote_session_start"],
  ["session", "end", "remote_session_end"],
  ["session", "info", "remote_session_join remote_session_feedback"],

  ["database", "access", "ldap_search ldap_srch"],
  ["file", "creation", "object_storage_create report_create"],
  ["file", "access", "object_storage_get_download_url_request report_run report_export"],
  ["file", "access", "invoice_download mtp_download_invoice"],
  ["file", "change", "report_update"],
  ["file", "deletion", "object_storage_delete report_delete"],
  ["file", "info", "object_storage_upload_validation_result"],
  // ECS has no category for secrets. Reading one is access to the configuration of the organization.
  ["configuration", "access", "passwordmanager_item_autofill passwordmanager_item_copy"],
  ["configuration", "access", "passwordmanager_item_reveal passwordmanager_item_history_reveal"],
  ["configuration", "access", "passwordmanager_items_export"],
  ["configuration", "creation", "passwordmanager_items_import"],
  ["configuration", "access", "passwordvault_credential_autofill passwordvault_credential_copy"],
  ["configuration", "access", "passwordvault_credential_reveal passwordvault_credential_history_reveal"],
  ["configuration", "access", "passwordvault_credential_viewdetail passwordvault_credential_viewsecret"],
  ["configuration", "access", "passwordvault_credential_export passwordvault_websites_export"],
  ["configuration", "access", "passwordvault_website_connect passwordvault_website_copy"],
  ["configuration", "access", "passwordvault_website_viewdetails"],
  ["configuration", "creation", "passwordvault_credential_import passwordvault_credential_duplicate"],
  ["configuration", "creation", "passwordvault_website_duplicate ca_created scep_issued"],
  ["configuration", "creation", "cert_issued_manual cert_issued_self_service"],
  ["configuration", "change", "passwordvault_credential_shareuser passwordvault_credential_shareusergroup"],
  ["configuration", "change", "passwordvault_website_shareuser passwordvault_website_shareusergroup"],
  ["configuration", "change", "passwordvault_website_linkcredential cert_revoked"],
  ["configuration", "deletion", "passwordvault_credential_archive passwordvault_website_archive"],
  ["iam", "user change", "passwordvault_user_enable passwordvault_user_disable"],
  ["file", "access", "scheduled_report_run_success scheduled_report_run_failed"],
  ["session", "start", "aigw_session_opened"],
  ["session", "info", "aigw_session_activity genai_ai_assistant_chat_message_sent"],
  ["session", "end", "aigw_session_closed"],
  ["package", "installation", "windows_patch_install"],
  ["package", "info", "windows_patch_export"],
  ["package", "installation", "software_add"],
  ["package", "change", "software_change"],
  ["package", "deletion", "software_remove"],
  ["package", "info", "software_add_request software_change_request software_remove_request"],
  ["package", "info", "software_status_update"],
];

/** For all other event types their last words decide. */
const ENDINGS: readonly Entry[] = [
  ["authentication", "start", "auth auth_attempt login login_attempt logon"],
  ["authentication", "end", "logout logoff"],
  ["configuration", "creation", "create created add added include included register"],
  ["configuration", "access", "read get view download"],
  ["configuration", "change", "update updated modify modified patch change changed approve reject cancel"],
  ["configuration", "change", "restore regenerate review assign move moved enroll unenroll pair unpair"],
  ["configuration", "change", "enable enabled re-enable disable disabled activate activated reactivate"],
  ["configuration", "change", "deactivate deactivated suspend suspended resume unsuspend"],
  ["configuration", "deletion", "delete deleted remove removed exclude excluded"],
];

const rows = read(TABLE);
const endings = read(ENDINGS);
const ALERT: EcsRow = { kind: "alert", category: ["intrusion_detection"], type: ["info"] };
const LOGIN: EcsRow = { kind: "event", category: ["authentication"], type: ["start"] };
const OTHER: EcsRow = { kind: "event", category: ["configuration"], type: ["info"] };
const UNKNOWN: EcsRow = { kind: "event", category: [], type: [] };

/** Event types that say little: their most important effect decides. */
const GENERAL: ReadonlySet<string> = new Set([
  ...["admin_update", "user_update", "systemuser_update", "user_update_provision", "user_mfa_update"],
  ...["association_change", "access_management_association_change"],
]);

const BY_EFFECT: Readonly<Partial<Record<Effect, EcsRow>>> = {
  ...effects("user change", "access_grant access_revoke"),
  ...effects("group change", "member_add member_remove subgroup_add subgroup_remove"),
  ...effects("group change", "group_access_grant group_access_revoke"),
  ...effects("user admin change", "sudo_grant sudo_revoke privilege_raise privilege_lower role_change"),
};

export function ecsRowOf(eventType: string, service: string, effects: readonly Effect[]): EcsRow {
  const row = rowOf(eventType, service);
  return (GENERAL.has(eventType) && effects[0] && BY_EFFECT[effects[0]]) || row;
}

function rowOf(eventType: string, service: string): EcsRow {
  if (eventType.startsWith("alert_") || eventType.startsWith("risk_event")) return ALERT;
  const known = rows.get(eventType);
  if (known !== undefined) return known;
  for (let at = eventType.indexOf("_"); at >= 0; at = eventType.indexOf("_", at + 1)) {
    const ending = endings.get(eventType.slice(at + 1));
    if (ending !== undefined) return ending;
  }
  if (eventType === "") return UNKNOWN;
  return isLoginOf(service, eventType) ? LOGIN : OTHER;
}

function effects(type: string, names: string): Partial<Record<Effect, EcsRow>> {
  const row: EcsRow = { kind: "event", category: ["iam"], type: type.split(" ") };
  return Object.fromEntries(names.split(" ").map((name) => [name, row]));
}

function read(entries: readonly Entry[]): ReadonlyMap<string, EcsRow> {
  return new Map(
    entries.flatMap(([category, type, types]) => {
      const row: EcsRow = { kind: "event", category: category.split(" "), type: type.split(" ") };
      return types.split(" ").map((name) => [name, row] as const);
    }),
  );
}
