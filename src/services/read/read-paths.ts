import type { ChangeKind, ReadKind, Reads } from "../../core/reads.ts";
import { changeKinds, ROLE_RANKS, severitiesOf } from "./change-effects.ts";
import { RANKS } from "./effects.ts";

/*
 * Every member of an event that a service or format reads, and how. Recipes rely on it: a member that is missing
 * here is copied as it is, so its value cannot change the rest of the output.
 */

const TOP: Partial<Record<ReadKind, string>> = {
  type: "event_type",
  decides: "service @version success mfa severity status result error_chain type sso_token_success",
  copied: "error_message error_code message category process_name detail description",
  compared:
    "id organization username dn base name login_identifier account_id catalog_app_id access_request_id " +
    "channel_object_id mdm_device_id device_object_id windows_device_uuid system_object_id " +
    "object_storage_item_object_id object_storage_item_version_name",
  email: "jc_initiated_by_email",
  address: "client_ip src_ip",
  time: "timestamp",
  changes: "changes",
};

const PARTY: Partial<Record<ReadKind, string>> = {
  decides: "type administrator",
  compared: "id object_id user_id username name hostname displayName display_name displayLabel",
  email: "email recipient_email",
};
const DEVICE: Partial<Record<ReadKind, string>> = {
  decides: "os",
  copied: "version",
  compared: "id hostname displayName",
};
const PLACE: Partial<Record<ReadKind, string>> = {
  copied: "city_name city country_code region_code region_name continent_code postal_code timezone",
  latitude: "latitude",
  longitude: "longitude",
};
const AGENT: Partial<Record<ReadKind, string>> = {
  decides: "os os_name",
  copied: "name version major os_version os_major os_full device",
};

const paths = new Map<string, ReadKind>([
  ...under("", TOP),
  ...under("initiated_by.", PARTY),
  ...under("resource.", PARTY),
  ...under("resource.", DEVICE),
  ...under("resource.", {
    decides: "source_type",
    copied: "description application_category reference_id",
    compared: "application_id application_name source_id",
  }),
  ...under("system.", DEVICE),
  ...under("system.", PARTY),
  ...under("association.", PARTY),
  ...under("association.", { decides: "op attributes" }),
  ...under("association.connection.", { decides: "attributes" }),
  ...under("association.connection.from.", PARTY),
  ...under("association.connection.to.", PARTY),
  ...under("system_group.", PARTY),
  ...under("workflow.", PARTY),
  ...under("geoip.", PLACE),
  ...under("geoip.geoip.", PLACE),
  ["asn", "number"],
  ...under("asn.", { number: "number asn", copied: "organization organization_name" }),
  ["useragent", "copied"],
  ["user_agent", "copied"],
  ...under("useragent.", AGENT),
  ...under("useragent.useragent.", AGENT),
  ...under("user_agent.", AGENT),
  ...under("user_agent.user_agent.", AGENT),
  ...under("application.", {
    decides: "sso_type",
    copied: "version path publisher",
    compared: "id name display_label",
    url: "sso_url",
  }),
  ...under("auth_context.", { decides: "auth_methods" }),
  ...under("auth_context.system.", DEVICE),
  ...under("auth_meta.", { decides: "auth_methods" }),
  ...under("mfa_meta.", { decides: "type" }),
  ...under("message_chain.", { copied: "response_code response_message" }),
  ...under("target_resource.", { copied: "type" }),
  ...under("windows_meta.", { decides: "logon_type" }),
  ...under("correlation.", { copied: "id" }),
]);

function under(parent: string, kinds: Partial<Record<ReadKind, string>>): [string, ReadKind][] {
  return Object.entries(kinds).flatMap(([kind, names]) =>
    names.split(" ").map((name): [string, ReadKind] => [parent + name, kind as ReadKind]),
  );
}

/** OCSF reads the status of a finding from its changes. */
const names: ReadonlyMap<string, ChangeKind> = new Map([...changeKinds, ["status", "ordered"]]);

/** Updates have effects; alerts and risk events are findings. */
export const reads: Reads = {
  paths,
  groups: ["geoip", "useragent", "user_agent"],
  changes: {
    names,
    ranks: ROLE_RANKS,
    typeWords: ["_update", "alert", "risk"],
    severities: severitiesOf(RANKS),
  },
};
