import { z } from "zod";
import type { JournalEvent } from "../core/event.ts";
import { defineFormat } from "../core/format.ts";
import {
  type Carried,
  type Describe,
  type Described,
  type Fields,
  take,
  test,
  text,
  wordOf,
} from "../core/meaning.ts";
import { carry, leftover } from "./leftover.ts";
import { withEffect } from "./ocsf/effect-rows.ts";
import { type Filling, fills } from "./ocsf/fill.ts";
import type { ClassName, OcsfClass, OcsfSchema, Row } from "./ocsf/schema.ts";
import { ocsf180 } from "./ocsf/schema-1.8.0.ts";
import { partiesOf } from "./parties.ts";
import { PRODUCT, VENDOR } from "./product.ts";
import { fast } from "./recipes/with-recipes.ts";
import { ownSeverity, severityOf } from "./severity.ts";

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

/** Open Cybersecurity Schema Framework. Fields that the schema has no place for go to `unmapped`. */
export const ocsf = defineFormat<z.output<typeof options>>({
  name: "ocsf",
  summary: "Open Cybersecurity Schema Framework 1.8.0, as JSON.",
  hasRecipes: true,
  options,
  create({ schemaVersion, rawData }, context) {
    const schema = schemas.find((candidate) => candidate.version === schemaVersion) ?? ocsf180;
    const converter = (describe: Describe) => (event: JournalEvent) =>
      encode(event, schema, rawData, describe);
    return {
      name: "ocsf",
      mediaType: "application/json",
      variable: ["unmapped"],
      // `raw_data` is the event as text inside a text, which is no copy.
      ...(rawData ? { encode: converter(context.describe) } : fast(converter, context)),
    };
  },
});

function encode(event: JournalEvent, schema: OcsfSchema, rawData: boolean, describe: Describe): string {
  const described = describe(event);
  const out: Fields = {};
  const filling = fill(out, event, described, schema);
  const meta = metadata(event, described, hostProfile(out, filling.class));
  status(out, described);
  if (rawData) out.raw_data = Buffer.from(event.bytes).toString("utf8");
  const classified = head(filling, event.timestampMs);
  out.unmapped = leftover(described.event);
  // Neither is ever empty, so cutting the first brace is safe.
  const product = `"metadata":{"version":"${schema.version}","product":${PRODUCT_JSON},`;
  return `${classified},${product}${JSON.stringify(meta).slice(1)},${JSON.stringify(out).slice(1)}`;
}

/** Some classes have actor or device only by way of the host profile. */
function hostProfile(out: Fields, { hostProfile: by }: OcsfClass): readonly string[] | undefined {
  const used = (by.actor && out.actor !== undefined) || (by.device && out.device !== undefined);
  return used ? HOST : undefined;
}

const HOST: readonly string[] = ["host"];
const PRODUCT_JSON = JSON.stringify({ name: PRODUCT, vendor_name: VENDOR });

/** Writes the first class that the event can fill. The last one, Base Event, requires nothing. */
function fill(out: Fields, source: JournalEvent, described: Described, schema: OcsfSchema): Filling {
  let row = rowFor(source, described, schema);
  for (;;) {
    const chosen = schema.classes[row.class];
    const filling = { source, event: described.event, meaning: described.meaning, row, class: chosen };
    if (fills[row.class](out, filling)) return filling;
    row = instead(row, schema);
  }
}

/** The class that the event's type has and the one it got instead; undefined where it got its own. */
export function lostClass(source: JournalEvent, described: Described): string | undefined {
  const { classes } = ocsf180;
  const wanted = classes[rowFor(source, described, ocsf180).class];
  const got = fill({}, source, described, ocsf180).class;
  return wanted === got ? undefined : `${wanted.name} became ${got.name}`;
}

function rowFor(source: JournalEvent, described: Described, schema: OcsfSchema): Row {
  if (source.eventType === "" || described.unreadable)
    return { class: "base_event", activity: 0, self: false };
  const row = schema.rowOf(source.eventType, described.service);
  const { effects } = described.meaning;
  if (effects.length === 0) return row;
  const { user, group } = partiesOf(described.meaning);
  return withEffect(row, effects, user === undefined && group !== undefined);
}

