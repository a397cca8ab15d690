import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Lines } from "../../src/core/journal.ts";
import { startOf } from "../../src/core/position.ts";
import { type Batch, bodySizesOf, type SinkRecord, type Stretch } from "../../src/core/sink.ts";
import { linesOf } from "../../src/sinks/shared/lines.ts";

/** Lines in one piece of memory, as delivery encodes them. */
function linesIn(texts: readonly string[]): Lines {
  const starts = [0];
  for (const text of texts) starts.push(starts.at(-1)! + Buffer.byteLength(text) + 1);
  const memory = Buffer.from(texts.map((text) => `${text}\n`).join(""));
  return {
    bytes: (from: number, to: number) => memory.subarray(starts[from], starts[to]),
    size: (from: number, to: number) => starts[to]! - starts[from]!,
  } as Partial<Lines> as Lines;
}

function batchOf(groups: readonly (readonly string[])[], isInStretches: boolean): Batch {
  const at = startOf("journal");
  const records = groups
    .flat()
    .map((text) => ({ body: Buffer.from(text) }) as Partial<SinkRecord> as SinkRecord);
  // Each stretch begins after a line of another batch, so that indexes in memory and in the batch differ.
  const stretches = groups.map(
    (texts): Stretch => ({ lines: linesIn(["other", ...texts]), from: 1, to: texts.length + 1 }),
  );
  return { records, from: at, to: at, ...(isInStretches && { stretches }) };
}

const groups = fc.array(fc.array(fc.string({ maxLength: 5 }), { minLength: 1, maxLength: 30 }), {
  minLength: 1,
  maxLength: 6,
});

describe("the lines of some records of a batch", () => {
  test("are their bodies in order, each with a line break, from stretches as from records", () => {
    fc.assert(
      fc.property(groups, fc.infiniteStream(fc.boolean()), fc.boolean(), (texts, chosen, isInStretches) => {
        const all = texts.flat();
        const indexes = all.map((_, index) => index).filter(() => chosen.next().value);
        const pieces = linesOf(batchOf(texts, isInStretches), indexes);
        const expected = indexes.map((index) => `${all[index]}\n`).join("");
        expect(Buffer.concat(pieces).toString()).toBe(expected);
      }),
    );
  });

  test("are one piece for each stretch that is taken whole, without a copy", () => {
    const batch = batchOf([["a", "b"], ["c"], ["d", "e", "f"]], true);
    const pieces = linesOf(batch, [0, 1, 2, 3, 4, 5]);
    expect(pieces.map((piece) => Buffer.from(piece).toString())).toEqual(["a\nb\n", "c\n", "d\ne\nf\n"]);
    const memory = batch.stretches![0]!.lines.bytes(1, 3);
    expect(pieces[0]!.buffer).toBe(memory.buffer);
  });

  test("are taken, and their sizes, without a record for each of them", () => {
    const { stretches, from, to } = batchOf([["a", "bb"], ["c"]], true);
    const batch: Batch = {
      ...{ stretches, from, to },
      get records(): never {
        throw new Error("Records were made.");
      },
    };
    expect(Buffer.concat(linesOf(batch, [0, 1, 2])).toString()).toBe("a\nbb\nc\n");
    expect(bodySizesOf(batch)).toEqual([1, 2, 1]);
  });

  test("are joined where there would be many pieces", () => {
    const texts = Array.from({ length: 100 }, (_, at) => `line ${at}`);
    const even = texts.map((_, index) => index).filter((index) => index % 2 === 0);
    expect(linesOf(batchOf([texts], true), even)).toHaveLength(1);
    expect(linesOf(batchOf([texts], true), even.slice(0, 32))).toHaveLength(32);
  });
});
