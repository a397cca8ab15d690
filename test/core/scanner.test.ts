// A campaign: part of `npm test`, too long for `npm run test:unit`.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  eventBytes,
  eventTimeMs,
  FIELD,
  type FieldColumn,
  fieldText,
  ScanError,
  type ScannedPage,
  scanPage,
} from "../../src/core/scanner.ts";
import { timestampMsOf } from "../../src/core/time.ts";

const NAMES: Readonly<Record<string, FieldColumn>> = {
  id: FIELD.id,
  timestamp: FIELD.timestamp,
  service: FIELD.service,
  event_type: FIELD.eventType,
  organization: FIELD.organization,
};
const RUNS = 400;

describe("cutting a page into events", () => {
  test("gives slices and fields as JSON.parse sees them, for every JSON text", () => {
    fc.assert(
      fc.property(pageText(), (text) => agrees(Buffer.from(text))),
      { numRuns: RUNS },
    );
  });

  test("the keys of an earlier event change nothing about a later one", () => {
    const names = ["id", "correlation", "changes", "service", "from", "x"];
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        fc.constantFrom("a", 1, null),
        fc.array(tie("value"), { maxLength: 2 }),
        fc.dictionary(fc.constantFrom(...names), tie("value"), { maxKeys: 4 }),
      ),
    }));
    const event = fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 4 });
    const idOf = (correlation: unknown) =>
      typeof correlation === "object" && correlation !== null && !Array.isArray(correlation)
        ? (correlation as { id?: unknown }).id
        : undefined;
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 6 }), (events) => {
        const page = scan(JSON.stringify(events));
        for (const [index, { id, correlation }] of events.entries()) {
          const found = [fieldText(page, index, FIELD.id), fieldText(page, index, FIELD.correlationId)];
          expect(found).toEqual([textOf(id), textOf(idOf(correlation))]);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test("keeps blank space, line breaks, escapes and numbers of an event byte for byte", () => {
    const events = ['{ "a" :\r\n\t1.50e+02 , "b":"\\u00e9\\/é" }', "{}", '{"id":12345678901234567890}'];
    const page = scan(` [ ${events.join(" ,\n")} ]\n`);
    expect(Array.from({ length: page.count }, (_, at) => eventBytes(page, at).toString())).toEqual(events);
    expect(fieldText(page, 2, FIELD.id)).toBe("12345678901234567890");
  });

  test("finds what ends, breaks or escapes a string at every place in a word", () => {
    const marks = ['"', "\\n", "\u0000", "\u001f", "\u007f", "é", "ÿ", "!", "#", "[", "]"];
    for (let before = 0; before < 9; before++) {
      for (let after = 0; after < 9; after++) {
        for (const mark of marks) {
          const text = `[{"k":"${"x".repeat(before)}${mark}${"y".repeat(after)}"}]`;
          let parsed: unknown;
          try {
            parsed = JSON.parse(text);
          } catch {
            parsed = undefined;
          }
          if (parsed === undefined) expect(() => scan(text), text).toThrow(ScanError);
          else expect(eventBytes(scan(text), 0).toString()).toBe(text.slice(1, -1));
        }
      }
    }
  });

  test("tells whether there is a line break anywhere", () => {
    expect(scan('[{"a":"\\n"}, {"b": 1}]').hasLineBreaks).toBe(false);
    for (const text of ['[{"a":1,\n"b":2}]', '[\r{"a":1}]', '[{"a":1}]\n'])
      expect(scan(text).hasLineBreaks).toBe(true);
    expect(scan("[{}]").hasLineBreaks).toBe(false);
  });

  test("takes an empty array, with blank space and without", () => {
    for (const text of ["[]", " [ \n\t\r ] "]) expect(scan(text).count).toBe(0);
  });

  test("of duplicate keys the last counts, as in JSON.parse (R7)", () => {
    const page = scan('[{"id":"a","organization":"x","id":"b","organization":null}]');
    expect(fieldText(page, 0, FIELD.id)).toBe("b");
    expect(fieldText(page, 0, FIELD.organization)).toBeUndefined();
  });

  test("a key spelled with escapes is the same key", () => {
    const page = scan('[{"\\u0069d":"a","time\\u0073tamp":"2026-01-01T00:00:00Z","\\u0069\\u0064x":1}]');
    expect(fieldText(page, 0, FIELD.id)).toBe("a");
    expect(eventTimeMs(page, 0)).toBe(Date.UTC(2026, 0, 1));
  });

  test("fields inside other values do not count, only those at the top do", () => {
    const page = scan('[{"inner":{"id":"no","service":"no"},"list":[{"id":"no"}],"service":"sso"}]');
    expect(fieldText(page, 0, FIELD.id)).toBeUndefined();
    expect(fieldText(page, 0, FIELD.service)).toBe("sso");
  });

  test("finds the correlation's id, and forgets it when a later correlation has none", () => {
    const id = (text: string) => fieldText(scan(`[${text}]`), 0, FIELD.correlationId);
    expect(id('{"correlation":{"x":{"id":"no"},"id":"c\\u0031"}}')).toBe("c1");
    expect(id('{"correlation":{"id":"c1"},"correlation":{}}')).toBeUndefined();
    expect(id('{"correlation":{"id":"c1"},"correlation":"id"}')).toBeUndefined();
    expect(id('{"correlation":["id"]}')).toBeUndefined();
  });

  test("takes a string of 20 MB with escapes at its ends", () => {
    const long = `\\n${"é".repeat(10_000_000)}\\\\`;
    const page = scan(`[{"text":"${long}","id":"${long}"}]`);
    expect(fieldText(page, 0, FIELD.id)?.length).toBe(10_000_002);
  });

  test("takes nesting up to the limit and refuses what is deeper, without running out of stack", () => {
    const nested = (depth: number) => `[{"a":${"[".repeat(depth)}${"]".repeat(depth)}}]`;
    expect(scan(nested(400)).count).toBe(1);
    expect(() => scan(nested(501))).toThrow(/nested more than 500 deep/);
    for (const open of ["[", '{"a":', '[{"a":'])
      expect(() => scan(`[{"a":${open.repeat(1_000_000)}`)).toThrow(ScanError);
  });

  test("more events than are allowed are refused; as many as are allowed are not", () => {
    const page = Buffer.from(`[${Array(5).fill("{}").join(",")}]`);
    expect(scanPage(page, 5).count).toBe(5);
    expect(() => scanPage(page, 4)).toThrow(/more than 4 elements/);
  });

  test("makes room for more events than the size of the text suggested", () => {
    const page = scan(`[${Array(5000).fill('{"id":1}').join(",")}]`);
    expect(page.count).toBe(5000);
    expect(fieldText(page, 4999, FIELD.id)).toBe("1");
  });
});

