import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat, type FormatContext } from "../core/format.ts";
import { type Described, type Fields, take, text } from "../core/meaning.ts";
import { leftover, put } from "./leftover.ts";
import { type Filling, fills } from "./ocsf/fill.ts";
import type { ClassName, OcsfSchema, Row } from "./ocsf/schema.ts";
import { ocsf180 } from "./ocsf/schema-1.8.0.ts";
import { PRODUCT, VENDOR } from "./product.ts";

const schemas: readonly OcsfSchema[] = [ocsf180];

const options = z.strictObject({
  schemaVersion: z
    .enum(schemas.map((schema) => schema.version))
    .default("1.8.0")
    .meta({ description: "The version of the OCSF schema to write." }),
  rawData: z
    .boolean()
    .default(false)
    .meta({ description: "Whether `raw_data` carries the original event as text." }),
});

/** Open Cybersecurity Schema Framework. What has no place in the schema goes to `unmapped`. */
export const ocsf = defineFormat<z.output<typeof options>>({
  name: "ocsf",
  summary: "Open Cybersecurity Schema Framework 1.8.0, as JSON.",
  options,
  create({ schemaVersion, rawData }, context) {
    const schema = schemas.find((candidate) => candidate.version === schemaVersion) ?? ocsf180;
    return {
      name: "ocsf",
      mediaType: "application/json",
      encode: (event) => encode(event, schema, rawData, context),
    };
  },
});

function encode(event: JournalEvent, schema: OcsfSchema, rawData: boolean, context: FormatContext): string {
  const described = context.describe(event);
  const out = outline(event, described, schema);
  if (rawData) out.raw_data = Buffer.from(event.bytes).toString("utf8");
  out.unmapped = leftover(described.event);
  return JSON.stringify(out);
}

/** Everything but the leftover: what all events have, and what the first class that can be filled asks for. */
function outline(source: JournalEvent, described: Described, schema: OcsfSchema): Fields {
  const { event, meaning } = described;
  const first = rowFor(source, described, schema);
  const out: Fields = {
    class_uid: 0,
    class_name: "",
    category_uid: 0,
    category_name: "",
    activity_id: 0,
    activity_name: "",
    type_uid: 0,
    type_name: "",
    severity_id: 0,
    severity: "",
    time: source.timestampMs,
    metadata: { version: schema.version, product: { name: PRODUCT, vendor_name: VENDOR } },
  };
  for (const row of [first, instead(first, schema), lastResort(first, schema)]) {
    const filling: Filling = { source, event, meaning, row, class: schema.classes[row.class] };
    if (!fills[row.class](out, filling)) continue;
    classify(out, filling);
    break;
  }
  metadata(out.metadata as Fields, source, event);
  status(out, described);
  return out;
}

function rowFor(source: JournalEvent, described: Described, schema: OcsfSchema): Row {
  if (source.eventType !== "" && !described.unreadable) return schema.rowOf(source.eventType);
  return { class: "base_event", activity: 0, severity: 1, self: false };
}

/** The same activities under other classes, for events that cannot fill their own. */
const AS_ENTITY: Partial<Record<ClassName, Readonly<Record<number, number>>>> = {
  account_change: { 1: 1, 2: 8, 5: 9, 6: 4 },
  user_access: {},
  group_management: { 5: 4, 6: 1 },
  web_resources_activity: { 1: 1, 2: 2, 3: 3, 4: 4 },
  application_lifecycle: {},
  device_config_state_change: {},
};

/** Entity Management asks for little; only a login that names nobody is none. */
function instead(row: Row, schema: OcsfSchema): Row {
  const same = AS_ENTITY[row.class];
  if (same === undefined) return lastResort(row, schema);
  const activity = (typeof row.activity === "number" && same[row.activity]) || activityName(row, schema);
  return { ...row, class: "entity_management", activity };
}

function lastResort(row: Row, schema: OcsfSchema): Row {
  return row.activity === 0 ? row : { ...row, class: "base_event", activity: activityName(row, schema) };
}

function activityName(row: Row, schema: OcsfSchema): string {
  if (typeof row.activity === "string") return row.activity;
  return schema.classes[row.class].activities[row.activity] ?? "Unknown";
}

function classify(out: Fields, filling: Filling): void {
  const { row, class: chosen } = filling;
  const activity = typeof row.activity === "number" ? row.activity : 99;
  const caption = typeof row.activity === "string" ? "Other" : (chosen.activities[activity] ?? "Unknown");
  out.class_uid = chosen.uid;
  out.class_name = chosen.name;
  out.category_uid = chosen.category;
  out.category_name = chosen.categoryName;
  out.activity_id = activity;
  out.activity_name = typeof row.activity === "string" ? row.activity : caption;
  out.type_uid = chosen.uid * 100 + activity;
  out.type_name = `${chosen.name}: ${caption}`;
  severity(out, filling);
}

const SEVERITIES = ["Unknown", "Informational", "Low", "Medium", "High", "Critical", "Fatal"] as const;
const SEVERITY_WORDS: ReadonlyMap<string, number> = new Map([
  ["info", 1],
  ["informational", 1],
  ["low", 2],
  ["medium", 3],
  ["moderate", 3],
  ["high", 4],
  ["critical", 5],
  ["fatal", 6],
]);

/** The event's own word where it has one, else what its type is worth. */
function severity(out: Fields, { row, meaning: { risk } }: Filling): void {
  const own = risk && SEVERITY_WORDS.get(risk.value.toLowerCase());
  const id = own ?? (risk ? 99 : row.severity);
  out.severity_id = id;
  out.severity = SEVERITIES[id] ?? "Other";
  if (risk && own === undefined) put(out, "severity", risk);
  else if (risk?.value.toLowerCase() === String(out.severity).toLowerCase()) take(risk);
}

function metadata(out: Fields, source: JournalEvent, event: Fields): void {
  out.uid = source.identity;
  put(out, "original_event_uid", text(event, "id"));
  put(out, "original_time", text(event, "timestamp"));
  put(out, "event_code", text(event, "event_type"));
  put(out, "log_name", text(event, "service"));
  put(out, "log_version", text(event, "@version"));
  put(out, "correlation_uid", text(event.correlation, "id"));
  const owner = text(event, "organization");
  if (source.organization !== null) {
    out.tenant_uid = source.organization;
    if (owner?.value === source.organization) take(owner);
  }
  out.logged_time = source.fetchedAtMs;
}

const STATUS = { success: [1, "Success"], failure: [2, "Failure"], unknown: [0, "Unknown"] } as const;

function status(out: Fields, { meaning }: Described): void {
  const { outcome, message } = meaning;
  if (out.status_id === undefined) {
    [out.status_id, out.status] = STATUS[outcome.is];
    if (outcome.by) take(outcome.by);
  }
  put(out, "status_detail", outcome.reason);
  put(out, "status_code", outcome.code);
  put(out, "message", message);
}
