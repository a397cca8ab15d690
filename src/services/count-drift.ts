import type { Drift, DriftRow } from "../core/drift.ts";
import type { JournalEvent } from "../core/event.ts";
import { type Described, isFields } from "../core/meaning.ts";
import { describe, serviceOf, services } from "./index.ts";
import { type JsonType, type Shape, shapeOf } from "./schema-shape.ts";

const ROWS_MAX = 2000;
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
 */
export function createDrift(rowsMax = ROWS_MAX, lostClass?: LostClass): Drift {
  const shapes = new Map(services.map((service) => [service.name, shapeOf(service.event)]));
  const known = new Map(services.map((service) => [service.name, new Set(service.eventTypes)]));
  const rows = new Map<string, Counter>();
  let sequence = 0;

  function count(kind: DriftRow["kind"], service: string, path: string, detail: string, nowMs: number): void {
    const key = `${service}\0${kind}\0${path}\0${detail}`;
    let row = rows.get(key);
    if (row === undefined) {
      if (rows.size >= rowsMax && service !== OTHERS) {
        count(kind, OTHERS, "*", "", nowMs);
        return;
      }
      row = newCounter({ service, kind, path, detail }, nowMs);
      rows.set(key, row);
    }
    if (row.sequence === sequence) return;
    row.sequence = sequence;
    row.count++;
    row.changed = true;
    row.firstSeenMs = Math.min(row.firstSeenMs, nowMs);
    row.lastSeenMs = Math.max(row.lastSeenMs, nowMs);
  }

  function countLostClass(event: JournalEvent, service: string, fields: readonly string[]): void {
    if (fields.length === 0 || lostClass === undefined) return;
    const lost = lostClass(event, describe(event));
    if (lost === undefined) return;
    const detail = `${safeName(event.eventType)}: ${lost}`;
    for (const field of fields) count("class", service, field, detail, event.fetchedAtMs);
  }

  return {
    observe(event, described = describe(event)) {
      sequence++;
      const nowMs = event.fetchedAtMs;
      const service = serviceOf(event.service);
      const name = described.service === "fallback" ? safeName(event.service || "unknown") : service.name;
      const type = event.eventType;
      if (type !== "" && !known.get(service.name)!.has(type))
        count("event_type", name, safeName(type), "", nowMs);
      if (described.unreadable) {
        count("type", name, "", "object, not text", nowMs);
        return;
      }
      const fields: string[] = [];
      compare(described.event, shapes.get(described.service)!, "", 0, {
        field: (path) => {
          fields.push(path);
          count("field", name, path, "", nowMs);
        },
        type: (path, detail) => count("type", name, path, detail, nowMs),
      });
      countLostClass(event, name, fields);
    },
    flush() {
      const changed = [...rows.values()].filter((row) => row.changed);
      for (const row of changed) row.changed = false;
      return changed.map(plain);
    },
    load(stored) {
      for (const row of stored) {
        const key = `${row.service}\0${row.kind}\0${row.path}\0${row.detail}`;
        rows.set(key, { ...row, changed: false, sequence: 0 });
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
  /** The last event that was counted here. */
  sequence: number;
}

function newCounter(row: Pick<DriftRow, "service" | "kind" | "path" | "detail">, nowMs: number): Counter {
  return { ...row, firstSeenMs: nowMs, lastSeenMs: nowMs, count: 0, changed: true, sequence: 0 };
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
