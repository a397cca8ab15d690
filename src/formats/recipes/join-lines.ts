import { MANY_MAX } from "../../core/format.ts";
import type { SharedLines } from "../../core/page-slice.ts";

const LINE_BREAK = 0x0a;

export interface MadeLines {
  /** The lines that were made together. Asked for again after each line that is made alone: their memory may move. */
  lines(): Uint8Array;
  /** Where each of them ends; the complement (~) for one that is to be made alone. */
  readonly ends: Int32Array;
  /** So many are made alone at most: the lines end behind the last of them. */
  readonly aloneMax: number;
  makeAlone(at: number): Uint8Array | string;
}

/** Puts lines that were made together and those that were made alone into one piece of memory, which is used again. */
export function createJoiner(): (made: MadeLines) => SharedLines {
  let memory = Buffer.allocUnsafeSlow(64 << 10);
  const ends = new Int32Array(MANY_MAX);
  let filled = 0;

  function reserve(bytes: number): void {
    if (filled + bytes <= memory.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * (filled + bytes));
    larger.set(memory.subarray(0, filled));
    memory = larger;
  }

  function add(bytes: Uint8Array): void {
    reserve(bytes.length);
    memory.set(bytes, filled);
    filled += bytes.length;
  }

  function addLine(body: Uint8Array | string): void {
    if (typeof body === "string") {
      const size = Buffer.byteLength(body);
      reserve(size + 1);
      filled += memory.write(body, filled, "utf8");
    } else {
      reserve(body.length + 1);
      add(body);
    }
    memory[filled++] = LINE_BREAK;
  }

  return ({ lines, ends: made, aloneMax, makeAlone }) => {
    const { length } = made;
    ends.set(made);
    filled = 0;
    let copied = 0;
    let alone = 0;
    for (let at = 0; at < length; at++) {
      const end = ends[at]!;
      if (end >= 0) {
        // Its place behind what was copied so far.
        ends[at] = filled + end - copied;
        continue;
      }
      add(lines().subarray(copied, ~end));
      copied = ~end;
      addLine(makeAlone(at));
      ends[at] = filled;
      if (++alone === aloneMax) return { bytes: memory.subarray(0, filled), ends: ends.subarray(0, at + 1) };
    }
    add(lines().subarray(copied));
    return { bytes: memory.subarray(0, filled), ends: ends.subarray(0, length) };
  };
}
