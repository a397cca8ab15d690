import { randomBytes } from "node:crypto";
import type { Allocate } from "./buffer-pool.ts";
import { makeLines } from "./page-body.ts";
import type { Reads } from "./reads.ts";
import { openRecipeModule } from "./recipe-module.ts";
import { type ScannedPage, STRIDE } from "./scanner.ts";

/**
 * Finds the shapes and the answers of events in WebAssembly; wasm/recipe/shape.ts says what these are. New ones get
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
}

/** For each event. UNNUMBERED: it is nested very deeply, has very many members or is very long. */
export interface Numbers {
  readonly shapes: Int32Array;
  readonly answers: Int32Array;
}

/** Numbers of one numbering have a meaning together only. */
export interface NumberedShapes extends Numbers {
  readonly numbering: string;
}

export const UNNUMBERED = -1;
/** Of one numbering. wasm/recipe/memory.ts has a third more slots for each of the two. */
export const NUMBERS_MAX = 49_152;
export const EVENTS_NUMBERED_MAX = NUMBERS_MAX / 4;

export function createShapeEngine(reads: Reads): ShapeEngine {
  const { call, grow } = openRecipeModule(reads);
  const { bytes, numbers } = grow(call.HEAP.value);
  const text = call.TEXT.value;
  const [shapes, answers] = [call.SHAPE_NUMBERS.value >> 2, call.ANSWER_NUMBERS.value >> 2];
  let name = newName();
  return {
    bytesMax: call.TEXT_BYTES.value,
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
      const count = call.readShapes(lines.length);
      return {
        shapes: numbers.subarray(shapes, shapes + count),
        answers: numbers.subarray(answers, answers + count),
      };
    },
  };
}

/** Different in every engine of every thread. */
function newName(): string {
  return randomBytes(8).toString("hex");
}

/** The numbers of all events of a page. Undefined where it cannot be lines, or is too large. */
export function numberShapes(
  engine: ShapeEngine,
  scanned: ScannedPage,
  allocate: Allocate,
): NumberedShapes | undefined {
  const { bytes, columns, count } = scanned;
  if (count > EVENTS_NUMBERED_MAX || !makeLines(scanned)) return undefined;
  const numbering = engine.reserve(count);
  const shapes = allocate(Int32Array, count).fill(UNNUMBERED);
  const answers = allocate(Int32Array, count).fill(UNNUMBERED);
  const endOf = (index: number) => columns[index * STRIDE + 1]! + 1;
  for (let from = 0, to: number; from < count; from = Math.max(to, from + 1)) {
    const start = columns[from * STRIDE]!;
    to = from;
    while (to < count && to - from < engine.eventsMax && endOf(to) - start <= engine.bytesMax) to++;
    if (to === from) continue;
    const read = engine.read(bytes.subarray(start, endOf(to - 1)));
    shapes.set(read.shapes, from);
    answers.set(read.answers, from);
  }
  return { numbering, shapes, answers };
}
