import type { Format } from "../../core/format.ts";

/*
 * Mappings for the index template. Fields with one type are mapped by it. Members that hold parts of the
 * original event change type from event to event, and one mapping conflict would cost the event. They are
 * mapped as one object with searchable leaves: `flattened` on Elasticsearch, `flat_object` on OpenSearch.
 */

export type Product = "Elasticsearch" | "OpenSearch";

type Mapping = { readonly [key: string]: unknown };

const DATE = { type: "date" };
const KEYWORD = { type: "keyword", ignore_above: 1024 };
const IP = { type: "ip" };
const POINT = { type: "geo_point" };
const BOOLEAN = { type: "boolean" };
/** Kept and returned, but not searchable. Any JSON value is accepted. */
const NOT_INDEXED = { type: "object", enabled: false };
const KEPT_TEXT = { type: "keyword", index: false, doc_values: false };

/** The member for values that are too long for the index. */
export const LONG_VALUES = "long_values";

/** A value of an unexpected type is kept without being indexed, instead of costing the event. */
export const SETTINGS = {
  "index.mapping.ignore_malformed": true,
  "index.mapping.total_fields.limit": 4000,
};

export function mappingsFor(product: Product, format: Format): Mapping {
  const variable = format.variable ?? [];
  const isRaw = variable.includes("");
  const properties: Mapping = {
    "@timestamp": DATE,
    message: { type: "text" },
    [LONG_VALUES]: NOT_INDEXED,
    ...(isRaw ? rawFields(product) : TYPED_FIELDS),
  };
  return {
    // A new field of a raw event may be text in one event and an object in the next.
    dynamic: !isRaw,
    date_detection: false,
    numeric_detection: false,
    dynamic_templates: [{ strings: { match_mapping_type: "string", mapping: KEYWORD } }],
    properties: variable
      .filter((path) => path !== "")
      .reduce((fields, path) => withField(fields, path.split("."), flat(product)), properties),
  };
}

/** OpenSearch knows no options here; the sink itself cuts values that its index cannot hold. */
function flat(product: Product): Mapping {
  if (product === "OpenSearch") return { type: "flat_object" };
  return { type: "flattened", ignore_above: 1024, depth_limit: 512 };
}

function withField(fields: Mapping, [name = "", ...rest]: readonly string[], mapping: Mapping): Mapping {
  if (rest.length === 0) return { ...fields, [name]: mapping };
  const inner = ((fields[name] ?? {}) as { properties?: Mapping }).properties ?? {};
  return { ...fields, [name]: { properties: withField(inner, rest, mapping) } };
}

/** ECS and OCSF: fields whose type cannot be guessed from a value. */
const TYPED_FIELDS: Mapping = {
  event: { properties: { created: DATE, ingested: DATE, start: DATE, end: DATE, original: KEPT_TEXT } },
  source: { properties: { ip: IP, address: KEYWORD, geo: { properties: { location: POINT } } } },
  client: { properties: { ip: IP, address: KEYWORD, geo: { properties: { location: POINT } } } },
  host: { properties: { ip: IP, geo: { properties: { location: POINT } } } },
  related: { properties: { ip: IP } },
  time: { type: "date", format: "epoch_millis||strict_date_optional_time" },
  src_endpoint: { properties: { ip: IP } },
  device: { properties: { ip: IP } },
  raw_data: KEPT_TEXT,
};

const RAW_KEYWORDS =
  "id event_type service organization provider error_message error_code auth_method username process_name version @version access_request_id account_id base command_uuid connection_id dn filter login_identifier mdm_device_id mdm_device_manager_id mdm_type mech request_type result severity category state status jc_initiated_by_email";
const RAW_OBJECTS =
  "initiated_by resource association application system auth_context auth_meta correlation geoip changes mfa_meta windows_meta system_group target_resource workflow message_chain command";

/** The documented fields of raw events. Others are kept without being searchable. */
function rawFields(product: Product): Mapping {
  return {
    ...Object.fromEntries(RAW_KEYWORDS.split(" ").map((name) => [name, KEYWORD])),
    ...Object.fromEntries(RAW_OBJECTS.split(" ").map((name) => [name, flat(product)])),
    timestamp: DATE,
    client_ip: IP,
    src_ip: IP,
    success: BOOLEAN,
    mfa: BOOLEAN,
    sso_token_success: BOOLEAN,
    // Text in some events and an object in others.
    useragent: NOT_INDEXED,
    user_agent: NOT_INDEXED,
    asn: NOT_INDEXED,
  };
}
