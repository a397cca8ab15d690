/** The events' fields by kind of value: those of the specification, and those that are seen in the field. */
export type FieldKind = "string" | "numeric" | "timestamp" | "boolean";

const STRINGS = `
id event_type service organization category severity username correlation.id correlation.type resource.id
resource.context resource.source_id resource.source_type resource.reference_id resource.type resource.username
resource.recipient_email resource.email_type resource.name resource.email resource.description resource.resources
resource.search_request resource.configuration resource.application_id resource.application_name
resource.application_category system_group.type system_group.object_id system_group.name initiated_by.user_id
initiated_by.id initiated_by.type initiated_by.email initiated_by.source initiated_by.source_metadata.name
initiated_by.provider initiated_by.username association.type association.id association.email client_ip auth_method
mfa_meta.type provider auth_context.system.hostname auth_context.system.id auth_context.system.displayName
auth_context.system.os auth_context.system.version auth_context.policies_applied.name
auth_context.policies_applied.id application.id application.name application.display_label application.sso_url
application.version application.path application.publisher application.uninstall_string idm_client_id error_message
message_chain.response_code message_chain.response_message message_chain.message_details system.hostname
system.displayName system.id system.type target_resource.type user_agent user_agent.name nas_mfa_state auth_type
eap_type outer.eap_type outer.error_message outer.username message src_ip process_name app_management_source
connection_id dn mech oid base filter attr mdm_type device_object_id device_manager_object_id windows_device_uuid
command_uuid request_type command.request_type status error_chain.error_domain
error_chain.localized_description error_chain.us_english_description result name type description channel_object_id
config referrer_object_id referrer_type object_storage_item_object_id object_storage_item_version_object_id
object_storage_item_version_name object_storage_item_version_sha_256_sum system_object_id account_id catalog_app_id
login_identifier detail pid access_request_id workflow.type workflow.id workflow.name workflow.desc
geoip.country_code geoip.timezone geoip.continent_code geoip.region_name geoip.city_name @version
changes changes.field changes.from changes.to useragent useragent.name useragent.version useragent.os
useragent.os_name useragent.os_version useragent.device system_timestamp user_agent.version user_agent.os
association.op association.action_source association.connection.from.type association.connection.from.object_id
association.connection.from.name association.connection.to.type association.connection.to.object_id
association.connection.to.name application.sso_type jc_initiated_by_email asn.organization
auth_meta.jumpcloud_protect_device.id auth_meta.jumpcloud_protect_device.make
auth_meta.jumpcloud_protect_device.model auth_meta.jumpcloud_protect_device.os
auth_meta.jumpcloud_protect_device.os_version auth_meta.jumpcloud_protect_device.app_version
auth_meta.jumpcloud_protect_device.username auth_meta.jumpcloud_protect_device.user_id
auth_meta.jumpcloud_protect_device.ip auth_context.jumpcloud_protect_device.id
auth_context.jumpcloud_protect_device.username auth_context.policies_applied.metadata.action
mdm_device_id mdm_device_manager_id config.name config.value
`;

const NUMBERS = `
operation_number error_code scope deref number_of_results object_storage_item_version_size total_software_item_count
total_space_used windows_meta.logon_type geoip.latitude geoip.longitude error_chain.error_code
asn.number
`;

const BOOLEANS = `
success mfa idp_initiated start_tls tls_established windows_meta.elevated initiated_by.administrator
auth_context.auth_methods.totp.success auth_context.auth_methods.webauthn.success
auth_context.auth_methods.duo.success auth_context.auth_methods.password.success auth_meta.auth_methods.totp.success
auth_meta.auth_methods.password.success auth_meta.auth_methods.jumpcloud_protect.success
auth_context.auth_methods.jumpcloud_protect.success association.attributes.sudo.enabled
association.attributes.sudo.withoutPassword sso_token_success
`;

const KINDS: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ...list(STRINGS, "string"),
  ...list(NUMBERS, "numeric"),
  ...list(BOOLEANS, "boolean"),
  ["timestamp", "timestamp"],
]);

const PARENTS: ReadonlySet<string> = new Set([...KINDS.keys()].flatMap(prefixes));

/** Fields that cannot be searched, with all their members. */
const UNSEARCHABLE = ["changes", "useragent", "system_timestamp"];

export function kindOf(field: string): FieldKind | null {
  return KINDS.get(field) ?? null;
}

export function isKnown(field: string): boolean {
  return KINDS.has(field) || PARENTS.has(field);
}

export function isSearchable(field: string): boolean {
  return !UNSEARCHABLE.includes(field.split(".")[0]!);
}

function list(text: string, kind: FieldKind): [string, FieldKind][] {
  return text
    .trim()
    .split(/\s+/)
    .map((field) => [field, kind]);
}

function prefixes(field: string): string[] {
  const parts = field.split(".");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("."));
}