describe("what is no array of objects", () => {
  test.each([
    ["", "empty"],
    ["   ", "nothing"],
    ["{}", "an object"],
    ['{"message":"no"}', "an object"],
    ['"x"', "a string"],
    ["-1", "a number"],
    ["null", "a word"],
    ["<html>", "markup"],
    ["\ufeff[]", "the byte 0xef"],
  ])("%j is named in the error", (text, named) => {
    expect(() => scan(text)).toThrow(ScanError);
    expect(() => scan(text)).toThrow(named);
  });

  test.each([
    ["[1]", "Element 0 of the array is not an object but a number"],
    ["[{},[]]", "Element 1 of the array is not an object but an array"],
    ["[{},null]", "Element 1 of the array is not an object but a word"],
    ['[{},{"a":1},"x"]', "Element 2 of the array is not an object but a string"],
    ["[{},]", "Element 1"],
  ])("%j: the element is named", (text, named) => {
    expect(() => scan(text)).toThrow(named);
  });

  test("the place is named, and nothing of the content", () => {
    expect(() => scan('[{"password":"hunter2" x}]')).toThrow(
      "at byte 23 of 26 there is the byte 0x78 where a comma or the end of the object should be",
    );
    expect(() => scan('[{"password":"hunter2')).toThrow("at byte 21 of 21 the text ends");
  });

  test.each(
    [
      "[{}] x",
      "[{}]]",
      "[{},{}",
      "[{}{}]",
      "[,{}]",
      '[{"a"}]',
      '[{"a":}]',
      '[{"a":1,}]',
      "[{a:1}]",
      "[{'a':1}]",
      '[{"a":01}]',
      '[{"a":1.}]',
      '[{"a":.5}]',
      '[{"a":+1}]',
      '[{"a":1e}]',
      '[{"a":-}]',
      '[{"a":NaN}]',
      '[{"a":tru}]',
      '[{"a":truex}]',
      '[{"a":"\\x"}]',
      '[{"a":"\\u12g4"}]',
      '[{"a":"\\u12"}]',
      '[{"a":"\n"}]',
      '[{"a":"\u0000"}]',
      '[{"a":[1,]}]',
      '[{"a":[1 2]}]',
      '[{"a":{"b":1,}}]',
      '[{"a":[}]}]',
      '[{"correlation":{"id":1,}}]',
      '[{"correlation":{"id" 1}}]',
      '[{"correlation":{id:1}}]',
      "[{/**/}]",
      "[{}]\u00a0",
      "[{}]\u0000",
    ].map((text) => [text]),
  )("%j is refused, as JSON.parse refuses it", (text) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(() => scan(text)).toThrow(ScanError);
  });
});

