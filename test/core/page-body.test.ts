import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBody, encodeBody, framesOf, makeLines } from "../../src/core/page-body.ts";
import { eventBytes, type ScannedPage, STRIDE, scanPage } from "../../src/core/scanner.ts";
import { createCompressor, decompress } from "../../src/core/zstd.ts";

const compressPart = createCompressor();
const compress = (parts: readonly Uint8Array[]) => Buffer.concat(parts.map(compressPart));
const textsOf = (page: ScannedPage) =>
  Array.from({ length: page.count }, (_, index) => eventBytes(page, index).toString());
const arrayOf = (texts: readonly string[]) => scanPage(Buffer.from(`[${texts.join(",")}]`));
const event = (organization: string, timestamp: string, more = "") =>
  `{"organization":"${organization}","timestamp":"${timestamp}","text":"${more}"}`;

describe("the stored form of a page", () => {
  test("is lines, each event's exact bytes and a line break, where no event has one inside", () => {
    const texts = ['{"id": "é\\n" }', "{}", '{"a":[1,2,{"b":1e2}]}'];
    const { bytes } = encodeBody(arrayOf(texts), compress);
    expect(decompress(bytes).toString()).toBe(texts.map((text) => `${text}\n`).join(""));
    const page = decodeBody(bytes);
    expect(textsOf(page)).toEqual(texts);
    expect(page.hasLineBreaks).toBe(false);
  });

  test.each([
    ["an event has a line break inside", '[{"a":\n1},{"b":2}]'],
    ["there is space between events", '[{"a":1}, {"b":2}]'],
  ])("is the service's array, byte for byte, where %s", (_, text) => {
    const { bytes } = encodeBody(scanPage(Buffer.from(text)), compress);
    expect(decompress(bytes).toString()).toBe(text);
    expect(textsOf(decodeBody(bytes))).toEqual(textsOf(scanPage(Buffer.from(text))));
  });

  test("gives the same page whichever it is, over many stretches of the scanner", () => {
    const texts = Array.from({ length: 3000 }, (_, number) =>
      JSON.stringify({
        id: `n${number}`,
        timestamp: "2026-03-14T15:09:26.5Z",
        organization: `o${number % 7}`,
        text: "é".repeat(number % 300),
      }),
    );
    const array = arrayOf(texts);
    const [times, runs] = [array.timesMs.slice(), array.runs.slice()];
    const page = decodeBody(encodeBody(array, compress).bytes);
    expect(textsOf(page)).toEqual(texts);
    expect(page.timesMs).toEqual(times);
    // A run may end at the edge of a stretch, which is one byte earlier in lines.
    expect(page.runs.length).toBe(runs.length);
    const shifted = Array.from(page.columns, (value) => (value < 0 ? value : value + 1));
    expect(shifted).toEqual(Array.from(array.columns));
  });
});

describe("the lines of a page", () => {
  test("are made once, and later questions look at no byte of it", () => {
    const page = arrayOf(['{"a":1}', '{"b":2}']);
    const made = '[{"a":1}\n{"b":2}\n';
    expect([makeLines(page), page.bytes.toString()]).toEqual([true, made]);
    page.bytes.fill(0);
    expect([makeLines(page), page.bytes.every((byte) => byte === 0)]).toEqual([true, true]);
  });

  test("are not there where events are apart, however often it is asked", () => {
    const page = scanPage(Buffer.from('[{"a":1}, {"b":2}]'));
    expect([makeLines(page), page.areLines]).toEqual([false, false]);
    page.columns.fill(0);
    expect(makeLines(page)).toBe(false);
  });
});

describe("the frames of a stored page", () => {
  const days = [event("a", "2026-03-14T23:59:59Z", "1"), event("a", "2026-03-15T00:00:00Z", "2")];

  test("each hold the neighbours of one organization and day, and are found by their lines", () => {
    const page = arrayOf([...days, event("a", "2026-03-15T01:00:00Z"), event("b", "2026-03-15T01:00:00Z")]);
    const { bytes } = encodeBody(page, compress);
    const lines = decompress(bytes);
    const offset = (index: number) => page.columns[index * STRIDE]! - 1;
    for (const [from, to] of [
      [0, 1],
      [1, 3],
      [3, 4],
      [0, 3],
      [0, 4],
    ] as const) {
      const end = to === 4 ? lines.length : offset(to);
      const frames = framesOf(bytes, offset(from), end);
      expect(decompress(frames!)).toEqual(lines.subarray(offset(from), end));
    }
    expect(framesOf(bytes, offset(0), offset(2))).toBeUndefined();
    expect(framesOf(bytes, offset(2), offset(3))).toBeUndefined();
  });

  test("follow the owners of events, which do not all name their organization", () => {
    const nameless = (timestamp: string) => JSON.stringify({ timestamp });
    const texts = days.flatMap((text) =>
      Array.from({ length: 10 }, () => [text, nameless(JSON.parse(text).timestamp)]).flat(),
    );
    const page = arrayOf(texts);
    const half = page.columns[(texts.length / 2) * STRIDE]! - 1;
    expect(framesOf(encodeBody(page, compress).bytes, 0, half)).toBeUndefined();
    const { bytes } = encodeBody(page, compress, new Uint16Array(texts.length));
    expect(decompress(framesOf(bytes, 0, half)!)).toEqual(decompress(bytes).subarray(0, half));
  });

  test("are one where organizations take turns", () => {
    const page = arrayOf(Array.from({ length: 40 }, (_, at) => event(`o${at % 2}`, "2026-03-15T00:00:00Z")));
    const { bytes } = encodeBody(page, compress);
    const lines = decompress(bytes);
    expect(framesOf(bytes, 0, lines.length)).toEqual(bytes);
    expect(framesOf(bytes, 0, page.columns[STRIDE]! - 1)).toBeUndefined();
  });

  test("give exactly the lines that are asked for, or nothing", () => {
    const time = fc.constantFrom("2026-03-14T12:00:00Z", "2026-03-15T12:00:00Z", "never");
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(fc.constantFrom("a", "b"), time, fc.string({ maxLength: 5, unit: "grapheme-ascii" })),
          {
            minLength: 1,
            maxLength: 12,
          },
        ),
        (fields) => {
          const texts = fields.map(([organization, timestamp, text]) =>
            JSON.stringify({ organization, timestamp, text }),
          );
          const page = arrayOf(texts);
          const { bytes } = encodeBody(page, compress);
          const starts = [0];
          for (const text of texts) starts.push(starts.at(-1)! + Buffer.byteLength(text) + 1);
          for (let from = 0; from < texts.length; from++)
            for (let to = from + 1; to <= texts.length; to++) {
              const frames = framesOf(bytes, starts[from]!, starts[to]!);
              if (frames === undefined) continue;
              const expected = texts.slice(from, to).map((text) => `${text}\n`);
              expect(decompress(frames).toString()).toBe(expected.join(""));
            }
          expect(framesOf(bytes, 0, starts.at(-1)!)).toEqual(bytes);
        },
      ),
      { numRuns: 50 },
    );
  });
});
