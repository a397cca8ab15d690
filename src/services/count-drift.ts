import type { Drift, DriftRow } from "../core/drift.ts";
import type { JournalEvent } from "../core/event.ts";
import { type Described, isFields } from "../core/meaning.ts";
import { createShapeEngine } from "../core/shape-engine.ts";
import { describe, serviceOf, services } from "./index.ts";
import { type JsonType, type Shape, shapeOf } from "./schema-shape.ts";

const ROWS_MAX = 2000;
/** Shapes whose rows are remembered. When there are more, all are forgotten. */
const SHAPES_MAX = 4096;
const DEPTH_MAX = 6;
const KEYS_MAX = 300;
const ELEMENTS_MAX = 50;
/** No service is called so: names are made safe. */
const OTHERS = "(others)";

/**
 * Compares every event with its service's schema; nothing is sampled. An event counts once for each row,
 * however often the same happens inside it. When there are `rowsMax` rows, everything new counts in a row
 * of the service "(others)", so the sum stays true.
 *
 * The rows of an event depend on its service, its type, its keys and the types of its values. They are found
 * once for each such shape; later events of the shape are counted without parsing them.
 */
export function createDrift(rowsMax = ROWS_MAX): Drift {
  const schemas = new Map(services.map((service) => [service.name, shapeOf(service.event)]));
  const known = new Map(services.map((service) => [service.name, new Set(service.eventTypes)]));
  const rows = new Map<string, Counter>();
  const engine = createShapeEngine();
  const rowsOfShapes = new Map<string, readonly Counter[]>();

  function rowFor(kind: DriftRow["kind"], service: string, path: string, detail: string): Counter {
    const key = `${service}\0${kind}\0${path}\0${detail}`;
    const known = rows.get(key);
    if (known !== undefined) return known;
    if (rows.size >= rowsMax && service !== OTHERS) return rowFor(kind, OTHERS, "*", "");
    const times = { firstSeenMs: Number.POSITIVE_INFINITY, lastSeenMs: Number.NEGATIVE_INFINITY };
    const row = { service, kind, path, detail, ...times, count: 0, changed: false };
    rows.set(key, row);
    return row;
  }

  /** Compares the event with its schema. */
  function compareWithSchema(event: JournalEvent, described: Described): readonly Counter[] {
    const found = new Set<Counter>();
    const service = serviceOf(event.service);
    const name = described.service === "fallback" ? safeName(event.service || "unknown") : service.name;
    const type = event.eventType;
    if (type !== "" && !known.get(service.name)!.has(type))
      found.add(rowFor("event_type", name, safeName(type), ""));
    if (described.unreadable) found.add(rowFor("type", name, "", "object, not text"));
    else
      compare(described.event, schemas.get(described.service)!, "", 0, {
        field: (path) => found.add(rowFor("field", name, path, "")),
        type: (path, detail) => found.add(rowFor("type", name, path, detail)),
      });
    return [...found];
  }

  function rowsOf(event: JournalEvent, described: Described | undefined): readonly Counter[] {
    const shape = engine.shapeOf(event.bytes);
    if (shape === undefined) return compareWithSchema(event, described ?? describe(event));
    const key = `${shape}\0${event.service}\0${event.eventType}`;
    const remembered = rowsOfShapes.get(key);
    if (remembered !== undefined) return remembered;
    const found = compareWithSchema(event, described ?? describe(event));
    if (rowsOfShapes.size >= SHAPES_MAX) rowsOfShapes.clear();
    rowsOfShapes.set(key, found);
    return found;
  }

  return {
    observe(event, described) {
      const nowMs = event.fetchedAtMs;
      for (const row of rowsOf(event, described)) {
        row.count++;
        row.changed = true;
        row.firstSeenMs = Math.min(row.firstSeenMs, nowMs);
        row.lastSeenMs = Math.max(row.lastSeenMs, nowMs);
      }
    },
    flush() {
      const changed = [...rows.values()].filter((row) => row.changed);
      for (const row of changed) row.changed = false;
      return changed.map(plain);
    },
    load(stored) {
      rowsOfShapes.clear();
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

function plain({ service, kind, path, detail, firstSeenMs, lastSeenMs, count }: Counter): DriftRow {
  return { service, kind, path, detail, firstSeenMs, lastSeenMs, count };
}

interface Found {
  field(path: string): unknown;
  type(path: string, detail: string): unknown;
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

/** A name as people name fields, else "*": keys can be addresses, ids and other people's data. */
function safeName(name: string): string {
  return NAME.test(name) && !LOOKS_LIKE_DATA.test(name) ? name : "*";
}
