import { type Allocate, allocateAnew } from "./buffer-pool.ts";
import { STRIDE } from "./page-scratch.ts";
import { numberMsOf, timestampMsOf } from "./time.ts";
import { type Engine, withEngine } from "./wasm-engine.ts";

/**
 * Cuts a page, the JSON text of an array of objects, into the exact slices of its events, and notes the places
 * of the few top-level fields that the program steers by. The whole text is checked against the JSON grammar, so
 * every slice can be parsed later. Nothing is decoded or copied.
 */
export interface ScannedPage {
  readonly bytes: Buffer;
  readonly count: number;
  /** Whether there is a line break anywhere in it; the grammar allows them between values alone. */
  readonly hasLineBreaks: boolean;
  /** `STRIDE` numbers an event: start and end of the event, then of each field's value; -1 where absent. */
  readonly columns: Int32Array;
  /** When each event happened, cut to milliseconds; NaN where it has no timestamp that can be read. */
  readonly timesMs: Float64Array;
  /** The shape of each event, two numbers, zeros for a very large one; wasm/shape.ts explains it. Threads of a process give the same ones. */
  readonly shapes: Int32Array;
  /** 1 for an event whose organization is known to be written as that of the event before. */
  readonly runs: Uint8Array;
  /** Whether the events are lines in `bytes`. Undefined until `makeLines` has looked. */
  areLines?: boolean;
}

export const FIELD = {
  id: 2,
  timestamp: 4,
  service: 6,
  eventType: 8,
  organization: 10,
  correlationId: 12,
} as const;
export type FieldColumn = (typeof FIELD)[keyof typeof FIELD];
export { STRIDE };

/** As in wasm/skip.ts. */
const DEPTH_MAX = 500;

/** The text is not a JSON array of objects; the message says what came instead, and where. */
export class ScanError extends Error {
  override readonly name = "ScanError";
}

/** More than any service puts into a page. */
export const EVENTS_MAX = 1_000_000;

export function scanPage(bytes: Buffer, eventsMax = EVENTS_MAX, allocate = allocateAnew): ScannedPage {
  return withEngine((engine) => {
    const scanned = scanWith(engine, bytes, eventsMax, allocate);
    engine.scratch.done(scanned.count);
    return scanned;
  });
}

/** Scans lines with one event each, none of which contains a line break. */
export function scanLines(bytes: Buffer, allocate = allocateAnew): ScannedPage {
  return withEngine((engine) => {
    const scanned = scanWith(engine, bytes, EVENTS_MAX, allocate, undefined, true);
    engine.scratch.done(scanned.count);
    return { ...scanned, hasLineBreaks: false };
  });
}

/** The parts of a page that exist while it is scanned. */
export type Scanning = Pick<ScannedPage, "bytes" | "columns" | "runs">;

/** Called with events while they are in the engine: the first is event `first`, the text starts at `base`. */
export type OnEvents = (scanning: Scanning, first: number, count: number, base: number) => void;

/** Scans stretch by stretch. An event that is cut off at the end of one is the first of the next. */
export function scanWith(
  engine: Engine,
  bytes: Buffer,
  eventsMax: number,
  allocate: Allocate,
  onEvents: OnEvents = () => {},
  isLines = false,
): ScannedPage {
  const { call } = engine;
  let count = 0;
  let at = 0;
  call.begin(isLines ? 1 : 0);
  for (;;) {
    const end = Math.min(bytes.length, at + engine.textBytesMax);
    engine.putText(bytes, at, end);
    const rows = call.scan(end - at, end === bytes.length ? 1 : 0, at);
    if (count + rows > eventsMax) throw new ScanError(`The array has more than ${eventsMax} elements.`);
    const { columns, timesMs, shapes, runs } = engine.scratch.forEvents(count + rows);
    columns.set(engine.memory.rows.subarray(0, rows * STRIDE), count * STRIDE);
    timesMs.set(engine.memory.timesMs.subarray(0, rows), count);
    shapes.set(engine.memory.shapes.subarray(0, 2 * rows), 2 * count);
    runs.set(engine.memory.runs.subarray(0, rows), count);
    count += rows;
    const failure = call.failureKind();
    if (failure !== 0) throw scanErrorOf(failure, bytes, at + call.failureOffset(), count);
    const consumed = call.consumedBytes();
    if (rows > 0) onEvents({ bytes, columns, runs }, count - rows, rows, at);
    at += consumed;
    if (at === bytes.length) break;
    // Nothing was consumed, so this event needs more memory, but no more than what is left of the text.
    if (consumed === 0) engine.grow(Math.min(engine.textBytesMax * 2, bytes.length - at));
  }
  const columns = allocate(Int32Array, count * STRIDE);
  const timesMs = allocate(Float64Array, count);
  const shapes = allocate(Int32Array, 2 * count);
  const runs = allocate(Uint8Array, count);
  const scratch = engine.scratch.forEvents(count);
  columns.set(scratch.columns.subarray(0, count * STRIDE));
  timesMs.set(scratch.timesMs.subarray(0, count));
  shapes.set(scratch.shapes.subarray(0, 2 * count));
  runs.set(scratch.runs.subarray(0, count));
  const page = { bytes, count, hasLineBreaks: call.hasLineBreaks() !== 0, columns, timesMs, shapes, runs };
  for (let index = 0; index < count; index++)
    if (Number.isNaN(timesMs[index]!)) timesMs[index] = readTimeMs(page, index);
  return page;
}

