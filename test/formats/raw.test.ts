import fc from "fast-check";
import { expect, test } from "vitest";
import { envelope } from "../../src/formats/envelope.ts";
import { raw } from "../../src/formats/raw.ts";
import { describe } from "../../src/services/index.ts";
import { journalEvent } from "./event.ts";

const rawFormat = raw.create({}, { describe });
const envelopeFormat = envelope.create({}, { describe });
const ODD = '{"n": 1.0, "big": 18446744073709551615, "a": 1, "a": 2, "s": "\\ud800", "t": "\\/\\n" }';

test("raw is the very same memory where there is nothing to leave out", () => {
  const event = journalEvent(ODD);
  expect(rawFormat.encode(event)).toBe(event.bytes);
});

test("raw leaves out the line breaks between members and nothing else", () => {
  const event = journalEvent('{\r\n  "a": "\\" \\\\",\n\t"b": [1,\n2]\n}');
  expect(Buffer.from(rawFormat.encode(event)).toString()).toBe('{  "a": "\\" \\\\",\t"b": [1,2]}');
});

test("raw escapes a line break inside a string, where JSON allows none", () => {
  const bytes = Buffer.from('{"a":"x\ny\\\r"}\n');
  expect(Buffer.from(rawFormat.encode(journalEvent("{}", { bytes }))).toString()).toBe('{"a":"x\\ny\\\\r"}');
});

test("raw of any JSON, however it is laid out, is one line with the same meaning", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom("", " ", "\n", "\r\n"), (value, indent) => {
      const text = JSON.stringify({ value }, null, indent);
      const line = Buffer.from(rawFormat.encode(journalEvent("{}", { bytes: Buffer.from(text) }))).toString();
      expect(line).toBe(text.replace(/[\r\n]/g, ""));
      expect(JSON.parse(line)).toEqual(JSON.parse(text));
    }),
  );
});

test("the envelope holds the original byte for byte, with the program's own fields beside it", () => {
  const event = journalEvent(ODD, {
    correlationId: "c",
    organization: "org",
    service: "sso",
    eventType: "x",
  });
  const text = Buffer.from(envelopeFormat.encode(event)).toString();
  expect(text.endsWith(`,"event":${ODD}}`)).toBe(true);
  const { event: inner, ...own } = JSON.parse(text) as Record<string, unknown>;
  expect(inner).toEqual(JSON.parse(ODD));
  expect(own).toEqual({
    identity: event.identity,
    account: "acme",
    organization: "org",
    provider: null,
    service: "sso",
    event_type: "x",
    fetched_at: "2026-11-15T00:00:00.000Z",
    position: { page: 7, index: 3 },
  });
});

test("the envelope of an event that was laid out over lines is one line", () => {
  const text = Buffer.from(envelopeFormat.encode(journalEvent('{\n"a": 1\n}'))).toString();
  expect(text).toMatch(/,"event":\{"a": 1\}\}$/);
});
