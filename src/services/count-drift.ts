import type { Drift, DriftRow } from "../core/drift.ts";
import type { JournalEvent } from "../core/event.ts";
import { type Described, isFields } from "../core/meaning.ts";
import { createRecipeEngine } from "../core/recipe-engine.ts";
import { createShapeEngine } from "../core/shape-engine.ts";
import { describe, serviceOf, services } from "./index.ts";
import { reads } from "./read/read-paths.ts";
import { type JsonType, type Shape, shapeOf } from "./schema-shape.ts";

const ROWS_MAX = 2000;
/** Shapes and fingerprints that are remembered. When there are more, all are forgotten. */
const REMEMBERED_MAX = 8192;
const DEPTH_MAX = 6;
const KEYS_MAX = 300;
const ELEMENTS_MAX = 50;
/** No service has this name: names are made safe. */
const OTHERS = "(others)";

/**
 * The class that an event type has and the one that this event got instead, in words; undefined where it
 * got its own. It may take values out of the described event.
 */
export type LostClass = (event: JournalEvent, described: Described) => string | undefined;

/**
 * Compares every event with its service's schema; nothing is sampled. An event counts once for each row,
 * however often the same difference occurs in it. When there are `rowsMax` rows, new differences count in
 * a row of the service "(others)", so the sum stays true. With `lostClass`, each new field of an event that
 * lost its class counts in a row of its own too: the field may hold what the class requires.
 *
 * The differences of an event depend on its service, its type, its keys and the types of its values. They are
 * found once for each such shape. Its class depends on its fingerprint. So most events are not parsed: 2 to 3 µs
 * instead of 15.
 */
export function createDrift(rowsMax = ROWS_MAX, lostClass?: LostClass): Drift {
  const schemas = new Map(services.map((service) => [service.name, shapeOf(service.event)]));
  const known = new Map(services.map((service) => [service.name, new Set(service.eventTypes)]));
  const rows = new Map<string, Counter>();
  const shapes = createShapeEngine();
  const byShape = new Map<string, Differences>();
  const lostClasses = lostClass && rememberLostClasses(lostClass);

  function rowFor(kind: DriftRow["kind"], service: string, path: string, detail: string): Counter {
    const key = `${service}\0${kind}\0${path}\0${detail}`;
    const found = rows.get(key);
    if (found !== undefined) return found;
    if (rows.size >= rowsMax && service !== OTHERS) return rowFor(kind, OTHERS, "*", "");
    const times = { firstSeenMs: Number.POSITIVE_INFINITY, lastSeenMs: Number.NEGATIVE_INFINITY };
    const row = { service, kind, path, detail, ...times, count: 0, changed: false };
    rows.set(key, row);
    return row;
  }

  function compareWithSchema(event: JournalEvent, described: Described): Differences {
    const found = new Set<Counter>();
    const fields = new Set<string>();
    const service = serviceOf(event.service);
    const name = described.service === "fallback" ? safeName(event.service || "unknown") : service.name;
    const type = event.eventType;
    if (type !== "" && !known.get(service.name)!.has(type))
      found.add(rowFor("event_type", name, safeName(type), ""));
    if (described.unreadable) found.add(rowFor("type", name, "", "object, not text"));
    else
      compare(described.event, schemas.get(described.service)!, "", 0, {
        field(path) {
          fields.add(path);
          found.add(rowFor("field", name, path, ""));
        },
        type: (path, detail) => found.add(rowFor("type", name, path, detail)),
      });
    return { service: name, rows: [...found], fields: [...fields] };
  }

  function differencesOf(event: JournalEvent, described: Described | undefined): Differences {
    const shape = shapes.shapeOf(event.bytes);
    if (shape === undefined) return compareWithSchema(event, described ?? describe(event));
    const key = `${shape}\0${event.service}\0${event.eventType}`;
    const remembered = byShape.get(key);
    if (remembered !== undefined) return remembered;
    const found = compareWithSchema(event, described ?? describe(event));
    remember(byShape, key, found);
    return found;
  }

  return {
    observe(event, described) {
      const nowMs = event.fetchedAtMs;
      const { service, rows: found, fields } = differencesOf(event, described);
      for (const row of found) count(row, nowMs);
      const lost = fields.length > 0 ? lostClasses?.(event) : undefined;
      if (lost === undefined) return;
      const detail = `${safeName(event.eventType)}: ${lost}`;
      for (const row of new Set(fields.map((field) => rowFor("class", service, field, detail))))
        count(row, nowMs);
    },
    flush() {
      const changed = [...rows.values()].filter((row) => row.changed);
      for (const row of changed) row.changed = false;
      return changed.map(plain);
    },
    load(stored) {
      byShape.clear();
      for (const row of stored) {
        const key = `${row.service}\0${row.kind}\0${row.path}\0${row.detail}`;
        rows.set(key, { ...row, changed: false });
      }
    },
    rows: () => [...rows.values()].map(plain).sort((a, b) => b.count - a.count),
  };
}

