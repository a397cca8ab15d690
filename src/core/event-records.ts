import type { Allocate } from "./buffer-pool.ts";
import type { EventRecords } from "./page-slice.ts";

/** Records of the events of a page that are being made. */
export interface RecordsMade {
  /** Records one behind the other, where each of them begins, where the last one ends, and the answers of their events. */
  add(bytes: Uint8Array, places: Int32Array, answers: Int32Array): void;
  /** The next event has neither. */
  skip(): void;
  done(): EventRecords;
}

/** Room for the records of a page, for each event. */
const USUAL_BYTES = 100;
const NOTHING = new Uint8Array(0);
const EMPTY = new Int32Array(2);
const UNKNOWN = new Int32Array(2);

/** Collects records in memory that is used again for the next page. Their length is known only at the end. */
export function createRecordCollector(seed: string): (events: number, allocate: Allocate) => RecordsMade {
  let memory = Buffer.alloc(0);

  function reserve(bytes: number, filled: number): void {
    if (bytes <= memory.length) return;
    const larger = Buffer.allocUnsafeSlow(bytes);
    larger.set(memory.subarray(0, filled));
    memory = larger;
  }

  return (events, allocate) => {
    const places = allocate(Uint32Array, events + 1).fill(0);
    const ownAnswers = allocate(Int32Array, 2 * events);
    let added = 0;
    let filled = 0;
    reserve(events * USUAL_BYTES, 0);

    function add(bytes: Uint8Array, ends: Int32Array, answers: Int32Array): void {
      if (filled + bytes.length > memory.length) reserve(2 * (filled + bytes.length), filled);
      memory.set(bytes, filled);
      ownAnswers.set(answers, 2 * added);
      for (let at = 1; at < ends.length; at++) places[++added] = filled + ends[at]!;
      filled += bytes.length;
    }

    return {
      add,
      skip: () => add(NOTHING, EMPTY, UNKNOWN),
      done() {
        const bytes = allocate(Uint8Array, filled);
        bytes.set(memory.subarray(0, filled));
        return { seed, bytes, places, answers: ownAnswers };
      },
    };
  };
}