/** The timestamps that the engine does not read: with escapes, other separators, or a number. */
function readTimeMs(page: Pick<ScannedPage, "bytes" | "columns">, index: number): number {
  const text = fieldText(page, index, FIELD.timestamp) ?? "";
  return timestampMsOf(text) ?? numberMsOf(text) ?? Number.NaN;
}

/** The exact bytes of one event; shares the page's memory. */
export function eventBytes(page: Pick<ScannedPage, "bytes" | "columns">, index: number): Buffer {
  return page.bytes.subarray(page.columns[index * STRIDE]!, page.columns[index * STRIDE + 1]!);
}

export function eventSize({ columns }: Pick<ScannedPage, "columns">, index: number): number {
  return columns[index * STRIDE + 1]! - columns[index * STRIDE]!;
}

export function hasField({ columns }: ScannedPage, index: number, column: FieldColumn): boolean {
  return columns[index * STRIDE + column]! >= 0;
}

/** The value of a steering field: a string's text, a number's digits; undefined for null, absent and the rest. */
export function fieldText(
  page: Pick<ScannedPage, "bytes" | "columns">,
  index: number,
  column: FieldColumn,
): string | undefined {
  const start = page.columns[index * STRIDE + column]!;
  if (start < 0) return undefined;
  const end = page.columns[index * STRIDE + column + 1]!;
  const first = page.bytes[start]!;
  if (first === 0x22) return stringText(page.bytes, start, end);
  return first === 0x2d || (first >= 0x30 && first <= 0x39)
    ? page.bytes.toString("latin1", start, end)
    : undefined;
}

/** The event's timestamp cut to milliseconds; undefined where it has none that can be read. */
export function eventTimeMs({ timesMs }: ScannedPage, index: number): number | undefined {
  const timeMs = timesMs[index]!;
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

function stringText(bytes: Buffer, start: number, end: number): string {
  for (let at = start + 1; at < end - 1; at++) {
    if (bytes[at] === 0x5c) return JSON.parse(bytes.toString("utf8", start, end)) as string;
  }
  return bytes.toString("utf8", start + 1, end - 1);
}

/** What the scanner expected, by the numbers of wasm/skip.ts. A test compares both lists. */
const NOT_ARRAY = 1;
const NOT_OBJECT = 2;
const TOO_DEEP = 13;
const EXPECTED: Readonly<Record<number, string>> = {
  3: "a string",
  4: "the rest of a string",
  5: "an escape",
  6: "four hexadecimal digits",
  7: "a colon",
  8: "a value",
  9: "a comma or the end of the object",
  10: "a comma or the end of the value",
  11: "a comma or the end of the array",
  12: "the end of the text",
};

function scanErrorOf(failure: number, bytes: Buffer, at: number, count: number): ScanError {
  if (failure === NOT_ARRAY)
    return new ScanError(`The answer is not an array of events but ${what(bytes, at)}.`);
  if (failure === NOT_OBJECT)
    return new ScanError(`Element ${count} of the array is not an object but ${what(bytes, at)}.`);
  if (failure === TOO_DEEP)
    return new ScanError(`Values are nested more than ${DEPTH_MAX} deep at byte ${at}.`);
  const came = at >= bytes.length ? "the text ends" : `there is ${what(bytes, at)}`;
  return new ScanError(
    `The answer is not JSON: at byte ${at} of ${bytes.length} ${came} where ${EXPECTED[failure]} should be.`,
  );
}

/** Names the kind of value at a place, never its content. */
function what(bytes: Buffer, at: number): string {
  if (bytes.length === 0) return "empty";
  const byte = bytes[at];
  if (byte === undefined) return "nothing";
  if (byte === 0x7b) return "an object";
  if (byte === 0x5b) return "an array";
  if (byte === 0x22) return "a string";
  if (byte === 0x3c) return "markup (a proxy's error page?)";
  if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) return "a number";
  if (byte === 0x74 || byte === 0x66 || byte === 0x6e) return "a word";
  return `the byte 0x${byte.toString(16).padStart(2, "0")}`;
}
