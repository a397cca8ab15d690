import { describe, expect, test } from "vitest";
import { prefilterOf, safeRun, textPrefilter, textTest } from "../../src/search/find/text.ts";
import { createTextEngine, type TextEngine } from "../../src/search/find/text-engine.ts";

const bytesOf = (text: string) => Buffer.from(text, "utf8");
function placesOf(engine: TextEngine, content: Uint8Array): number[] {
  const room = engine.room(content.length);
  room.set(content);
  const places = engine.placesIn(room);
  // A search keeps the frame from there, and reads the events out of it.
  expect(Buffer.from(room).equals(content)).toBe(true);
  return places;
}
const may = (text: string, word: string) => createTextEngine([word]).mayContain(bytesOf(text));

describe("a look at the bytes before events are parsed", () => {
  test("finds a word wherever it begins, in whatever case, and nothing else", () => {
    for (let before = 0; before < 70; before++)
      for (const word of ["xy", "users without mfa", "a.b-c@d", "q".repeat(40)]) {
        const text = `${"-".repeat(before)}${word.toUpperCase()}${"-".repeat(before % 5)}`;
        expect(may(text, word)).toBe(true);
        expect(may(text.slice(0, before + word.length - 1), word)).toBe(false);
        expect(may(text.replace(word.toUpperCase(), "-".repeat(word.length)), word)).toBe(false);
      }
  });

  test("bytes that differ from a letter or a sign in the bit of the case are others", () => {
    // @ and `, [ and {, CR and minus, and bytes beyond ASCII.
    expect(may("@b", "`b")).toBe(false);
    expect(may("[1", "{1")).toBe(false);
    expect(may("\r1", "-1")).toBe(false);
    expect(may("\u00c1x", "ax")).toBe(false);
  });

  test.each([
    ['"\\u0041dmin"', "admin"],
    ['"adm\\u0069n"', "admin"],
    ['"\\u212aelvin"', "kelvin"],
    ['"\u212aelvin"', "kelvin"],
    ['"\\u0130stanbul"', "istanbul"],
    ['"\u0130stanbul"', "istanbul"],
    ['"\\\\\\u0061dmin"', "admin"],
    ['"\\u0061\\u0064\\u006D\\u0069\\u006e"', "admin"],
    ['"\u0130\u0130\\\\x\\u0061bc"', "abc"],
  ])("finds %s as %s", (text, word) => {
    expect(may(text, word)).toBe(true);
  });

  test.each([
    ['"C:\\\\users\\\\u0061bc"', "abc"],
    ['"\\u00e4bc"', "abc"],
    ['"\\u006"', "admin"],
    ["\\u", "admin"],
    ["\u00e2\u0084", "kelvin"],
  ])("does not find %s as %s", (text, word) => {
    expect(may(text, word)).toBe(false);
  });

  test("names a place in every line that contains a word, in one spelling or another", () => {
    const lines = ["nothing", "one NEEDLE and a needle", "C:\\\\users", "n\\u0065edle", "", "needle"];
    const content = bytesOf(lines.join("\n"));
    const lineAt = (at: number) => content.toString("utf8", 0, at).split("\n").length - 1;
    expect(
      placesOf(createTextEngine(["needle"]), content)
        .map(lineAt)
        .toSorted(),
    ).toEqual([1, 3, 5]);
    const both = placesOf(createTextEngine(["needle", "nothing"]), content).map(lineAt);
    expect([...new Set(both)].toSorted()).toEqual([0, 1, 3, 5]);
  });

  test("agrees with a plain search in random lines, by place and by slice", () => {
    const random = randomFrom(7);
    const pieces = [
      "a",
      "B",
      "n",
      "Ee",
      "dl",
      "\\\\",
      "\\u0065",
      "\\n",
      "\u212a",
      "\u0130",
      "\u00e9",
      " ",
      '"',
    ];
    const pick = () => pieces[Math.floor(random() * pieces.length)]!;
    for (let round = 0; round < 400; round++) {
      const lines = Array.from({ length: 12 }, () => Array.from({ length: 30 }, pick).join(""));
      const content = bytesOf(lines.join("\n"));
      const word = ["ne", "bn", "need", "k ", "ia"][round % 5]!;
      let start = 0;
      const slices = lines.map((line) => {
        const slice = { start, length: Buffer.byteLength(line) };
        start += slice.length + 1;
        return slice;
      });
      const wanted = lines.map((line) => reference(line).includes(word));
      const engine = createTextEngine([word]);
      expect(engine.candidates(content, slices), content.toString()).toEqual(wanted);
      const places = placesOf(engine, content);
      const byPlace = slices.map(({ start: from, length }) =>
        places.some((at) => at >= from && at < from + length),
      );
      expect(byPlace, content.toString()).toEqual(wanted);
      expect(engine.mayContain(content)).toBe(wanted.includes(true));
    }
  });

  test("takes content of any size and words of any length", () => {
    const engine = createTextEngine(["needle"]);
    expect(engine.mayContain(Buffer.alloc(3_000_000, "x"))).toBe(false);
    expect(engine.mayContain(Buffer.concat([Buffer.alloc(3_000_000, "x"), bytesOf("needle")]))).toBe(true);
    const long = "abc".repeat(500);
    expect(may(`"${long}"`, long)).toBe(true);
    expect(may(long.slice(0, 200), long)).toBe(false);
  });

  test("every event that the test of the parsed event accepts passes", () => {
    const events = [
      { a: "Ünïcode \u{1f600} text" },
      { a: 'quote " inside' },
      { a: "back\\slash" },
      { a: "line\nbreak" },
      { "a key": { b: ["deep", 12345, true, null] } },
    ];
    const texts = ["ünïcode", "\u{1f600} text", 'quote "', "back\\slash", "line\nbreak", "deep", "12345"];
    for (const event of events)
      for (const text of texts) {
        if (!textTest(text)(event, bytesOf(JSON.stringify(event)))) continue;
        const words = textPrefilter(text);
        for (const spelling of [JSON.stringify(event), escaped(event)])
          expect(words === null || createTextEngine(words).mayContain(bytesOf(spelling)), text).toBe(true);
      }
    expect(prefilterOf([safeRun("abc"), null])).toBe(null);
    expect(prefilterOf(Array.from({ length: 51 }, (_, at) => `word ${at}`))).toBe(null);
    expect(safeRun("é")).toBe(null);
  });
});

