// A campaign: part of `npm test`, too long for `npm run test:unit`.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createShapeEngine } from "../../src/core/shape-engine.ts";
import { lostClass } from "../../src/formats/ocsf.ts";
import { createDrift } from "../../src/services/count-drift.ts";
import { journalEvent } from "../formats/event.ts";
import { fixtureTexts } from "../formats/recipes-support.ts";

const key = fc.constantFrom(
  "id",
  "success",
  "resource",
  "changes",
  "username",
  "x",
  "ä",
  'a"b',
  "geoip",
  "mfa",
);
const leaf = fc.oneof(
  fc.string(),
  fc.boolean(),
  fc.constant(null),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);
const { value } = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: "small" }, leaf, fc.array(tie("value")), fc.dictionary(key, tie("value"))),
}));
const event = fc
  .record({
    service: fc.constantFrom("directory", "sso", "new"),
    event_type: fc.constantFrom("user_create", "y"),
  })
  .chain((head) => fc.dictionary(key, value).map((rest) => ({ ...head, ...(rest as object) })));

describe("drift by shape", () => {
  test("counts what comparing every event with its schema counts", () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 8 }), (events) => {
        const together = createDrift();
        const counts = new Map<string, number>();
        for (const one of [...events, ...events]) {
          together.observe(journalEvent(one));
          const alone = createDrift();
          alone.observe(journalEvent(one));
          for (const row of alone.rows()) {
            const name = JSON.stringify([row.service, row.kind, row.path, row.detail]);
            counts.set(name, (counts.get(name) ?? 0) + row.count);
          }
        }
        const found = together
          .rows()
          .map((row) => [JSON.stringify([row.service, row.kind, row.path, row.detail]), row.count] as const);
        expect(new Map(found)).toEqual(counts);
      }),
      { numRuns: 40 },
    );
  });

  test("counts lost classes as asking for every event does", () => {
    const values = ["", "x", "admin", "user", "203.0.113.9", null, 1, true, {}, { id: "a", type: "user" }];
    const changed = fc.record({
      text: fc.constantFrom(...fixtureTexts().filter((text) => text.startsWith("{"))),
      key: fc.nat(),
      value: fc.constantFrom(...values),
    });
    fc.assert(
      fc.property(fc.array(changed, { minLength: 1, maxLength: 8 }), (changes) => {
        const together = createDrift(undefined, lostClass);
        const counts = new Map<string, number>();
        const events = changes.map(({ text, key, value }) => {
          const fields = { ...JSON.parse(text), unheard_of: 1 };
          const keys = Object.keys(fields);
          fields[keys[key % keys.length]!] = value;
          return journalEvent(fields);
        });
        for (const one of [...events, ...events]) {
          together.observe(one);
          const alone = createDrift(undefined, lostClass);
          alone.observe(one);
          for (const row of alone.rows()) {
            const name = JSON.stringify([row.service, row.kind, row.path, row.detail]);
            counts.set(name, (counts.get(name) ?? 0) + row.count);
          }
        }
        const found = together.rows().map((row) => {
          return [JSON.stringify([row.service, row.kind, row.path, row.detail]), row.count] as const;
        });
        expect(new Map(found)).toEqual(counts);
      }),
      { numRuns: 25 },
    );
  });

  test("a shape is made of keys and types, not of values or blanks", () => {
    const engine = createShapeEngine();
    const shape = (text: string) => engine.shapeOf(Buffer.from(text));
    const one = shape('{"a":"x","b":[1,true,null],"c":{"d":1.5}}');
    expect(shape('{ "a" : "other \\" text", "b": [ 22, false, null ],\n"c":{"d":0.25}}')).toBe(one);
    expect(shape('{"a":1,"b":[1,true,null],"c":{"d":1.5}}')).not.toBe(one);
    expect(shape('{"a":"x","b":[1,true],"c":{"d":1.5}}')).not.toBe(one);
    expect(shape('{"a":"x","b":[1,true,null],"e":{"d":1.5}}')).not.toBe(one);
    expect(shape('{"a":"x","b":[1,true,null,{"c":{"d":1.5}}]}')).not.toBe(one);
  });

  test("an integer beyond the precision of a double has another shape than one within it", () => {
    const engine = createShapeEngine();
    const shape = (text: string) => engine.shapeOf(Buffer.from(text));
    expect(shape('{"a":9007199254740993}')).not.toBe(shape('{"a":9007199254740991}'));
    expect(shape('{"a":123456789012345678901}')).not.toBe(shape('{"a":12345}'));
    expect(shape('{"a":1e400}')).not.toBe(shape('{"a":1e3}'));
  });

  test("gives no shape for text that is no object, too deep or too large", () => {
    const engine = createShapeEngine();
    expect(engine.shapeOf(Buffer.from("[1]"))).toBeUndefined();
    expect(engine.shapeOf(Buffer.from('{"a":"cut'))).toBeUndefined();
    expect(engine.shapeOf(Buffer.from(`${'{"a":'.repeat(100)}1${"}".repeat(100)}`))).toBeUndefined();
    expect(engine.shapeOf(Buffer.from(JSON.stringify({ a: "x".repeat(2_000_000) })))).toBeUndefined();
  });
});
