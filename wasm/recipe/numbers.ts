/*
 * Numbers for the shapes and answers of events. Many events are read at once: src/core/shape-engine.ts is the caller.
 */
import { hash } from "./answers";
import {
  ANSWER_NUMBERS,
  ANSWERS,
  PADDING_BYTES,
  SHAPE_NUMBERS,
  SHAPE_SLOTS,
  SHAPES,
  SHAPES_MAX,
  TEXT,
} from "./memory";
import { readShape, shape } from "./shape";

/** The number of an event without a shape: it is nested too deeply or has too many members. */
const NONE: i32 = -1;

/**
 * Reads the lines of so many bytes in TEXT and gives how many. The numbers of each one's shape and answers are in
 * SHAPE_NUMBERS and ANSWER_NUMBERS.
 */
export function readShapes(length: i32): i32 {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  const end = TEXT + length;
  let count = 0;
  for (let at = TEXT; at < end && count < SHAPES_MAX; count++) {
    const after = readShape(at);
    store<i32>(SHAPE_NUMBERS + count * 4, after == 0 ? NONE : numberOf(SHAPES, shape));
    store<i32>(ANSWER_NUMBERS + count * 4, after == 0 ? NONE : numberOf(ANSWERS, hash));
    at = endOfLine(after == 0 ? at : after, end) + 1;
  }
  return count;
}

/** The last number that was given. Shapes and answers are numbered together, from 1 on. */
export function lastNumber(): i32 {
  return last;
}

export function clearShapes(): void {
  memory.fill(SHAPES, 0, SHAPE_SLOTS * 16);
  memory.fill(ANSWERS, 0, SHAPE_SLOTS * 16);
  last = 0;
}

let last: i32 = 0;

/** A new key gets the next number. */
function numberOf(table: usize, key: u64): i32 {
  let slot = <i32>key & (SHAPE_SLOTS - 1);
  while (true) {
    const number = load<i32>(table + slot * 16, 8);
    if (number == 0) break;
    if (load<u64>(table + slot * 16) == key) return number;
    slot = (slot + 1) & (SHAPE_SLOTS - 1);
  }
  store<u64>(table + slot * 16, key);
  store<i32>(table + slot * 16, ++last, 8);
  return last;
}

function endOfLine(from: usize, end: usize): usize {
  let at = from;
  while (at < end) {
    const found = i8x16.bitmask(i8x16.eq(v128.load(at), i8x16.splat(0x0a)));
    if (found != 0) return at + ctz(found);
    at += 16;
  }
  return end;
}