/** The same activities under other classes, for events that cannot fill their own. */
const AS_ENTITY: Partial<Record<ClassName, Readonly<Record<number, number>>>> = {
  account_change: { 1: 1, 2: 8, 5: 9, 6: 4 },
  user_access: { 1: 3, 2: 3 },
  group_management: { 1: 3, 2: 3, 3: 3, 4: 3, 5: 4, 6: 1, 7: 3, 8: 3 },
  web_resources_activity: { 1: 1, 2: 2, 3: 3, 4: 4 },
  application_lifecycle: {},
  device_config_state_change: {},
};

/** Entity Management requires little. An event that cannot fill it, or a login without a user, is a Base Event. */
function instead(row: Row, schema: OcsfSchema): Row {
  const name = activityName(row, schema);
  const same = AS_ENTITY[row.class];
  if (same === undefined) return { ...row, class: "base_event", activity: name };
  return {
    ...row,
    class: "entity_management",
    activity: (typeof row.activity === "number" && same[row.activity]) || name,
  };
}

function activityName(row: Row, schema: OcsfSchema): string {
  if (typeof row.activity === "string") return row.activity;
  return schema.classes[row.class].activities[row.activity] ?? "Unknown";
}

/** The fields of the class, written as text: they are a third of the output and always the same. */
function head(filling: Filling, timeMs: number): string {
  const { row, class: chosen } = filling;
  const activity = typeof row.activity === "number" ? row.activity : 99;
  const caption = typeof row.activity === "string" ? "Other" : (chosen.activities[activity] ?? "Unknown");
  const name = typeof row.activity === "string" ? JSON.stringify(row.activity) : `"${caption}"`;
  const severity = unknownSeverity(filling) ?? known(severityOf(filling.source.eventType, filling.meaning));
  return (
    `{"class_uid":${chosen.uid},"class_name":"${chosen.name}",` +
    `"category_uid":${chosen.category},"category_name":"${chosen.categoryName}",` +
    `"activity_id":${activity},"activity_name":${name},` +
    `"type_uid":${chosen.uid * 100 + activity},"type_name":"${chosen.name}: ${caption}",` +
    `"severity_id":${severity.id},"severity":${JSON.stringify(severity.name)},"time":${timeMs}`
  );
}

const SEVERITIES = ["Unknown", "Informational", "Low", "Medium", "High", "Critical", "Fatal"] as const;

interface Severity {
  readonly id: number;
  readonly name: string | Carried;
}

function known(id: number): Severity {
  return { id, name: SEVERITIES[id]! };
}

/** A word of the event that the table does not know is written as it is. A known word counts as carried over. */
function unknownSeverity({ meaning }: Filling): Severity | undefined {
  const { risk } = meaning;
  if (risk === undefined) return undefined;
  const id = ownSeverity(meaning);
  if (id === undefined) return { id: 99, name: take(risk) };
  if (wordOf(risk) === SEVERITIES[id]!.toLowerCase()) take(risk);
  return undefined;
}

function metadata(
  source: JournalEvent,
  { event, meaning }: Described,
  profiles: readonly string[] | undefined,
): Fields {
  const owner = text(event, "organization");
  if (owner !== undefined && test(owner, (value) => value === source.organization)) take(owner);
  return {
    uid: source.identity,
    original_event_uid: carry(text(event, "id")),
    original_time: carry(text(event, "timestamp")),
    event_code: carry(text(event, "event_type")),
    log_name: carry(text(event, "service")) ?? "unknown",
    log_version: carry(text(event, "@version")),
    correlation_uid: carry(text(event.correlation, "id")),
    tenant_uid: source.organization ?? undefined,
    logged_time: source.fetchedAtMs,
    labels: meaning.effects.length > 0 ? meaning.effects : undefined,
    profiles,
  };
}

const STATUS = {
  success: { id: 1, name: "Success" },
  failure: { id: 2, name: "Failure" },
  unknown: { id: 0, name: "Unknown" },
} as const;

function status(out: Fields, { meaning }: Described): void {
  const { outcome, message } = meaning;
  if (out.status_id === undefined) {
    out.status_id = STATUS[outcome.is].id;
    out.status = STATUS[outcome.is].name;
    if (outcome.by) take(outcome.by);
  }
  if (outcome.reason) out.status_detail = carry(outcome.reason);
  if (outcome.code) out.status_code = carry(outcome.code);
  if (message) out.message = carry(message);
}
