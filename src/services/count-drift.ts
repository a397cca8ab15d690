import type { Drift, DriftRow } from "../core/drift.ts";
import type { JournalEvent } from "../core/event.ts";
import type { JournalPage, Lines } from "../core/journal.ts";
import type { Described } from "../core/meaning.ts";
import { createShapeEngine } from "../core/shape-engine.ts";
import { compare, safeName } from "./compare-schema.ts";
import { fallback } from "./fallback.ts";
import { describe, serviceOf, services } from "./index.ts";
import { parseEvent } from "./parse.ts";
import { reads } from "./read/read-paths.ts";
import { shapeOf } from "./schema-shape.ts";

const ROWS_MAX = 2000;
/** Shapes, answers and fingerprints that are remembered. When there are more, all are forgotten. */
const REMEMBERED_MAX = 16_384;
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
 * The differences of an event depend on its shape, so they are found once for each shape. Its class depends on its
 * answers, or where its changes decide, on its fingerprint; it is found once for each of these. So most events are
 * not parsed: 2 to 3 µs instead of 30.
 */
export function createDrift(rowsMax = ROWS_MAX, lostClass?: LostClass): Drift {
  const schemas = new Map(services.map((service) => [service.name, shapeOf(service.event)]));
  const eventTypes = new Map(services.map((service) => [service.name, new Set(service.eventTypes)]));
  const rows = new Map<string, Counter>();
  const engine = createShapeEngine(reads);
  /** By the numbers that the engine has for them, from 1 on. */
  let shapes: Shape[] = [NO_SHAPE];
  /** The lost class of events with the same answers. */
  let answers: (string | undefined)[] = [undefined];
  const byFingerprint = new Map<string, string | undefined>();
  /** How many of the events that are counted together have each shape. */
  const tally = new Int32Array(REMEMBERED_MAX + 1);

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
    const parsed = parseEvent(event.bytes);
    const service = parsed.unreadable ? fallback : serviceOf(event.service);
    const name = service === fallback ? safeName(event.service || "unknown") : service.name;
    const type = event.eventType;
    if (type !== "" && !eventTypes.get(serviceOf(event.service).name)!.has(type))
      found.add(rowFor("event_type", name, safeName(type), ""));
    if (parsed.unreadable) found.add(rowFor("type", name, "", "object, not text"));
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
      changesDecide: Array.isArray(parsed.event.changes) && changesDecide(type),
    };
  }

  /** Finds the shape of the event that the engine read last. */
  function addShape(event: JournalEvent): Shape {
    const shape = compareWithSchema(event);
    if (shapes.length > REMEMBERED_MAX) forget();
    engine.addShape(shapes.push(shape) - 1);
    return shape;
  }

  /** Finds the class of the event that the engine read last, if its changes do not decide. */
  function addAnswers(event: JournalEvent): string | undefined {
    const lost = lostClass?.(event, describe(event));
    if (answers.length > REMEMBERED_MAX) forget();
    engine.addAnswers(answers.push(lost) - 1);
    return lost;
  }

  function forget(): void {
    engine.clear();
    shapes = [NO_SHAPE];
    answers = [undefined];
  }

  function lostByFingerprint(event: JournalEvent): string | undefined {
    const key = engine.fingerprintOf(event.bytes);
    if (key === undefined) return lostClass?.(event, describe(event));
    if (!byFingerprint.has(key)) {
      if (byFingerprint.size >= REMEMBERED_MAX) byFingerprint.clear();
      byFingerprint.set(key, lostClass?.(event, describe(event)));
    }
    return byFingerprint.get(key);
  }

  function countLost({ service, type, fields }: Shape, lost: string | undefined, nowMs: number): void {
    if (lost === undefined) return;
    const rows = new Set(fields.map((field) => rowFor("class", service, field, `${type}: ${lost}`)));
    countAll([...rows], nowMs, 1);
  }

  /** Counts an event that is of a new shape, has new answers, or is read alone. */
  function observe(event: JournalEvent): void {
    const isRead = event.bytes.length <= engine.bytesMax;
    const numbers = isRead ? engine.read(event.bytes) : undefined;
    const [number, answer] = [numbers?.shapes[0] ?? NONE, numbers?.answers[0] ?? NONE];
    const shape =
      number === NONE ? compareWithSchema(event) : number === 0 ? addShape(event) : shapes[number]!;
    countAll(shape.rows, event.fetchedAtMs, 1);
    countLost(shape, lostOf(event, shape, answer), event.fetchedAtMs);
  }

  function lostOf(event: JournalEvent, shape: Shape, answer: number): string | undefined {
    if (lostClass === undefined || shape.fields.length === 0) return undefined;
    if (answer === NONE) return lostClass(event, describe(event));
    if (shape.changesDecide) return lostByFingerprint(event);
    return answer === 0 ? addAnswers(event) : answers[answer];
  }

  /** Counts events of known shapes together, and all others one by one. */
  function observeLines(lines: Lines, from: number, to: number): void {
    const read = engine.read(lines.bytes(from, to));
    const [numbers, given] = [read.shapes.slice(), read.answers.slice()];
    const nowMs = lines.fetchedAtMs;
    const alone: number[] = [];
    const seen: number[] = [];
    for (let at = 0; at < numbers.length; at++) {
      const number = numbers[at]!;
      const shape = number > 0 ? shapes[number]! : undefined;
      const isPlain = shape !== undefined && (shape.fields.length === 0 || lostClass === undefined);
      const isKnown = isPlain || (shape !== undefined && !shape.changesDecide && given[at]! > 0);
      if (!isKnown) alone.push(at);
      else {
        if (tally[number]!++ === 0) seen.push(number);
        if (!isPlain) countLost(shape, answers[given[at]!], nowMs);
      }
    }
    for (const number of seen) {
      countAll(shapes[number]!.rows, nowMs, tally[number]!);
      tally[number] = 0;
    }
    for (const at of alone) observe(lines.event(from + at));
  }

  return {
    observe,
    observePage(page, from, to) {
      const { lines } = page;
      for (let at = from; at < to; ) {
        const end = Math.min(to, at + EVENTS_AT_ONCE);
        if (lines === undefined || lines.size(at, end) > engine.bytesMax) observeEach(page, at, end);
        else observeLines(lines, at, end);
        at = end;
      }
    },
    flush() {
      const changed = [...rows.values()].filter((row) => row.changed);
      for (const row of changed) row.changed = false;
      return changed.map(plain);
    },
    load(stored) {
      forget();
      byFingerprint.clear();
      for (const row of stored) {
        const key = `${row.service}\0${row.kind}\0${row.path}\0${row.detail}`;
        rows.set(key, { ...row, changed: false });
      }
    },
    rows: () => [...rows.values()].map(plain).sort((a, b) => b.count - a.count),
  };

  function observeEach(page: JournalPage, from: number, to: number): void {
    for (let index = from; index < to; index++) observe(page.event(index));
  }
}

/** The number of an event that has no shape and no answers. */
const NONE = -1;
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
  /** Whether the class of its events depends on their changes. */
  readonly changesDecide: boolean;
}

const NO_SHAPE: Shape = { service: "", type: "", rows: [], fields: [], changesDecide: false };

function changesDecide(eventType: string): boolean {
  return reads.changes.typeWords.some((word) => eventType.includes(word));
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
