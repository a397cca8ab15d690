import { isIP } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createRecordEngine } from "../../src/core/record-engine.ts";
import { isEmail } from "../../src/formats/wording.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { pairsOf } from "../support/hashes.ts";

const engine = createRecordEngine(reads);

/** The events' answers. */
function answersOf(...events: readonly object[]): string[] {
  const lines = events.map((event) => `${JSON.stringify(event)}\n`).join("");
  return pairsOf(engine.answers(Buffer.from(lines)));
}

const WORDS = [
  "anna",
  "Anna",
  "ANNA",
  "otto",
  "OTTO",
  "a-name-that-is-longer-than-16",
  "A-name-that-is-longer-than-16",
];

/** Which earlier word each one equals, exactly and without regard to case. */
function relationsOf(words: readonly string[]): string {
  const lower = words.map((word) => word.toLowerCase());
  return JSON.stringify(words.map((word, at) => [words.indexOf(word), lower.indexOf(lower[at]!)]));
}

test("answers say which texts are equal, and which are equal without regard to case", () => {
  const three = fc.tuple(...[0, 1, 2].map(() => fc.constantFrom(...WORDS)));
  const eventOf = ([id, username, name]: readonly string[]) => ({ id, username, resource: { name } });
  fc.assert(
    fc.property(three, three, (one, other) => {
      const [first, second] = answersOf(eventOf(one), eventOf(other));
      if (first === second) expect(relationsOf(one)).toBe(relationsOf(other));
      // Texts in one case have no answer but their relations.
      const isLower = [...one, ...other].every((word) => word === word.toLowerCase());
      if (isLower) expect(first === second).toBe(relationsOf(one) === relationsOf(other));
    }),
    { numRuns: 2000 },
  );
});

const part = fc.string({ unit: fc.constantFrom(...'aZ09.-@!#{|}~_"(:ä '), maxLength: 40 });
const email = fc.oneof(
  part,
  fc.tuple(part, part).map((parts) => parts.join("@")),
  fc.nat(90).map((length) => `${"a".repeat(length)}@b.example`),
  fc.nat(90).map((length) => `a@b.${"c".repeat(length)}`),
);

test("answers tell e-mail addresses from other texts as the formats do", () => {
  const eventOf = (text: string) => ({ jc_initiated_by_email: text });
  const [yes, no] = answersOf(eventOf("anna@example.com"), eventOf("anna"));
  fc.assert(
    fc.property(email, (text) => {
      // A text with escapes, or with letters outside ASCII, decides by its value.
      fc.pre(text !== "" && /^[\x20-\x7e]*$/.test(text) && !text.includes('"'));
      expect(answersOf(eventOf(text))).toEqual([isEmail(text) ? yes : no]);
    }),
    { numRuns: 5000 },
  );
});

const octet = fc.oneof(
  fc.nat(300).map(String),
  fc.constantFrom("", "0", "00", "01", "255", "256", "1000", "a"),
);

test("answers tell IP addresses from other texts as Node does", () => {
  const eventOf = (text: string) => ({ client_ip: text });
  const [yes, no] = answersOf(eventOf("192.0.2.1"), eventOf("anna"));
  fc.assert(
    fc.property(fc.array(octet, { minLength: 1, maxLength: 6 }), (octets) => {
      const text = octets.join(".");
      fc.pre(text !== "");
      expect(answersOf(eventOf(text))).toEqual([isIP(text) === 0 ? no : yes]);
    }),
    { numRuns: 5000 },
  );
});

const digit = fc.constantFrom(..."0123456789");
const time = fc
  .tuple(
    fc.date({ min: new Date("2000-01-01"), max: new Date("2099-01-01"), noInvalidDate: true }),
    fc.string({ unit: digit, maxLength: 12 }),
    fc.constantFrom("", "x", "."),
  )
  .map(([date, fraction, more]) => `${date.toISOString().slice(0, 19)}${fraction && `.${fraction}`}${more}Z`);

test("answers tell times in UTC from other texts", () => {
  const eventOf = (text: string) => ({ timestamp: text });
  const [yes] = answersOf(eventOf("2026-11-15T17:00:00.123Z"));
  fc.assert(
    fc.property(time, (text) => {
      const isTime = /^.{19}(\.\d{1,9})?Z$/.test(text) && !text.startsWith("02-29", 5);
      const isEarly = text.startsWith("20") && text.slice(0, 2) >= "01";
      expect(answersOf(eventOf(text))[0] === yes).toBe(isTime && isEarly);
    }),
    { numRuns: 5000 },
  );
});
