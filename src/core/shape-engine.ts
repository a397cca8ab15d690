import { randomBytes } from "node:crypto";
import type { Allocate } from "./buffer-pool.ts";
import { createRecordCollector, type RecordsMade } from "./event-records.ts";
import { makeLines } from "./page-body.ts";
import type { EventRecords } from "./page-slice.ts";
import type { Reads } from "./reads.ts";
import { openRecipeModule, RECIPE_SEED } from "./recipe-module.ts";
import { type ScannedPage, STRIDE } from "./scanner.ts";

/**
 * Finds the shapes and the answers of events in WebAssembly; wasm/recipe/walk.ts says what these are. New ones get
 * a number from 1 on.
 */
export interface ShapeEngine {
  readonly bytesMax: number;
  readonly eventsMax: number;
  /**
   * Ensures that there are numbers for so many events, at most EVENTS_NUMBERED_MAX. Gives the name of the numbering:
   * when there are too many numbers, all are forgotten and another one begins.
   */
  reserve(events: number): string;
  /** Reads lines, at most `eventsMax` of them in at most `bytesMax` bytes. The numbers are valid until the next call. */
  read(lines: Uint8Array): Numbers;
  /** Takes the records of so many events. */
  collect(events: number, allocate: Allocate): RecordsMade;
  /** As `read` for events of a page. `addTo` takes their records. */
  readPage(scanned: ScannedPage, from: number, to: number, addTo?: RecordsMade): Numbers;
}

/** For each event. UNNUMBERED: it is nested very deeply, has very many members or is very long. */
export interface Numbers {
  readonly shapes: Int32Array;
  readonly answers: Int32Array;
}

/** Numbers of one numbering have a meaning together only. */
export interface NumberedShapes extends Numbers {
  readonly numbering: string;
  readonly records?: EventRecords | undefined;
}

export const UNNUMBERED = -1;
/** Of one numbering. wasm/recipe/memory.ts has a third more slots for each of the two. */
export const NUMBERS_MAX = 49_152;
export const EVENTS_NUMBERED_MAX = NUMBERS_MAX / 4;

export function createShapeEngine(reads: Reads, seed = RECIPE_SEED): ShapeEngine {
  const { call, grow } = openRecipeModule(reads, seed);
  const { bytes, numbers } = grow(call.HEAP.value);
  const text = call.TEXT.value;
  const [shapes, answers] = [call.SHAPE_NUMBERS.value >> 2, call.ANSWER_NUMBERS.value >> 2];
  const [rows, places] = [call.ROWS.value >> 2, call.PLACES.value >> 2];
  let name = newName();

  function numbersOf(count: number): Numbers {
    return {
      shapes: numbers.subarray(shapes, shapes + count),
      answers: numbers.subarray(answers, answers + count),
    };
  }

  return {
    bytesMax: call.TEXT_BYTES.value,
    collect: createRecordCollector(seed),
    eventsMax: call.SHAPES_MAX.value,
    reserve(events) {
      if (call.lastNumber() + 2 * events > NUMBERS_MAX) {
        call.clearShapes();
        name = newName();
      }
      return name;
    },
    read(lines) {
      bytes.set(lines, text);
      return numbersOf(call.readShapes(lines.length));
    },
    readPage({ bytes: page, columns, runs }, from, to, addTo) {
      const count = to - from;
      const start = columns[from * STRIDE]!;
      bytes.set(page.subarray(start, columns[(to - 1) * STRIDE + 1]!), text);
      numbers.set(columns.subarray(from * STRIDE, to * STRIDE), rows);
      bytes.set(runs.subarray(from, to), call.RUNS.value);
      call.readRows(count, start, addTo === undefined ? 0 : 1);
      const ends = numbers.subarray(places, places + count + 1);
      addTo?.add(bytes.subarray(call.OUT.value, call.OUT.value + ends[count]!), ends);
      return numbersOf(count);
    },
  };
}

/** Different in every engine of every thread. */
function newName(): string {
  return randomBytes(8).toString("hex");
}

/** The numbers of all events of a page, and their records if these are used. Undefined where it cannot be lines, or is too large. */
export function numberShapes(
  engine: ShapeEngine,
  scanned: ScannedPage,
  allocate: Allocate,
  wantsRecords = false,
): NumberedShapes | undefined {
  const { columns, count } = scanned;
  if (count > EVENTS_NUMBERED_MAX || !makeLines(scanned)) return undefined;
  const numbering = engine.reserve(count);
  const shapes = allocate(Int32Array, count).fill(UNNUMBERED);
  const answers = allocate(Int32Array, count).fill(UNNUMBERED);
  const records = wantsRecords ? engine.collect(count, allocate) : undefined;
  const endOf = (index: number) => columns[index * STRIDE + 1]! + 1;
  for (let from = 0, to: number; from < count; from = to) {
    const start = columns[from * STRIDE]!;
    to = from;
    while (to < count && to - from < engine.eventsMax && endOf(to) - start <= engine.bytesMax) to++;
    if (to === from) {
      records?.skip();
      to++;
      continue;
    }
    const read = engine.readPage(scanned, from, to, records);
    shapes.set(read.shapes, from);
    answers.set(read.answers, from);
  }
  return { numbering, shapes, answers, records: records?.done() };
}