describe("hostile input", () => {
  const sample = Buffer.from(
    '[ {"id":"5f-\\u00e9\\"","timestamp":"2026-03-14T15:09:26.535897Z","service":"sso","n":[-1.5e+3,0,true,null,{"":[]}]},\n{"organization":"aB","event_type":"x","correlation":{"id":"Zoë","t":false}} ]',
  );

  test("a page cut off at any byte is refused", () => {
    for (let end = 0; end < sample.length; end++)
      expect(() => scanPage(sample.subarray(0, end)), `cut at ${end}`).toThrow(ScanError);
    expect(scanPage(sample).count).toBe(2);
  });

  test("a page with any one byte changed to any other is refused or agrees with JSON.parse", () => {
    let refused = 0;
    for (let at = 0; at < sample.length; at++) {
      for (let byte = 0; byte < 256; byte++) {
        const mutated = Buffer.from(sample);
        mutated[at] = byte;
        if (!agrees(mutated)) refused++;
      }
    }
    expect(refused).toBeGreaterThan(10_000);
  });

  test("a page with bytes left out, doubled or put in is refused or agrees with JSON.parse", () => {
    fc.assert(
      fc.property(
        fc.nat(sample.length),
        fc.nat(12),
        fc.uint8Array({ maxLength: 12 }),
        (at, drop, put) =>
          void agrees(Buffer.concat([sample.subarray(0, at), put, sample.subarray(at + drop)])),
      ),
      { numRuns: 3000 },
    );
  });

  test("any bytes at all are refused or agree with JSON.parse", () => {
    const token = fc.constantFrom(
      "[",
      "]",
      "{",
      "}",
      ",",
      ":",
      '"',
      "\\",
      "u",
      "1",
      "e",
      ".",
      "id",
      " ",
      "é",
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 40 }), (parts) => void agrees(Buffer.from(parts.join("")))),
      { numRuns: 5000 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => void agrees(Buffer.from(bytes))),
      { numRuns: 1000 },
    );
  });

  test("a page that lies inside a larger buffer ends where it ends", () => {
    const larger = Buffer.from('[{"a":1}]trailing"}]');
    expect(scanPage(larger.subarray(0, 9)).count).toBe(1);
    expect(() => scanPage(larger.subarray(0, 8))).toThrow(ScanError);
  });
});

describe("the time of an event", () => {
  test("equals the time of its text, cut to milliseconds, for every timestamp", () => {
    fc.assert(
      fc.property(timestampText(), (text) => {
        expect(timeOf(text)).toBe(timestampMsOf(text));
      }),
      { numRuns: 5000 },
    );
  });

  test.each([
    "2026-02-29T00:00:00Z",
    "2026-02-30T10:00:00.123Z",
    "2026-04-31T23:59:59Z",
    "2100-02-29T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-13-10T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T23:60:00Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00.1x3Z",
    "2026-01-01X00:00:00Z",
    "2026/01/01T00:00:00Z",
    "",
    "Z",
  ])("%s is no time", (text) => {
    expect(timeOf(text)).toBeUndefined();
  });

  test.each([
    ["2024-02-29T23:59:59.9999999Z", Date.UTC(2024, 1, 29, 23, 59, 59, 999)],
    ["2000-02-29T00:00:00Z", Date.UTC(2000, 1, 29)],
    ["1969-12-31T23:59:59.999Z", -1],
    ["2026-03-14T15:09:26+01:00", Date.UTC(2026, 2, 14, 14, 9, 26)],
    ["2026-06-30T23:59:60Z", Date.UTC(2026, 6, 1)],
  ])("%s is read", (text, ms) => {
    expect(timeOf(text)).toBe(ms);
  });

  test("a timestamp that is neither a string nor a number has no time", () => {
    for (const value of ["17", "null", "{}", '["2026-01-01T00:00:00Z"]', "true"])
      expect(eventTimeMs(scan(`[{"timestamp":${value}}]`), 0)).toBeUndefined();
  });
});

function scan(text: string): ScannedPage {
  return scanPage(Buffer.from(text));
}

function timeOf(text: string): number | undefined {
  return eventTimeMs(scan(`[{"timestamp":${JSON.stringify(text)}}]`), 0);
}

/** Whether the page is taken; throws where the scanner's view and that of JSON.parse differ. */
function agrees(bytes: Buffer): boolean {
  let parsed: unknown;
  try {
    parsed = JSON.parse(bytes.toString());
  } catch {}
  const isPage =
    Array.isArray(parsed) &&
    parsed.every((item) => typeof item === "object" && item !== null && !Array.isArray(item));
  if (!isPage) {
    if (!throwsScanError(bytes)) throw new Error(`taken, but JSON.parse sees no page: ${bytes}`);
    return false;
  }
  const page = scanPage(bytes);
  const events = parsed as Record<string, unknown>[];
  if (page.count !== events.length) throw new Error(`${page.count} events instead of ${events.length}`);
  for (const [index, event] of events.entries()) sameEvent(page, index, event);
  return true;
}

