/*
 * Numbers for the shapes and answers of events. Many events are read at once: src/core/shape-engine.ts is the caller.
 */
import { hash } from "./answers";
import { groupCount, variant } from "./groups";
import { mix } from "./hash";
import { isCanonical } from "./loose";
import {
  ANSWER_NUMBERS,
  ANSWERS,
  OUT,
  OUT_BYTES,
  PADDING_BYTES,
  PLACES,
  ROW_NUMBERS,
  ROWS,
  RUNS,
  SHAPE_NUMBERS,
  SHAPE_SLOTS,
  SHAPES,
  SHAPES_MAX,
  TEXT,
} from "./memory";
import { RECORD_BYTES_MAX, writeRecord } from "./records";
import { shape } from "./shape";
import { forgetOrganization, setOrganization } from "./specials";
import { readEvent } from "./walk";

/** The number of an event without a shape: it is nested too deeply or has too many members. */
const NONE: i32 = -1;

/**
 * Reads the lines of so many bytes in TEXT and gives how many. The numbers of each one's shape and answers are in
 * SHAPE_NUMBERS and ANSWER_NUMBERS.
 */
export function readShapes(length: i32): i32 {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  forgetOrganization();
  const end = TEXT + length;
  let count = 0;
  for (let at = TEXT; at < end && count < SHAPES_MAX; count++) {
    const after = readNumbers(at, count);
    at = endOfLine(after == 0 ? at : after, end) + 1;
  }
  return count;
}

/**
 * The same for so many events with rows. Their texts are in TEXT, where the first byte is byte `base` of their page.
 * With `wantsRecords`, records of those that may be converted by copying are made in OUT; their places are in PLACES.
 */
export function readRows(count: i32, base: i32, wantsRecords: bool): void {
  const text = TEXT - base;
  const last = ROWS + (count - 1) * ROW_NUMBERS * 4;
  memory.fill(TEXT + load<i32>(last, 4) - base, 0, PADDING_BYTES);
  let organizationLength: i32 = 0;
  let record = OUT;
  for (let index = 0; index < count; index++) {
    const row = ROWS + index * ROW_NUMBERS * 4;
    if (index == 0 || load<u8>(RUNS + index) == 0) {
      organizationLength = setOrganization(row, text, 0);
      if (organizationLength < 0) forgetOrganization();
    }
    const start = text + load<i32>(row);
    const after = readNumbers(start, index);
    store<i32>(PLACES + index * 4, <i32>(record - OUT));
    // The organization of an event that names none is not known here.
    const isKnown = organizationLength > 0 && isCanonical && after == text + load<i32>(row, 4);
    if (wantsRecords && isKnown && record + RECORD_BYTES_MAX <= OUT + OUT_BYTES) record = writeRecord(record, start);
  }
  store<i32>(PLACES + count * 4, <i32>(record - OUT));
}

/** Reads the event at `start`; gives the place behind it, or 0. */
function readNumbers(start: usize, index: i32): usize {
  const after = readEvent(start);
  store<i32>(SHAPE_NUMBERS + index * 4, after == 0 ? NONE : numberOf(SHAPES, shape));
  store<i32>(ANSWER_NUMBERS + index * 4, after == 0 ? NONE : numberOf(ANSWERS, answers()));
  return after;
}

function answers(): u64 {
  return groupCount() == 0 ? hash : mix(hash, variant);
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
