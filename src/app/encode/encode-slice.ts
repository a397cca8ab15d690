import type { JournalEvent } from "../../core/event.ts";
import type { Format, FormatContext } from "../../core/format.ts";
import type { EncodedSlice, EncodeOrder } from "../../core/page-slice.ts";
import { formats } from "../../formats/index.ts";
import { eventsOf } from "../../journal/stored-page.ts";
import { describeForFormat as describe } from "../../services/index.ts";
import { reads } from "../../services/read/read-paths.ts";

/** The formats of one thread: each is made once, and so are its recipes. */
export function createSliceEncoder(): (order: EncodeOrder) => EncodedSlice {
  const known = new Map<string, { readonly format: Format; mismatched: JournalEvent[] }>();
  let memory = Buffer.allocUnsafeSlow(1 << 20);

  function formatFor({ format: name, options }: EncodeOrder) {
    const key = JSON.stringify([name, options]);
    const found = known.get(key);
    if (found !== undefined) return found;
    const definition = formats.find((format) => format.name === name)!;
    const made = { mismatched: [] as JournalEvent[] };
    const onMismatch: FormatContext["onMismatch"] = (event) => made.mismatched.push(event);
    const format = definition.create(definition.options.parse(options), { describe, reads, onMismatch });
    const own = Object.assign(made, { format });
    known.set(key, own);
    return own;
  }

  /** Writes behind the first `at` bytes; gives the place behind it. */
  function write(encoded: Uint8Array | string, at: number): number {
    const size = typeof encoded === "string" ? Buffer.byteLength(encoded) : encoded.length;
    if (at + size > memory.length) {
      const larger = Buffer.allocUnsafeSlow(2 * (at + size));
      larger.set(memory.subarray(0, at));
      memory = larger;
    }
    if (typeof encoded === "string") memory.write(encoded, at, "utf8");
    else memory.set(encoded, at);
    return at + size;
  }

  return (order) => {
    const own = formatFor(order);
    const { format } = own;
    const event = eventsOf(order.slice);
    const ends = new Int32Array(order.slice.timesMs.length);
    own.mismatched = [];
    let filled = 0;
    for (let index = 0; index < ends.length; index++) {
      try {
        filled = write(format.encodeShared?.(event(index)) ?? format.encode(event(index)), filled);
        ends[index] = filled;
      } catch {
        ends[index] = ~filled;
      }
    }
    return {
      bytes: new Uint8Array(memory.subarray(0, filled)),
      ends,
      mismatched: own.mismatched.map(({ index }) => index),
    };
  };
}
