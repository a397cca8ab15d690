import { isLoginOf } from "../login-services.ts";
import type { ClassName, Row } from "./schema.ts";

type Entry = readonly [name: ClassName, activity: number | string, types: string, more?: { self?: true }];

/** Event types whose last word is not enough. A text as activity is one that the class does not define. */
const TABLE: readonly Entry[] = [
  ["detection_finding", 1, "alert_created"],
  ["detection_finding", 2, "alert_updated alert_status_updated"],
  ["detection_finding", 1, "risk_event_created"],
  ["detection_finding", 3, "risk_event_resolved risk_events_bulk_resolved"],

  ["account_change", 1, "admin_create user_create user_create_provision"],
  ["account_change", 2, "admin_unsuspend user_activated user_unsuspended"],
  ["account_change", 3, "admin_password_change user_password_change user_password_set", { self: true }],
  ["account_change", 4, "admin_password_reset_request user_password_reset_request", { self: true }],
  ["account_change", 5, "admin_suspended user_suspended"],
  ["account_change", 6, "admin_delete user_delete user_delete_provision"],
  ["account_change", 9, "admin_lockout user_lockout user_locked_out", { self: true }],
  ["account_change", 10, "admin_totp_finish_enrollment totp_finish_enrollment", { self: true }],
  ["account_change", 11, "admin_totp_disable totp_delete_enrollment", { self: true }],
  ["account_change", 12, "user_unlocked"],
  ["account_change", "Update", "admin_update systemuser_update user_update user_update_provision"],
  ["account_change", "Update", "user_mfa_update"],
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
  ["authentication", 1, "sso_auth_failed"],
  ["authentication", 1, "radius_auth radius_auth_attempt ldap_bind saas_management_login_event"],
  ["authentication", 1, "passwordmanager_app_unlock passwordmanager_extension_unlock"],
  ["authentication", 2, "user_logout"],

  ["user_access", 1, "user_admin_granted system_admin_grant"],
  ["user_access", 2, "user_admin_revoked"],
  ["group_management", 1, "user_group_admin_grant"],
  ["group_management", 2, "user_group_admin_revoke"],
  ["group_management", 5, "group_delete"],
  ["group_management", 6, "group_create"],
  ["group_management", "Update", "group_update"],

  ["device_config_state_change", 1, "os_major_upgrade os_minor_upgrade"],
  ["device_config_state_change", 1, "os_major_rollback os_minor_rollback"],

  ["web_resources_activity", 1, "object_storage_create report_create"],
  ["web_resources_activity", 2, "invoice_download mtp_download_invoice report_run"],
  ["web_resources_activity", 2, "object_storage_get_download_url_request passwordmanager_item_autofill"],
  ["web_resources_activity", 2, "passwordmanager_item_copy passwordmanager_item_reveal"],
  ["web_resources_activity", 2, "passwordmanager_item_history_reveal"],
  ["web_resources_activity", 3, "report_update"],
  ["web_resources_activity", 4, "object_storage_delete report_delete"],
  ["web_resources_activity", 6, "passwordmanager_items_import"],
  ["web_resources_activity", 7, "report_export"],
  ["web_resources_activity", 7, "passwordmanager_items_export"],
  ["web_resources_activity", 1, "passwordvault_credential_add passwordvault_credential_duplicate"],
  ["web_resources_activity", 1, "passwordvault_website_add passwordvault_website_duplicate"],
  ["web_resources_activity", 2, "passwordvault_credential_autofill passwordvault_credential_copy"],
  ["web_resources_activity", 2, "passwordvault_credential_reveal passwordvault_credential_history_reveal"],
  ["web_resources_activity", 2, "passwordvault_credential_viewdetail passwordvault_credential_viewsecret"],
  ["web_resources_activity", 2, "passwordvault_website_connect passwordvault_website_copy"],
  ["web_resources_activity", 2, "passwordvault_website_viewdetails scheduled_report_run_success"],
  ["web_resources_activity", 2, "scheduled_report_run_failed"],
  ["web_resources_activity", 3, "passwordvault_credential_update passwordvault_website_update"],
  ["web_resources_activity", 3, "passwordvault_website_linkcredential custom_report_update"],
  ["web_resources_activity", 3, "scheduled_report_update"],
  ["web_resources_activity", 4, "passwordvault_credential_archive passwordvault_credential_delete"],
  ["web_resources_activity", 4, "passwordvault_website_archive passwordvault_website_delete"],
  ["web_resources_activity", 4, "custom_report_delete scheduled_report_delete"],
  ["web_resources_activity", 1, "custom_report_create scheduled_report_create"],
  ["web_resources_activity", 6, "passwordvault_credential_import"],
  ["web_resources_activity", 7, "passwordvault_credential_export passwordvault_websites_export"],
  ["web_resources_activity", 8, "passwordvault_credential_shareuser passwordvault_credential_shareusergroup"],
  ["web_resources_activity", 8, "passwordvault_website_shareuser passwordvault_website_shareusergroup"],
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
  ["entity_management", 2, "system_fde_key_decrypt"],
  ["entity_management", 3, "access_management_access_request_approval association_change"],
  ["entity_management", 3, "access_management_association_change"],
  ["entity_management", 1, "ca_created cert_issued_manual cert_issued_self_service scep_issued"],
  ["entity_management", 11, "cert_revoked"],
  // A new member, group or permission changes the folder or policy; it creates neither.
  ["entity_management", 3, "passwordmanager_folder_member_add passwordmanager_folder_member_remove"],
  ["entity_management", 3, "passwordmanager_folder_group_add passwordmanager_folder_group_remove"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_group_add"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_group_remove"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_user_add"],
  ["entity_management", 3, "passwordmanager_sharedfolders_policy_user_remove"],
  ...["personalfolder", "sharedfolder"].flatMap((folder): Entry[] => [
    ["entity_management", 3, `passwordvault_${folder}_user_add passwordvault_${folder}_user_remove`],
    ["entity_management", 3, `passwordvault_${folder}_group_add passwordvault_${folder}_credential_add`],
    ["entity_management", 3, `passwordvault_${folder}_credential_remove`],
    ["entity_management", 3, `passwordvault_${folder}_website_add passwordvault_${folder}_website_remove`],
  ]),
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
  ["entity_management", "Session Open", "aigw_session_opened"],
  ["entity_management", "Session Activity", "aigw_session_activity"],
  ["entity_management", "Session Close", "aigw_session_closed"],
  ["entity_management", "Message Sent", "genai_ai_assistant_chat_message_sent"],
  ["entity_management", "Warning", "group_warning"],
  ["entity_management", "Patch Install", "windows_patch_install"],
  ["entity_management", "Patch Export", "windows_patch_export"],
  ["entity_management", "Discover", "saas_management_account_discover saas_management_tenant_discover"],
  ["entity_management", "Discover", "saas_management_application_discover"],
  ["entity_management", "Backup Request", "passwordmanager_backup_request"],
];

/** For all other event types their last words decide. */
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
    types.split(" ").map((type) => [type, { class: name, activity, self: more?.self ?? false }]),
  ),
);

const endings: ReadonlyMap<string, Row> = new Map(
  ENDINGS.flatMap(([name, activity, words]) =>
    words.split(" ").map((word) => [word, { class: name, activity, self: false }]),
  ),
);

export function rowOf(eventType: string, service: string): Row {
  const known = rows.get(eventType);
  if (known !== undefined) return known;
  for (let at = eventType.indexOf("_"); at >= 0; at = eventType.indexOf("_", at + 1)) {
    const ending = endings.get(eventType.slice(at + 1));
    if (ending !== undefined) return ending;
  }
  if (isLoginOf(service, eventType)) return { class: "authentication", activity: 1, self: false };
  return { class: "entity_management", activity: eventType, self: false };
}