describe("a text in a number", () => {
  const event =
    '{"id":"a","123k":"\\"777","big":9007199254740993,"list":[{"price":2.50},-1E400],"plain":42,"text":"5.10"}';
  const found = (text: string, source = event) => {
    const words = textPrefilter(text);
    const may = words === null || createTextEngine(words).mayContain(bytesOf(source));
    return may && textTest(text)(parsedOf(source), bytesOf(source));
  };

  test.each(["9007199254740993", "54740993", "2.50", "1e400", "-1E400", "42", "5.10", '"777', "777"])(
    "%s is found as the event has it",
    (text) => expect(found(text)).toBe(true),
  );

  test.each(["9007199254740992", "123", "2.500", "1e4000", "-2.50", "50,"])("%s is not found", (text) =>
    expect(found(text)).toBe(false),
  );

  test("bytes that are no JSON have no numbers", () => {
    expect(found("12345", '{"a":12345')).toBe(false);
  });
});

function parsedOf(source: string): unknown {
  try {
    return JSON.parse(source);
  } catch {
    return undefined;
  }
}

/** Every letter as an escape. */
function escaped(event: object): string {
  return JSON.stringify(event).replace(
    /[a-z]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function reference(line: string): string {
  return line
    .replace(/(\\\\)|\\u([0-9a-f]{4})/gi, (_, slashes, code) =>
      slashes ? "\\\\" : String.fromCharCode(Number.parseInt(code, 16)),
    )
    .replaceAll("\u212a", "k")
    .replaceAll("\u0130", "i")
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}
