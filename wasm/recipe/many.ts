/* Converts many events at once: a call for each, with what its caller does around it, takes a tenth of the time. */
import { apply, isNextDue } from "./apply";
import { added, findRecipe } from "./find";
import { canonicalize } from "./canonical";
import { isCanonical } from "./loose";
import {
  ENDS,
  IDENTITIES,
  LARGE_BYTES,
  OUT,
  OUT_BYTES,
  OUT_ONE,
  PADDING_BYTES,
  PLACES,
  REWRITTEN,
  ROW_NUMBERS,
  ROWS,
  RUNS,
  TEXT,
  TIMES,
} from "./memory";
import { readRecord } from "./records";
import { setOrganization, writeIdentity, writeTime } from "./specials";
import { readEvent } from "./walk";

/**
 * Converts so many events, each to a line. Their texts are in TEXT, where the first byte is byte `base` of their page.
 * Their records, where they have any, are in OUT_ONE at the places in PLACES.
 * Gives how many bytes were written to OUT. Those that cannot be converted by a recipe, or are to be compared with the
 * converter, are left out.
 */
export function convertMany(count: i32, base: i32, otherwiseLength: i32): i32 {
  const text = TEXT - base;
  let out = OUT;
  let organizationLength: i32 = -1;
  const last = ROWS + (count - 1) * ROW_NUMBERS * 4;
  memory.fill(TEXT + load<i32>(last, 4) - base, 0, PADDING_BYTES);
  for (let index = 0; index < count; index++) {
    const row = ROWS + index * ROW_NUMBERS * 4;
    if (index == 0 || load<u8>(RUNS + index) == 0) organizationLength = setOrganization(row, text, otherwiseLength);
    const length =
      organizationLength < 0 ? 0 : convertOne(text + load<i32>(row), load<i32>(row, 4) - load<i32>(row), index, out);
    out += length;
    store<i32>(ENDS + index * 4, length == 0 ? ~(<i32>(out - OUT)) : <i32>(out - OUT));
  }
  return <i32>(out - OUT);
}

/** Reads an event once more with its numbers as JSON.stringify writes them. False: it is still not canonical. */
function readRewritten(start: usize, length: i32): bool {
  const rewritten = canonicalize(start, start + length, REWRITTEN);
  if (rewritten == 0) return false;
  memory.fill(REWRITTEN + rewritten, 0, PADDING_BYTES);
  return readEvent(REWRITTEN) == REWRITTEN + rewritten && isCanonical;
}

/** Writes the line of an event; gives its length, or 0. */
// @ts-ignore: decorator
@inline
function convertOne(start: usize, length: i32, index: i32, out: usize): i32 {
  const timeMs = load<f64>(TIMES + index * 8);
  if (timeMs != timeMs || length >= LARGE_BYTES) return 0;
  const record = load<i32>(PLACES + index * 4);
  if (load<i32>(PLACES + index * 4, 4) > record) readRecord(OUT_ONE + record, start);
  else if (readEvent(start) != start + length || (!isCanonical && !readRewritten(start, length))) return 0;
  const recipe = findRecipe();
  if (recipe == 0 || load<i32>(recipe, 4) == 0 || isNextDue(recipe, added)) return 0;
  writeTime(timeMs);
  writeIdentity(IDENTITIES + index * 16);
  const written = apply(recipe, added, out, OUT + OUT_BYTES - 1);
  if (written <= 0) return 0;
  store<u8>(out + written, 0x0a);
  return written + 1;
}
