import type { Reads } from "./reads.ts";
import { openRecipeModule } from "./recipe-module.ts";

/**
 * Finds the shapes and the answers of events in WebAssembly; wasm/recipe/shape.ts says what these are. Both have
 * the numbers that the caller gives them. 0 is a new one, and -1 means that the event has none: it is nested very
 * deeply or has very many members.
 */
export interface ShapeEngine {
  readonly bytesMax: number;
  readonly eventsMax: number;
  /** Reads lines, at most `eventsMax` of them in at most `bytesMax` bytes. The numbers are valid until the next call. */
  read(lines: Uint8Array): Numbers;
  /** Gives the last event's new shape a number from 1 on. */
  addShape(number: number): void;
  addAnswers(number: number): void;
  /** Everything that converters read of an event and do not copy. Undefined where it has no fingerprint. */
  fingerprintOf(event: Uint8Array): string | undefined;
  clear(): void;
}

/** For each line. */
export interface Numbers {
  readonly shapes: Int32Array;
  readonly answers: Int32Array;
}

export function createShapeEngine(reads: Reads): ShapeEngine {
  const { call, grow } = openRecipeModule(reads);
  const { bytes, numbers } = grow(call.HEAP.value);
  const text = call.TEXT.value;
  const [shapes, answers] = [call.SHAPE_NUMBERS.value >> 2, call.ANSWER_NUMBERS.value >> 2];
  return {
    bytesMax: call.TEXT_BYTES.value,
    eventsMax: call.SHAPES_MAX.value,
    read(lines) {
      bytes.set(lines, text);
      const count = call.readShapes(lines.length);
      return {
        shapes: numbers.subarray(shapes, shapes + count),
        answers: numbers.subarray(answers, answers + count),
      };
    },
    addShape: (number) => call.addShape(number),
    addAnswers: (number) => call.addAnswers(number),
    fingerprintOf(event) {
      bytes.set(event, text);
      const isCanonical = call.convert(event.length, 0) >= 0;
      return isCanonical ? `${call.fingerprintHigh()}:${call.fingerprintLow()}` : undefined;
    },
    clear: () => call.clearShapes(),
  };
}
