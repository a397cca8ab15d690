/** How an event type is filed in ECS. */
export interface EcsRow {
  readonly kind: "event" | "alert";
  readonly category: readonly string[];
  readonly type: readonly string[];
}

export const ECS_VERSION = "9.4.0";

type Entry = readonly [category: string, type: string, types: string];

/** The event types whose name does not say it all. */
const TABLE: readonly Entry[] = [
  ["authentication", "start", "admin_login_attempt user_login_attempt login_attempt user_login sso_auth"],
  ["authentication", "start", "radius_auth radius_auth_attempt ldap_bind saas_management_login_event"],
  ["authentication", "start", "passwordmanager_app_unlock passwordmanager_extension_unlock"],
  ["authentication", "end", "user_logout"],

  ["iam", "user creation", "admin_create user_create user_create_provision passwordmanager_user_signup"],
  ["iam", "user deletion", "admin_delete user_delete user_delete_provision passwordmanager_user_remove"],
  ["iam", "user change", "admin_update user_update systemuser_update user_update_provision"],
  ["iam", "user change", "admin_unsuspend admin_suspended admin_lockout admin_password_change"],
  ["iam", "user change", "admin_password_reset_request admin_totp_finish_enrollment admin_totp_disable"],
  ["iam", "user change", "user_activated user_unsuspended user_suspended user_lockout user_unlocked"],
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
  ["iam", "user admin change", "user_admin_granted user_admin_revoked"],
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
  // A secret of the vault is no file; who reads one has looked at what the organization keeps.
  ["configuration", "access", "passwordmanager_item_autofill passwordmanager_item_copy"],
  ["configuration", "access", "passwordmanager_item_reveal passwordmanager_item_history_reveal"],
  ["configuration", "access", "passwordmanager_items_export"],
  ["configuration", "creation", "passwordmanager_items_import"],
  ["package", "installation", "software_add"],
  ["package", "change", "software_change"],
  ["package", "deletion", "software_remove"],
  ["package", "info", "software_add_request software_change_request software_remove_request"],
  ["package", "info", "software_status_update"],
];

/** What the last word of an event type says, of those that the table does not hold. */
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
const OTHER: EcsRow = { kind: "event", category: ["configuration"], type: ["info"] };
const UNKNOWN: EcsRow = { kind: "event", category: [], type: [] };

export function ecsRowOf(eventType: string): EcsRow {
  if (eventType.startsWith("alert_")) return ALERT;
  const known = rows.get(eventType);
  if (known !== undefined) return known;
  for (let at = eventType.indexOf("_"); at >= 0; at = eventType.indexOf("_", at + 1)) {
    const ending = endings.get(eventType.slice(at + 1));
    if (ending !== undefined) return ending;
  }
  return eventType === "" ? UNKNOWN : OTHER;
}

function read(entries: readonly Entry[]): ReadonlyMap<string, EcsRow> {
  return new Map(
    entries.flatMap(([category, type, types]) => {
      const row: EcsRow = { kind: "event", category: category.split(" "), type: type.split(" ") };
      return types.split(" ").map((name) => [name, row] as const);
    }),
  );
}
