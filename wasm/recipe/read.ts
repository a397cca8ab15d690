/*
 * The answers of many events at once, and records of what was found in them. src/core/record-engine.ts is the caller.
 */
import { mix } from "../hash";
import { hash } from "./answers";
import { groupCount, variant } from "./groups";
import { isCanonical } from "./loose";
import { ANSWERS, EVENTS_MAX, OUT, OUT_BYTES, PADDING_BYTES, PLACES, ROW_NUMBERS, ROWS, RUNS, TEXT } from "./memory";
import { RECORD_BYTES_MAX, writeRecord } from "./records";
import { forgetOrganization, setOrganization } from "./specials";
import { readEvent } from "./walk";

/** Reads the lines of so many bytes in TEXT and gives how many there are. The answers of each one are in ANSWERS. */
export function readLines(length: i32): i32 {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  forgetOrganization();
  const end = TEXT + length;
  let count = 0;
  for (let at = TEXT; at < end && count < EVENTS_MAX; count++) {
    const after = readAnswers(at, count);
    at = endOfLine(after == 0 ? at : after, end) + 1;
  }
  return count;
}

/**
 * The same for so many events with rows. Their texts are in TEXT, where the first byte is byte `base` of their page.
 * Records of those that may be converted by copying are made in OUT; their places are in PLACES.
 */
export function readRows(count: i32, base: i32): void {
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
    const after = readAnswers(start, index);
    store<i32>(PLACES + index * 4, <i32>(record - OUT));
    // The organization of an event that names none is not known here.
    const isKnown = organizationLength > 0 && isCanonical && after == text + load<i32>(row, 4);
    if (isKnown && record + RECORD_BYTES_MAX <= OUT + OUT_BYTES) record = writeRecord(record, start);
  }
  store<i32>(PLACES + count * 4, <i32>(record - OUT));
}

/** Reads the event at `start`; gives the place behind it, or 0. Its answers are 0 where it cannot be read. */
function readAnswers(start: usize, index: i32): usize {
  const after = readEvent(start);
  const answers = groupCount() == 0 ? hash : mix(hash, variant);
  store<u64>(ANSWERS + index * 8, after == 0 ? 0 : answers);
  return after;
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
