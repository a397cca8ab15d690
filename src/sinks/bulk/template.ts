import { PausedError } from "../../core/errors.ts";
import { encodeName } from "../../core/names.ts";
import { isSuccess } from "../over-http/status.ts";
import { type BulkConnection, bulkError, saidOf } from "./answer.ts";

/** Puts the index template for a sink's indexes; the same again changes nothing. */
export async function putTemplate(
  connection: BulkConnection,
  names: { readonly sink: string; readonly template: string; readonly isStream: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { base, headers, destination } = connection;
  const url = `${base}/_index_template/tidemark-${encodeName(names.sink)}`;
  const pattern = names.template.replace(/\{[^}]*\}/g, "*");
  const body = JSON.stringify({
    index_patterns: [pattern],
    priority: 200,
    ...(names.isStream && { data_stream: {} }),
    template: { settings: SETTINGS, mappings: MAPPINGS },
    _meta: { description: "Directory events, written by Tidemark." },
  });
  const answer = await connection.send(
    { method: "PUT", url, headers: { ...headers, "content-type": "application/json" }, body },
    signal,
  );
  if (isSuccess(answer)) return;
  const error = bulkError(answer, destination);
  const isTransient = error?.name === "RetryableError";
  if (isTransient) throw error;
  throw new PausedError(
    `${destination} does not take the index template (${answer.status}): ${saidOf(answer) ?? "no reason given"}`,
    "Allow the user to manage index templates, remove a template of the same patterns and priority, or set template: false.",
    { cause: error },
  );
}

/** A value of an unexpected type is kept and not indexed, instead of costing the event. */
const SETTINGS = {
  "index.mapping.ignore_malformed": true,
  "index.mapping.total_fields.limit": 4000,
};

const DATE = { type: "date" };
const KEYWORD = { type: "keyword", ignore_above: 1024 };
const IP = { type: "ip" };
const NOT_INDEXED = { type: "object", enabled: false };
const KEPT_TEXT = { type: "keyword", index: false, doc_values: false };

/**
 * For raw, ECS and OCSF documents alike: strings are keywords, nothing is guessed to be a date or a number,
 * and members that hold anything at all are kept without being indexed.
 */
const MAPPINGS = {
  date_detection: false,
  numeric_detection: false,
  dynamic_templates: [{ strings: { match_mapping_type: "string", mapping: KEYWORD } }],
  properties: {
    "@timestamp": DATE,
    message: { type: "text" },
    // Raw events.
    timestamp: DATE,
    client_ip: IP,
    changes: { properties: { field: KEYWORD, from: NOT_INDEXED, to: NOT_INDEXED } },
    // ECS.
    event: { properties: { created: DATE, ingested: DATE, start: DATE, end: DATE, original: KEPT_TEXT } },
    source: {
      properties: { ip: IP, address: KEYWORD, geo: { properties: { location: { type: "geo_point" } } } },
    },
    client: { properties: { ip: IP, address: KEYWORD } },
    related: { properties: { ip: IP } },
    // OCSF.
    time: { type: "date", format: "epoch_millis||strict_date_optional_time" },
    src_endpoint: { properties: { ip: IP } },
    raw_data: KEPT_TEXT,
    unmapped: NOT_INDEXED,
  },
};
