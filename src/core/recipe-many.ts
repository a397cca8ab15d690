import { IDENTITY_BYTES, STRIDE } from "./page-scratch.ts";
import type { EventRecords, EventsInPlace } from "./page-slice.ts";
import { PROCESS_SEED } from "./process-seed.ts";
import type { ModuleMemory, RecipeExports } from "./recipe-module.ts";

/** Converts many events by their recipes at once. */
export interface ManyConverter {
  /** The end of the events from `from` on and before `to` that are converted at once. */
  fitting(events: EventsInPlace, from: number, to: number): number;
  /**
   * Converts events of a page, each to a line. Gives how many bytes there are in `lines`. Where the line of each one
   * ends is in `ends`; the complement (~) for one that has to be converted alone. Undefined where they are too long or too many.
   */
  convertMany(events: EventsInPlace, from: number, to: number): number | undefined;
  /** What `convertMany` gave last: so many bytes, and the ends of so many lines. */
  lines(length: number): Buffer;
  ends(count: number): Int32Array;
}

const SHORT_BYTES = 64;
/** So many bytes of events are converted at once: a few milliseconds of work. */
const MANY_BYTES = 256 << 10;

export function createManyConverter(call: RecipeExports, memoryNow: () => ModuleMemory): ManyConverter {
  const places = {
    text: call.TEXT.value,
    rows: call.ROWS.value >> 2,
    times: call.TIMES.value >> 3,
    runs: call.RUNS.value,
    identities: call.IDENTITIES.value,
    otherwise: call.OTHERWISE.value,
    recordPlaces: call.PLACES.value >> 2,
    records: call.OUT_ONE.value,
    out: call.OUT.value,
    ends: call.ENDS.value >> 2,
  };

  /** Events without a record are walked over. */
  function putRecords(records: EventRecords | undefined, from: number, to: number): void {
    const { bytes, numbers } = memoryNow();
    const begins = numbers.subarray(places.recordPlaces, places.recordPlaces + to - from + 1);
    const start = records?.places[from] ?? 0;
    const end = records?.places[to] ?? 0;
    if (records?.seed !== PROCESS_SEED || end - start > call.OUT_BYTES.value) begins.fill(0);
    else {
      for (let at = 0; at < begins.length; at++) begins[at] = records.places[from + at]! - start;
      bytes.set(records.bytes.subarray(start, end), places.records);
    }
  }

  return {
    fitting({ columns }, from, to) {
      const start = columns[from * STRIDE]!;
      let end = Math.min(to, from + call.MANY_MAX.value);
      while (end - from > 1 && columns[(end - 1) * STRIDE + 1]! - start > MANY_BYTES)
        end = from + ((end - from) >> 1);
      return end;
    },
    convertMany({ bytes, columns, timesMs, runs, identities, organization, records }, from, to) {
      const memory = memoryNow();
      const start = columns[from * STRIDE]!;
      const end = columns[(to - 1) * STRIDE + 1]!;
      if (end - start > call.TEXT_BYTES.value || to - from > call.MANY_MAX.value) return undefined;
      memory.bytes.set(bytes.subarray(start, end), places.text);
      memory.numbers.set(columns.subarray(from * STRIDE, to * STRIDE), places.rows);
      memory.times.set(timesMs.subarray(from, to), places.times);
      memory.bytes.set(runs.subarray(from, to), places.runs);
      memory.bytes.set(identities.subarray(from * IDENTITY_BYTES, to * IDENTITY_BYTES), places.identities);
      putRecords(records, from, to);
      const otherwise = organization ?? "";
      if (!putAscii(memory.bytes, otherwise, places.otherwise)) return undefined;
      return call.convertMany(to - from, start, otherwise.length);
    },
    lines: (length) => memoryNow().bytes.subarray(places.out, places.out + length),
    ends: (count) => memoryNow().numbers.subarray(places.ends, places.ends + count),
  };
}

/** Writes a short ASCII text; false for any other. A call of `write` costs more than these few bytes. */
export function putAscii(bytes: Buffer, text: string, start: number): boolean {
  if (text.length > SHORT_BYTES) return false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code > 0x7f) return false;
    bytes[start + at] = code;
  }
  return true;
}
