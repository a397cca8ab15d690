import { costly } from "../core/costly.ts";
import type { Drift, DriftRow } from "../core/drift.ts";
import type { JournalEvent } from "../core/event.ts";
import type { JournalPage } from "../core/journal.ts";
import type { Described } from "../core/meaning.ts";
import { createRecordEngine, type RecordEngine } from "../core/record-engine.ts";
import { ScanError, scanLines } from "../core/scanner.ts";
import { compare, safeName } from "./compare-schema.ts";
import { fallback } from "./fallback.ts";
import { createHashTable } from "./hash-table.ts";
import { describe, serviceOf, services } from "./index.ts";
import { parseEvent } from "./parse.ts";
import { reads } from "./read/read-paths.ts";
import { shapeOf } from "./schema-shape.ts";

const ROWS_MAX = 2000;
/** When there are more, all are forgotten, and found again. */
const KNOWN_MAX = 50_000;
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
 * The differences of an event depend on its shape and its class on its answers, so both are found once for each of
 * these. Most events are not parsed.
 */
export function createDrift(rowsMax = ROWS_MAX, lostClass?: LostClass): Drift {
  const schemas = new Map(services.map((service) => [service.name, shapeOf(service.event)]));
  const eventTypes = new Map(services.map((service) => [service.name, new Set(service.eventTypes)]));
  const rows = new Map<string, Counter>();
  let madeEngine: RecordEngine | undefined;
  const shapes = createHashTable<Shape>(KNOWN_MAX);
  /** The lost class of events with the same answers; null where they lost none. */
  const lostClasses = createHashTable<string | null>(KNOWN_MAX);

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

  function compareWithSchema(event: JournalEvent): Shape {
    const found = new Set<Counter>();
    const fields = new Set<string>();
    const isCostly = costly(event.bytes);
    // The text of a costly one is not needed here.
    const parsed = isCostly ? { event: {}, unreadable: isCostly } : parseEvent(event.bytes);
    const service = parsed.unreadable ? fallback : serviceOf(event.service);
    const name = service === fallback ? safeName(event.service || "unknown") : service.name;
    const type = event.eventType;
    if (type !== "" && !eventTypes.get(serviceOf(event.service).name)!.has(type))
      found.add(rowFor("event_type", name, safeName(type), ""));
    if (parsed.unreadable) found.add(rowFor("type", name, "", `object, not ${parsed.unreadable}`));
    else
      compare(parsed.event, schemas.get(service.name)!, "", 0, {
        field(path) {
          fields.add(path);
          found.add(rowFor("field", name, path, ""));
        },
        type: (path, detail) => found.add(rowFor("type", name, path, detail)),
      });
    return {
      service: name,
      type: safeName(type),
      rows: [...found],
      fields: [...fields],
      pending: 0,
    };
  }

  function foundShape(event: JournalEvent, hashes: Int32Array, index: number): Shape {
    const found = compareWithSchema(event);
    shapes.set(hashes, index, found);
    return found;
  }

  function lostOf(event: JournalEvent, lost: LostClass, hashes?: Int32Array, index = 0): string | null {
    const found = lost(event, describe(event)) ?? null;
    if (hashes !== undefined) lostClasses.set(hashes, index, found);
    return found;
  }

  function countLost({ service, type, fields }: Shape, lost: string, nowMs: number): void {
    const rows = new Set(fields.map((field) => rowFor("class", service, field, `${type}: ${lost}`)));
    countAll([...rows], nowMs, 1);
  }

  function engine(): RecordEngine {
    madeEngine ??= createRecordEngine(reads);
    return madeEngine;
  }

  /** Those of neighbours are found together, where they fit into the engine. */
  function answersOf({ lines }: JournalPage, from: number, to: number): Int32Array | undefined {
    if (lines === undefined) return undefined;
    const given = lines.answers?.(from, to);
    if (given !== undefined || lines.size(from, to) > engine().bytesMax) return given;
    return engine().answers(lines.bytes(from, to));
  }

  /** Events of a shape are counted together. */
  function observeSome(page: JournalPage, from: number, to: number): void {
    const hashes = page.shapes(from, to);
    const { fetchedAtMs } = page.event(from);
    const seen: Shape[] = [];
    const all: Shape[] = [];
    for (let index = 0; index < to - from; index++) {
      const shape = shapes.get(hashes, index) ?? foundShape(page.event(from + index), hashes, index);
      if (shape.pending++ === 0) seen.push(shape);
      all.push(shape);
    }
    for (const shape of seen) {
      countAll(shape.rows, fetchedAtMs, shape.pending);
      shape.pending = 0;
    }
    if (lostClass === undefined || all.every(({ fields }) => fields.length === 0)) return;
    const answers = answersOf(page, from, to);
    all.forEach((shape, index) => {
      if (shape.fields.length === 0) return;
      const known = answers && lostClasses.get(answers, index);
      const lost = known === undefined ? lostOf(page.event(from + index), lostClass, answers, index) : known;
      if (lost !== null) countLost(shape, lost, fetchedAtMs);
    });
  }

  return {
    observe(event) {
      const hashes = shapeOfOne(event);
      const shape =
        hashes === undefined
          ? compareWithSchema(event)
          : (shapes.get(hashes, 0) ?? foundShape(event, hashes, 0));
      countAll(shape.rows, event.fetchedAtMs, 1);
      if (lostClass === undefined || shape.fields.length === 0) return;
      const lost = lostOf(event, lostClass);
      if (lost !== null) countLost(shape, lost, event.fetchedAtMs);
    },
    observePage(page, from, to) {
      for (let at = from; at < to; at += EVENTS_AT_ONCE)
        observeSome(page, at, Math.min(to, at + EVENTS_AT_ONCE));
    },
    flush() {
      const changed = [...rows.values()].filter((row) => row.changed);
      for (const row of changed) row.changed = false;
      return changed.map(plain);
    },
    load(stored) {
      shapes.clear();
      for (const row of stored) {
        const key = `${row.service}\0${row.kind}\0${row.path}\0${row.detail}`;
        rows.set(key, { ...row, changed: false });
      }
    },
    rows: () => [...rows.values()].map(plain).sort((a, b) => b.count - a.count),
  };
}

/** Undefined for bytes that are no JSON object. */
function shapeOfOne({ bytes }: JournalEvent): Int32Array | undefined {
  try {
    return scanLines(Buffer.from(bytes)).shapes;
  } catch (error) {
    if (error instanceof ScanError) return undefined;
    throw error;
  }
}

/** Half a megabyte of usual events, so that lines fit into the engine. */
const EVENTS_AT_ONCE = 250;

interface Counter extends DriftRow {
  lastSeenMs: number;
  firstSeenMs: number;
  count: number;
  changed: boolean;
}

/** What the events of a shape have in common. */
interface Shape {
  readonly service: string;
  readonly type: string;
  readonly rows: readonly Counter[];
  /** The new fields. */
  readonly fields: readonly string[];
  /** Events that are not counted yet. */
  pending: number;
}

function countAll(rows: readonly Counter[], nowMs: number, times: number): void {
  for (const row of rows) {
    row.count += times;
    row.changed = true;
    row.firstSeenMs = Math.min(row.firstSeenMs, nowMs);
    row.lastSeenMs = Math.max(row.lastSeenMs, nowMs);
  }
}

function plain({ service, kind, path, detail, firstSeenMs, lastSeenMs, count }: Counter): DriftRow {
  return { service, kind, path, detail, firstSeenMs, lastSeenMs, count };
}