interface Counter extends DriftRow {
  lastSeenMs: number;
  firstSeenMs: number;
  count: number;
  changed: boolean;
}

/** The rows of a shape, and its new fields. */
interface Differences {
  readonly service: string;
  readonly rows: readonly Counter[];
  readonly fields: readonly string[];
}

function count(row: Counter, nowMs: number): void {
  row.count++;
  row.changed = true;
  row.firstSeenMs = Math.min(row.firstSeenMs, nowMs);
  row.lastSeenMs = Math.max(row.lastSeenMs, nowMs);
}

function remember<Value>(known: Map<string, Value>, key: string, value: Value): void {
  if (known.size >= REMEMBERED_MAX) known.clear();
  known.set(key, value);
}

/** Asks once for each fingerprint, which holds all that a class depends on. */
function rememberLostClasses(lostClass: LostClass) {
  const engine = createRecipeEngine(reads);
  const byFingerprint = new Map<string, string | undefined>();
  return (event: JournalEvent): string | undefined => {
    if (engine.convert(event.bytes, 0) === "not_canonical") return lostClass(event, describe(event));
    const key = engine.fingerprint();
    if (!byFingerprint.has(key)) remember(byFingerprint, key, lostClass(event, describe(event)));
    return byFingerprint.get(key);
  };
}

function plain({ service, kind, path, detail, firstSeenMs, lastSeenMs, count }: Counter): DriftRow {
  return { service, kind, path, detail, firstSeenMs, lastSeenMs, count };
}

interface Found {
  field(path: string): void;
  type(path: string, detail: string): void;
}

function compare(value: unknown, shape: Shape, path: string, depth: number, found: Found): void {
  const type = typeOf(value);
  if (shape.types.length > 0 && !shape.types.includes(type)) {
    const expected = shape.types.filter((one) => one !== "nothing").join(" or ");
    found.type(path, `${expected}, not ${type}`);
    return;
  }
  if (depth >= DEPTH_MAX) return;
  if (type === "array" && shape.elements) {
    const elements = value as readonly unknown[];
    for (let at = 0; at < elements.length && at < ELEMENTS_MAX; at++)
      compare(elements[at], shape.elements, `${path}[]`, depth + 1, found);
  }
  if (isFields(value)) compareFields(value, shape, path, depth, found);
}

function compareFields(
  value: Record<string, unknown>,
  shape: Shape,
  path: string,
  depth: number,
  found: Found,
): void {
  const prefix = path === "" ? "" : `${path}.`;
  let keys = 0;
  for (const key in value) {
    if (++keys > KEYS_MAX) return;
    if (shape.values) compare(value[key], shape.values, `${prefix}*`, depth + 1, found);
    const field = shape.fields?.get(key);
    if (field) compare(value[key], field, prefix + key, depth + 1, found);
    else if (shape.fields) found.field(prefix + safeName(key));
  }
  if (!shape.fields) return;
  for (const [key, field] of shape.fields)
    if (value[key] === undefined && field.types.length > 0 && !field.types.includes("nothing"))
      found.type(prefix + key, `${field.types.join(" or ")}, not nothing`);
}

function typeOf(value: unknown): JsonType {
  if (value === null) return "null";
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "array";
  const type = typeof value;
  return type === "string" || type === "number" || type === "boolean" ? type : "object";
}

const NAME = /^@?[A-Za-z][A-Za-z0-9_-]{0,79}$/;
const LOOKS_LIKE_DATA = /\d{5}|[0-9a-f]{16}|[0-9a-f]{8}-[0-9a-f]{4}-/i;

/** A name like those of fields, else "*": keys can be addresses, ids and other people's data. */
function safeName(name: string): string {
  return NAME.test(name) && !LOOKS_LIKE_DATA.test(name) ? name : "*";
}
