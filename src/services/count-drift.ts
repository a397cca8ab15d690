import { costly } from "../core/costly.ts";
import type { Drift, DriftRow } from "../core/drift.ts";
import type { JournalEvent } from "../core/event.ts";
import type { JournalPage, Lines } from "../core/journal.ts";
import type { Described } from "../core/meaning.ts";
import { createShapeEngine, NUMBERS_MAX, type NumberedShapes, UNNUMBERED } from "../core/shape-engine.ts";
import { compare, safeName } from "./compare-schema.ts";
import { fallback } from "./fallback.ts";
import { describe, serviceOf, services } from "./index.ts";
import { parseEvent } from "./parse.ts";
import { reads } from "./read/read-paths.ts";
import { shapeOf } from "./schema-shape.ts";

const ROWS_MAX = 2000;
/** That of the page thread and the own one, and one more of each when it begins anew. */
const NUMBERINGS_MAX = 4;
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
  /** For events that the page thread has not numbered: those of small pages, and of pages from disk. */
  const engine = createShapeEngine(reads);
  const numberings = new Map<string, Numbering>();
  /** How many of the events that are counted together have each shape. */
  const tally = new Int32Array(NUMBERS_MAX + 1);

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
    };
  }

  function numberingOf(name: string): Numbering {
    const known = numberings.get(name);
    if (known !== undefined) return known;
    for (const oldest of numberings.keys()) if (numberings.size >= NUMBERINGS_MAX) numberings.delete(oldest);
    const numbering: Numbering = { shapes: [], lost: [] };
    numberings.set(name, numbering);
    return numbering;
  }

  function countLost({ service, type, fields }: Shape, lost: string | undefined, nowMs: number): void {
    if (lost === undefined) return;
    const rows = new Set(fields.map((field) => rowFor("class", service, field, `${type}: ${lost}`)));
    countAll([...rows], nowMs, 1);
  }

  function observe(event: JournalEvent): void {
    const { bytes } = event;
    const isRead = bytes.length <= engine.bytesMax;
    const numbering = numberingOf(engine.reserve(1));
    const numbers = isRead ? engine.read(bytes) : undefined;
    observeNumbered(event, numbering, numbers?.shapes[0] ?? UNNUMBERED, numbers?.answers[0] ?? UNNUMBERED);
  }

  /** Counts an event that is of a new shape, has new answers, or has to be read alone. */
  function observeNumbered(event: JournalEvent, numbering: Numbering, number: number, answer: number): void {
    const shape = numbering.shapes[number] ?? compareWithSchema(event);
    if (number !== UNNUMBERED) numbering.shapes[number] = shape;
    countAll(shape.rows, event.fetchedAtMs, 1);
    countLost(shape, lostOf(event, shape, numbering, answer), event.fetchedAtMs);
  }

  function lostOf(
    event: JournalEvent,
    shape: Shape,
    { lost }: Numbering,
    answer: number,
  ): string | undefined {
    if (lostClass === undefined || shape.fields.length === 0) return undefined;
    if (answer === UNNUMBERED) return lostClass(event, describe(event));
    const known = lost[answer];
    if (known !== undefined) return known ?? undefined;
    const found = lostClass(event, describe(event));
    lost[answer] = found ?? null;
    return found;
  }

  /** Counts events of known shapes together, and all others one by one. */
  function observeLines(lines: Lines, from: number, to: number, numbered: NumberedShapes): void {
    const numbering = numberingOf(numbered.numbering);
    const nowMs = lines.fetchedAtMs;
    const alone: number[] = [];
    const seen: number[] = [];
    for (let at = 0; at < to - from; at++) {
      const number = numbered.shapes[at]!;
      const shape = numbering.shapes[number];
      const isPlain = shape !== undefined && (shape.fields.length === 0 || lostClass === undefined);
      const lost = isPlain ? null : numbering.lost[numbered.answers[at]!];
      const isKnown = isPlain || (shape !== undefined && lost !== undefined);
      if (!isKnown) alone.push(at);
      else {
        if (tally[number]!++ === 0) seen.push(number);
        if (!isPlain) countLost(shape, lost ?? undefined, nowMs);
      }
    }
    for (const number of seen) {
      countAll(numbering.shapes[number]!.rows, nowMs, tally[number]!);
      tally[number] = 0;
    }
    for (const at of alone)
      observeNumbered(lines.event(from + at), numbering, numbered.shapes[at]!, numbered.answers[at]!);
  }

  /** Numbered by the page thread, or here. Undefined where the lines do not fit into the engine. */
  function numbersOf(lines: Lines, from: number, to: number): NumberedShapes | undefined {
    const given = lines.shapes?.(from, to);
    if (given !== undefined) return given;
    if (lines.size(from, to) > engine.bytesMax) return undefined;
    return { numbering: engine.reserve(to - from), ...engine.read(lines.bytes(from, to)) };
  }

  return {
    observe,
    observePage(page, from, to) {
      const { lines } = page;
      for (let at = from; at < to; ) {
        const end = Math.min(to, at + EVENTS_AT_ONCE);
        const numbered = lines && numbersOf(lines, at, end);
        if (lines === undefined || numbered === undefined) observeEach(page, at, end);
        else observeLines(lines, at, end, numbered);
        at = end;
      }
    },
    flush() {
      const changed = [...rows.values()].filter((row) => row.changed);
      for (const row of changed) row.changed = false;
      return changed.map(plain);
    },
    load(stored) {
      numberings.clear();
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
}

/** By the numbers of one numbering. */
interface Numbering {
  readonly shapes: Shape[];
  /** The lost class of events with the same answers; null where they lost none. */
  readonly lost: (string | null)[];
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
