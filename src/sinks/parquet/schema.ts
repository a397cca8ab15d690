import type { SchemaElement } from "hyparquet";

/*
 * The columns of a Parquet file: the attributes of OCSF that our format writes, nested as in OCSF. The schema is
 * the same for every file and every class, so that files can be read together. It only ever grows. Everything
 * else of an event is JSON text in `unmapped`.
 */

export type ParquetLeaf = "string" | "int" | "long" | "double" | "boolean" | "json";
export type Column = ParquetLeaf | ListColumn | StructColumn;
export interface ListColumn {
  readonly list: Column;
}
export interface StructColumn {
  readonly struct: Readonly<Record<string, Column>>;
}

const struct = (fields: Readonly<Record<string, Column>>): StructColumn => ({ struct: fields });
const list = (element: Column): ListColumn => ({ list: element });

const named = { name: "string", uid: "string", type: "string" } as const;
const os = struct({ name: "string", type: "string", type_id: "int", version: "string" });
const location = struct({
  city: "string",
  country: "string",
  region: "string",
  postal_code: "string",
  lat: "double",
  long: "double",
});
const user = struct({
  name: "string",
  uid: "string",
  uid_alt: "string",
  display_name: "string",
  email_addr: "string",
  type: "string",
  type_id: "int",
  ldap_person: struct({ ldap_dn: "string" }),
});
const device = struct({
  type_id: "int",
  type: "string",
  uid: "string",
  hostname: "string",
  name: "string",
  ip: "string",
  location,
  os,
  is_managed: "boolean",
});
const endpoint = struct({
  ip: "string",
  location,
  autonomous_system: struct({ number: "long", name: "string" }),
  os,
});
const group = struct(named);
const resource = struct(named);
const entity = struct({ name: "string", uid: "string", type: "string", type_id: "int", user, device });

/** The column for what no other column can hold. */
export const UNMAPPED = "unmapped";

export const PARQUET_COLUMNS: Readonly<Record<string, Column>> = {
  class_uid: "int",
  class_name: "string",
  category_uid: "int",
  category_name: "string",
  activity_id: "int",
  activity_name: "string",
  type_uid: "long",
  type_name: "string",
  severity_id: "int",
  severity: "string",
  time: "long",
  message: "string",
  status_id: "int",
  status: "string",
  status_code: "string",
  status_detail: "string",
  metadata: struct({
    version: "string",
    uid: "string",
    product: struct({ name: "string", vendor_name: "string" }),
    original_event_uid: "string",
    original_time: "string",
    event_code: "string",
    log_name: "string",
    log_version: "string",
    correlation_uid: "string",
    tenant_uid: "string",
    logged_time: "long",
    labels: list("string"),
    profiles: list("string"),
  }),
  actor: struct({ user }),
  user,
  src_endpoint: endpoint,
  http_request: struct({ user_agent: "string" }),
  device,
  service: struct({ name: "string", uid: "string" }),
  is_mfa: "boolean",
  auth_protocol_id: "int",
  auth_protocol: "string",
  auth_factors: list(struct({ factor_type: "string", factor_type_id: "int", is_totp: "boolean" })),
  logon_type_id: "int",
  logon_type: "string",
  entity,
  entity_result: entity,
  group,
  subgroup: group,
  privileges: list("string"),
  resource,
  resources: list(resource),
  web_resources: list(struct({ ...named, desc: "string" })),
  app: struct({ name: "string", uid: "string", version: "string", path: "string", vendor_name: "string" }),
  finding_info: struct({ uid: "string", uid_alt: "string", title: "string", types: list("string") }),
  evidences: list(struct({ src_endpoint: endpoint, user })),
  raw_data: "string",
  [UNMAPPED]: "json",
};

const LEAVES: Readonly<Record<ParquetLeaf, Partial<SchemaElement>>> = {
  string: { type: "BYTE_ARRAY", converted_type: "UTF8", logical_type: { type: "STRING" } },
  // Readers that know no JSON type see text.
  json: { type: "BYTE_ARRAY", converted_type: "UTF8", logical_type: { type: "STRING" } },
  int: { type: "INT32" },
  long: { type: "INT64" },
  double: { type: "DOUBLE" },
  boolean: { type: "BOOLEAN" },
};

/** The schema in the form of a file's footer: a tree in preorder. */
export function schemaElements(columns: Readonly<Record<string, Column>> = PARQUET_COLUMNS): SchemaElement[] {
  const names = Object.keys(columns);
  return [
    { name: "ocsf", num_children: names.length },
    ...names.flatMap((name) => elementsOf(name, columns[name]!)),
  ];
}

function elementsOf(name: string, column: Column): SchemaElement[] {
  const optional = { name, repetition_type: "OPTIONAL" } as const;
  if (typeof column === "string") return [{ ...optional, ...LEAVES[column] }];
  if ("list" in column)
    return [
      { ...optional, converted_type: "LIST", logical_type: { type: "LIST" }, num_children: 1 },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      ...elementsOf("element", column.list),
    ];
  const names = Object.keys(column.struct);
  return [
    { ...optional, num_children: names.length },
    ...names.flatMap((inner) => elementsOf(inner, column.struct[inner]!)),
  ];
}
