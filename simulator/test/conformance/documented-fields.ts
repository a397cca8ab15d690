/**
 * The fields that the specification lists for the events of each service, whole. `:b` marks a boolean, `:i` an
 * integer, `:l` a list, `:o` an object whose members are not listed, `:v` any value; the others are strings.
 * `?` marks fields that the specification lists for some event types only.
 */
export const documentedFields: Readonly<Record<string, readonly string[]>> = {
  alert:
    words(`id event_type timestamp service organization changes:l correlation.id category geoip:o initiated_by:o
    client_ip success:b severity username resource.id resource.context resource.source_id resource.source_type
    resource.reference_id`),
  directory: words(`id correlation.id correlation.type event_type timestamp resource.type resource.id
    resource.username resource.recipient_email resource.email_type resource.name system_group.type
    system_group.object_id system_group.name organization changes:l changes.field changes.from:v changes.to:v
    initiated_by.user_id initiated_by.administrator:b initiated_by.id initiated_by.type initiated_by.email
    initiated_by.source initiated_by.source_metadata.name association.type association.id association.email client_ip
    useragent:v auth_method success:b mfa:b mfa_meta.type geoip:o provider:v service
    auth_context.auth_methods.totp.success:b auth_context.auth_methods.webauthn.success:b
    auth_context.auth_methods.duo.success:b auth_context.auth_methods.password.success:b auth_context.system.hostname
    auth_context.system.id auth_context.system.displayName auth_context.system.os auth_context.system.version
    auth_context.policies_applied:l auth_context.policies_applied.name auth_context.policies_applied.id application.id
    application.name idm_client_id error_message message_chain.response_code:i message_chain.response_message
    message_chain.message_details @version:i system.hostname system.displayName system.id system.type
    target_resource.type`),
  password_vault:
    words(`id event_type timestamp service organization changes:l initiated_by.id initiated_by.type
    initiated_by.email initiated_by.source association:o client_ip user_agent:o success:b geoip:o provider
    error_message @version`),
  portal:
    words(`service event_type client_ip resource.type resource.id resource.email changes:l timestamp provider
    geoip:o id useragent:v @version:i initiated_by.type initiated_by.id initiated_by.provider initiated_by.email
    auth_method organization:v mfa:b`),
  sso: words(`id event_type timestamp initiated_by.type initiated_by.id initiated_by.username organization
    application.display_label application.id application.name application.sso_url client_ip useragent:v geoip:o
    idp_initiated:b service @version:i`),
  radius:
    words(`id event_type nas_mfa_state auth_type eap_type client_ip geoip:o success:b username organization
    timestamp error_message mfa:b mfa_meta.type outer.eap_type outer.error_message outer.username service
    initiated_by:o @version:i`),
  systems:
    words(`timestamp system_timestamp id event_type organization system.id system.hostname system.displayName
    message client_ip src_ip username process_name success:b provider:v resource:o changes:l initiated_by:o service
    app_management_source windows_meta.elevated:b windows_meta.logon_type:i @version:i`),
  software:
    words(`id event_type service timestamp provider organization system.id system.type application.name
    application.version application.path application.publisher application.uninstall_string changes:l resource.id
    resource.type app_management_source @version:i`),
  ldap: words(`timestamp connection_id operation_number:i event_type dn auth_method:i mech start_tls:b
    tls_established:b username organization success:b error_code:i error_message oid base scope:i deref:i filter attr
    number_of_results:i service initiated_by:o auth_meta.auth_methods.totp.success:b
    auth_meta.auth_methods.password.success:b auth_meta.auth_methods.jumpcloud_protect.success:b
    auth_meta.jumpcloud_protect_device.id auth_meta.jumpcloud_protect_device.make
    auth_meta.jumpcloud_protect_device.model auth_meta.jumpcloud_protect_device.os
    auth_meta.jumpcloud_protect_device.os_version auth_meta.jumpcloud_protect_device.app_version
    auth_meta.jumpcloud_protect_device.username auth_meta.jumpcloud_protect_device.user_id
    auth_meta.jumpcloud_protect_device.ip @version:i`),
  mdm: words(`id timestamp organization event_type mdm_type device_object_id device_manager_object_id
    windows_device_uuid initiated_by:o command_uuid request_type command.request_type status error_chain:l
    error_chain.error_code:i error_chain.error_domain error_chain.localized_description
    error_chain.us_english_description success:b result geoip:o @version:i service`),
  notifications:
    words(`id timestamp organization event_type name type description channel_object_id correlation.id
    config:l success:b initiated_by:o client_ip`),
  object_storage: words(`id timestamp event_type service result organization referrer_object_id referrer_type
    object_storage_item_object_id object_storage_item_version_object_id object_storage_item_version_name
    object_storage_item_version_size:i object_storage_item_version_sha_256_sum total_software_item_count:i
    total_space_used:i system_object_id @version:i`),
  saas_app_management:
    words(`id event_type timestamp service organization changes:l geoip:o initiated_by:o client_ip
    username resource.application_id resource.application_name resource.application_category account_id
    catalog_app_id login_identifier detail @version:i`),
  access_management: words(`id event_type timestamp service pid organization access_request_id changes:l
    resource.type resource.id resource.name workflow.type workflow.id workflow.name workflow.desc initiated_by:o
    association:o client_ip user_agent:v success:b geoip:o provider:v error_message @version`),
  reports: words(`id event_type timestamp service organization changes:l resource.name resource.id
    resource.description resource.resources resource.search_request resource.configuration initiated_by:o auth_method
    client_ip user_agent:v geoip:o provider @version`),
};

/** Fields whose values the specification or the field shows with capitals. */
export const capitals: readonly string[] = [
  "id",
  "timestamp",
  "system_timestamp",
  "status",
  "request_type",
  "command",
  "result",
  "changes",
  "useragent",
  "user_agent",
  "trace_context",
  "association",
  "auth_context",
];

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}
