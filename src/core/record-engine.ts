import type { Allocate } from "./buffer-pool.ts";
import { createRecordCollector, type RecordsMade } from "./event-records.ts";
import { makeLines } from "./page-body.ts";
import type { EventRecords } from "./page-slice.ts";
import { PROCESS_SEED } from "./process-seed.ts";
import type { Reads } from "./reads.ts";
import { openRecipeModule } from "./recipe-module.ts";
import { type ScannedPage, STRIDE } from "./scanner.ts";

/**
 * Reads events as converters do, in WebAssembly: their answers, which wasm/recipe/walk.ts explains, and the records from
 * which recipes convert them.
 */
export interface RecordEngine {
  readonly bytesMax: number;
  readonly eventsMax: number;
  /**
   * The answers of lines, at most `eventsMax` of them in at most `bytesMax` bytes: two numbers each. The next call
   * overwrites them. Zeros: the event is nested very deeply or has very many members.
   */
  answers(lines: Uint8Array): Int32Array;
  /** Begins with the records of a page of so many events. */
  collect(events: number, allocate: Allocate): RecordsMade;
  /** Reads neighbours of a page that fit into the engine, and adds their records. */
  readPage(scanned: ScannedPage, from: number, to: number, made: RecordsMade): void;
}

export function createRecordEngine(reads: Reads, seed = PROCESS_SEED): RecordEngine {
  const { call, grow } = openRecipeModule(reads, seed);
  const { bytes, numbers } = grow(call.HEAP.value);
  const text = call.TEXT.value;
  const answers = call.ANSWERS.value >> 2;
  const [rows, places] = [call.ROWS.value >> 2, call.PLACES.value >> 2];

  return {
    bytesMax: call.TEXT_BYTES.value,
    eventsMax: call.EVENTS_MAX.value,
    collect: createRecordCollector(seed),
    answers(lines) {
      bytes.set(lines, text);
      return numbers.subarray(answers, answers + 2 * call.readLines(lines.length));
    },
    readPage({ bytes: page, columns, runs }, from, to, made) {
      const count = to - from;
      const start = columns[from * STRIDE]!;
      bytes.set(page.subarray(start, columns[(to - 1) * STRIDE + 1]!), text);
      numbers.set(columns.subarray(from * STRIDE, to * STRIDE), rows);
      bytes.set(runs.subarray(from, to), call.RUNS.value);
      call.readRows(count, start);
      const ends = numbers.subarray(places, places + count + 1);
      const records = bytes.subarray(call.OUT.value, call.OUT.value + ends[count]!);
      made.add(records, ends, numbers.subarray(answers, answers + 2 * count));
    },
  };
}

/** The records of all events of a page. Undefined where it cannot be lines. */
export function recordEvents(
  engine: RecordEngine,
  scanned: ScannedPage,
  allocate: Allocate,
): EventRecords | undefined {
  const { columns, count } = scanned;
  if (!makeLines(scanned)) return undefined;
  const made = engine.collect(count, allocate);
  const endOf = (index: number) => columns[index * STRIDE + 1]! + 1;
  for (let from = 0, to: number; from < count; from = to) {
    const start = columns[from * STRIDE]!;
    to = from;
    while (to < count && to - from < engine.eventsMax && endOf(to) - start <= engine.bytesMax) to++;
    if (to > from) engine.readPage(scanned, from, to, made);
    else {
      made.skip();
      to++;
    }
  }
  return made.done();
}