function throwsScanError(bytes: Buffer): boolean {
  try {
    scanPage(bytes);
    return false;
  } catch (error) {
    if (error instanceof ScanError) return true;
    throw error;
  }
}

function sameEvent(page: ScannedPage, index: number, event: Record<string, unknown>): void {
  const slice = eventBytes(page, index).toString();
  const text = JSON.stringify(JSON.parse(slice));
  if (text !== JSON.stringify(event)) throw new Error(`other event: ${slice}`);
  for (const [name, column] of Object.entries(NAMES)) same(page, index, column, event[name]);
  const { correlation } = event;
  const isObject = typeof correlation === "object" && correlation !== null && !Array.isArray(correlation);
  same(page, index, FIELD.correlationId, isObject ? (correlation as { id?: unknown }).id : undefined);
}

function same(page: ScannedPage, index: number, column: FieldColumn, value: unknown): void {
  const text = fieldText(page, index, column);
  if (typeof value === "number") {
    if (text === undefined || Number(text) !== value) throw new Error(`${text} instead of ${value}`);
  } else if (text !== (typeof value === "string" ? value : undefined)) {
    throw new Error(`${JSON.stringify(text)} instead of ${JSON.stringify(value)}`);
  }
}

const blank = fc.string({ unit: fc.constantFrom(" ", "\n", "\t", "\r"), maxLength: 3 });

/** JSON text of a string in which any character may be written as an escape. */
const stringText = fc
  .array(
    fc.oneof(
      fc.string({ unit: "binary", maxLength: 3 }).map((text) => JSON.stringify(text).slice(1, -1)),
      fc.constantFrom("\\n", "\\/", "\\\\", '\\"', "\\ud83d\\ude00", "\\ud800", "\\u0000", "日本", "\u2028"),
      fc.nat(0xffff).map((code) => `\\u${code.toString(16).padStart(4, "0")}`),
    ),
    { maxLength: 6 },
  )
  .map((parts) => `"${parts.join("")}"`);

const keyText = fc.oneof(
  fc
    .constantFrom(...Object.keys(NAMES), "correlation", "__proto__x", "constructor", "")
    .chain((name) =>
      fc
        .array(fc.boolean(), { minLength: name.length, maxLength: name.length })
        .map(
          (escaped) =>
            `"${[...name].map((letter, at) => (escaped[at] && at === 0 ? unicodeEscape(letter) : letter)).join("")}"`,
        ),
    ),
  stringText,
);

function unicodeEscape(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const numberText = fc.oneof(
  fc.constantFrom("0", "-0", "1e5", "1E-5", "-1.25e+3", "12345678901234567890", "0.10"),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
);

const { value: valueText } = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom("true", "false", "null"),
    numberText,
    stringText,
    tie("object"),
    tie("array"),
  ),
  object: objectText(tie("value")),
  array: fc
    .array(fc.tuple(blank, tie("value"), blank), { maxLength: 4 })
    .map((items) => `[${items.map((parts) => parts.join("")).join(",")}]`),
}));

function objectText(value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .tuple(blank, fc.array(fc.tuple(blank, keyText, blank, blank, value, blank), { maxLength: 6 }))
    .map(
      ([inner, members]) =>
        `{${members.length === 0 ? inner : members.map(([a, key, b, c, item, d]) => `${a}${key}${b}:${c}${item}${d}`).join(",")}}`,
    );
}

function pageText(): fc.Arbitrary<string> {
  return fc
    .array(fc.tuple(blank, objectText(valueText), blank), { maxLength: 6 })
    .map((events) => `[${events.map((parts) => parts.join("")).join(",")}]`);
}

function timestampText(): fc.Arbitrary<string> {
  const digits = (count: number, max: number) =>
    fc.integer({ min: 0, max }).map((value) => String(value).padStart(count, "0"));
  return fc
    .tuple(
      fc.oneof(
        digits(4, 9999),
        digits(4, 2100).map((year) => (Number(year) < 1900 ? "2024" : year)),
      ),
      digits(2, 13),
      digits(2, 32),
      digits(2, 24),
      digits(2, 60),
      digits(2, 61),
      fc.oneof(
        fc.constant(""),
        fc.nat(999_999_999).map((value) => `.${value}`),
        fc.constant(".000000001"),
      ),
      fc.constantFrom("Z", "Z", "Z", "z", "+00:00", "-05:30", "+0130", ""),
      fc.constantFrom("T", "T", "T", "t", " "),
    )
    .map(
      ([year, month, day, hour, minute, second, fraction, zone, separator]) =>
        `${year}-${month}-${day}${separator}${hour}:${minute}:${second}${fraction}${zone}`,
    );
}

/** As `fieldText` gives it. */
function textOf(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}
