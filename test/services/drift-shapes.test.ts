// A campaign: part of `npm test`, too long for `npm run test:unit`.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { allocateAnew } from "../../src/core/buffer-pool.ts";
import type { DriftRow } from "../../src/core/drift.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { createRecordEngine, recordEvents } from "../../src/core/record-engine.ts";
import { scanLines } from "../../src/core/scanner.ts";
import { lostClass } from "../../src/formats/ocsf.ts";
import { createDrift, type LostClass } from "../../src/services/count-drift.ts";
import { services } from "../../src/services/index.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { shapeOf } from "../../src/services/schema-shape.ts";
import { journalEvent } from "../formats/event.ts";
import { fixtureTexts } from "../formats/recipes-support.ts";
import { openFixture } from "../journal/support.ts";
import { NO_HASH, pairsOf } from "../support/hashes.ts";
import { ORGANIZATION, pageOf } from "../support/pages.ts";

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

const nameOf = (row: DriftRow) => JSON.stringify([row.service, row.kind, row.path, row.detail]);

/** The rows of all events, each of which comes twice: the second time its shape is known. */
function countedTogether(events: readonly JournalEvent[], lost?: LostClass): ReadonlyMap<string, number> {
  const drift = createDrift(undefined, lost);
  for (const one of [...events, ...events]) drift.observe(one);
  return new Map(drift.rows().map((row) => [nameOf(row), row.count]));
}

/** The same by comparing each event with its schema, once: a new count knows no shapes. */
function countedAlone(events: readonly JournalEvent[], lost?: LostClass): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const one of events) {
    const drift = createDrift(undefined, lost);
    drift.observe(one);
    for (const row of drift.rows()) counts.set(nameOf(row), (counts.get(nameOf(row)) ?? 0) + 2 * row.count);
  }
  return counts;
}

describe("drift by shape", () => {
  test("counts what comparing every event with its schema counts", () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 8 }), (events) => {
        const scanned = events.map((one) => journalEvent(one));
        expect(countedTogether(scanned)).toEqual(countedAlone(scanned));
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
        const events = changes.map(({ text, key, value }) => {
          const fields = { ...JSON.parse(text), unheard_of: 1 };
          const keys = Object.keys(fields);
          fields[keys[key % keys.length]!] = value;
          return journalEvent(fields);
        });
        expect(countedTogether(events, lostClass)).toEqual(countedAlone(events, lostClass));
      }),
      { numRuns: 25 },
    );
  });

  test.each(["by the page thread", "here"])(
    "counts a page whose answers were found %s as its events one by one",
    async (by) => {
      const texts = fixtureTexts().filter((text) => text.startsWith("{"));
      const events = texts.flatMap((text, number) => {
        const fields = JSON.parse(text) as Record<string, unknown>;
        const suspended = { field: "suspended", to: true };
        return [
          fields,
          { ...fields, unheard_of: 1 },
          { ...fields, unheard_of: 2, changes: [suspended] },
          { ...fields, unheard_of: 3, changes: [{ ...suspended, to: false }], resource: undefined },
          { ...fields, unheard_of: 4, initiated_by: { type: "user", username: "x" }, username: "x" },
          { ...fields, unheard_of: 5, initiated_by: { type: "user", username: "x" }, username: "y" },
        ].map((one, at) => JSON.stringify({ ...one, organization: ORGANIZATION, id: `${number}-${at}` }));
      });
      const fixture = openFixture();
      try {
        // A page stays decoded for the readers that have asked already.
        const reader = await fixture.journal.reader("~follower");
        expect(await reader.read(reader.position)).toBeNull();
        const commit = pageOf(events);
        const engine = createRecordEngine(reads);
        const records = by === "here" ? undefined : recordEvents(engine, commit.page.scanned, allocateAnew);
        const appended = await fixture.journal.append({ ...commit, page: { ...commit.page, records } });
        expect(appended.fresh).toBe(events.length);
        const page = (await reader.read(reader.position))!;
        expect(page.lines!.answers!(0, page.count) !== undefined).toBe(by !== "here");
        const [together, alone] = [createDrift(undefined, lostClass), createDrift(undefined, lostClass)];
        together.observePage(page, 0, page.count);
        for (let index = 0; index < page.count; index++) alone.observe(page.event(index));
        expect(together.rows().some((row) => row.kind === "class")).toBe(true);
        expect(new Set(together.rows())).toEqual(new Set(alone.rows()));
        page.lease.release();
      } finally {
        fixture.close();
      }
    },
  );

  const shape = (text: string) => pairsOf(scanLines(Buffer.from(text)).shapes)[0]!;
  const engine = createRecordEngine(reads);
  const answers = (text: string) => pairsOf(engine.answers(Buffer.from(text)))[0]!;

  test("a shape is made of keys and types, not of values or blanks", () => {
    const one = shape('{"a":"x","b":[1,true,null],"c":{"d":1.5}}');
    expect(shape('{ "a" : "other \\" text", "b": [ 22, false, null ],\n"c":{"d":0.25}}')).toBe(one);
    expect(shape('{"a":1,"b":[1,true,null],"c":{"d":1.5}}')).not.toBe(one);
    expect(shape('{"a":"x","b":[1,true],"c":{"d":1.5}}')).not.toBe(one);
    expect(shape('{"a":"x","b":[1,true,null],"e":{"d":1.5}}')).not.toBe(one);
    expect(shape('{"a":"x","b":[1,true,null,{"c":{"d":1.5}}]}')).not.toBe(one);
  });

  test("service and type are part of it, under any spelling of their key", () => {
    expect(shape('{"event_type":"a"}')).not.toBe(shape('{"event_type":"b"}'));
    expect(shape('{"service":"a"}')).not.toBe(shape('{"service":"b"}'));
    expect(shape('{"x":{"service":"a"}}')).toBe(shape('{"x":{"service":"b"}}'));
    expect(shape('{"event\\u005ftype":"a"}')).not.toBe(shape('{"event\\u005ftype":"b"}'));
    expect(shape('{"event_type":"\\u0061"}')).not.toBe(shape('{"event_type":"\\u0062"}'));
    expect(shape('{"x":1,"service":"a"}')).not.toBe(shape('{"x":1,"service":"b"}'));
  });

  test("an array is the set of its elements' shapes, as far as elements are compared", () => {
    expect(shape('{"a":[{"b":1},{"c":1}]}')).toBe(shape('{"a":[{"c":2},{"b":1},{"c":3}]}'));
    expect(shape('{"a":[{"b":1},{"c":1}]}')).not.toBe(shape('{"a":[{"b":1}]}'));
    expect(shape('{"a":[[1],["x"]]}')).not.toBe(shape('{"a":[[1,"x"]]}'));
    const late = (place: number) =>
      JSON.stringify({ a: Array.from({ length: 60 }, (_, at) => (at === place ? "x" : 1)) });
    expect(shape(late(10))).toBe(shape(late(49)));
    expect(shape(late(10))).not.toBe(shape(late(50)));
  });

  test("answers are the values that decide and equal names, and nothing of members that are not read", () => {
    const by = (value: string) => `{"initiated_by":${value}}`;
    expect(answers(by('{"type":"user"}'))).not.toBe(answers(by('{"type":"admin"}')));
    expect(answers(by('{"type":"user"}'))).toBe(answers(by('{"type":"user","x":{"type":"admin"}}')));
    expect(answers(by('{"id":""}'))).not.toBe(answers(by('{"id":"a"}')));
    expect(answers(by('"a"'))).not.toBe(answers(by('"b"')));
    expect(answers(by("null"))).not.toBe(answers(by('{"id":null}')));
    const users = (name: string) => `{"username":"a","initiated_by":{"username":"${name}"}}`;
    expect(answers(users("b"))).toBe(answers(users("c")));
    expect(answers(users("a"))).not.toBe(answers(users("b")));
    expect(answers(users("A"))).not.toBe(answers(users("b")));
    expect(answers(users("\\u0061"))).not.toBe(answers(users("b")));
  });

  test("answers are the changes that decide, in events of the types where they do", () => {
    const event = (changes: string, type = "user_update") => `{"changes":${changes},"event_type":"${type}"}`;
    const suspended = (to: boolean) => `{"field":"suspended","to":${to}}`;
    const one = answers(event(`[${suspended(true)}]`));
    const changed = (field: string, from: string, to: string) =>
      answers(event(`[{"field":"${field}","from":${from},"to":${to}}]`));
    expect(changed("suspended", "false", '"TRUE"')).toBe(one);
    expect(changed("suspended", "null", '"tru\\u0065"')).not.toBe(
      changed("suspended", "null", '"tru\\u0066"'),
    );
    // Only the effect counts, and a role by its rank.
    expect(changed("email", '"a"', '"b"')).toBe(changed("recoveryEmail", '"c"', "null"));
    expect(changed("role", '"Manager"', '"a"')).toBe(changed("role", '"b"', '"c"'));
    expect(changed("role", '"manager"', '"Help Desk"')).toBe(changed("role", '"administrator"', '"manager"'));
    expect(changed("role", '"manager"', '"Help Desk"')).not.toBe(changed("role", '"help desk"', '"manager"'));
    expect(changed("role", '["manager"]', '"help desk"')).toBe(changed("role", "7", '"manager"'));
    expect(changed("role", '"manager"', '"help des\u212a"')).not.toBe(changed("role", '"manager"', '"x"'));
    expect(answers(event(`[${suspended(false)}]`))).not.toBe(one);
    expect(answers(event(`[{"field":"address","to":1},${suspended(true)}]`))).toBe(one);
    expect(answers(event(`[{"fie\\u006cd":"suspended","to":false}]`))).not.toBe(answers(event("[]")));
    expect(answers(event(`[{"field":"x","to":{"suspended":true}}]`))).not.toBe(answers(event("[]")));
    const created = answers(event(`[${suspended(true)}]`, "user_create"));
    expect(answers(event(`[${suspended(false)}]`, "user_create"))).toBe(created);
    const many = (last: number) =>
      JSON.stringify(Array.from({ length: 201 }, (_, at) => ({ field: "x", to: at === 200 ? last : 0 })));
    // So many decide by all their bytes.
    expect(answers(event(many(1)))).not.toBe(answers(event(many(2))));
  });

  test("the values of a change are not part of the shape, because every schema allows any", () => {
    const change = (rest: string) => shape(`{"changes":[{"field":"a"${rest}}]}`);
    expect(change(',"from":{"b":[1]},"to":null')).toBe(change(',"from":"x", "to" : {"c":1}'));
    expect(change(',"from":1')).not.toBe(change(',"to":1'));
    expect(change(',"reason":1')).not.toBe(change(',"reason":"x"'));
    const anything = { types: [], fields: undefined, values: undefined, elements: undefined };
    // The fallback knows no changes, so it does not look into them.
    for (const service of services.filter(({ name }) => name !== "fallback")) {
      const changes = shapeOf(service.event).fields?.get("changes")?.elements?.fields;
      expect([service.name, changes?.get("from"), changes?.get("to")]).toEqual([
        service.name,
        anything,
        anything,
      ]);
    }
  });

  test("counts lost classes of changes as asking for every event does", () => {
    const names = [...reads.changes.names.keys(), "address", "Sus-pended", "attributes.suspended", "ä", ""];
    const value = fc.oneof(leaf, fc.constantFrom("resolved", "true", {}, { suspended: true }, [1]));
    const entry = fc.record(
      { field: fc.constantFrom(...names), from: value, to: value, more: value },
      { requiredKeys: [] },
    );
    const changed = fc.record({
      event_type: fc.constantFrom("user_update", "alert_status_change", "admin_update", "user_create"),
      changes: fc.array(fc.oneof({ weight: 9, arbitrary: entry }, leaf), { maxLength: 4 }),
      isLast: fc.boolean(),
      isWide: fc.boolean(),
    });
    const texts = fixtureTexts().filter((text) => text.includes('"changes"'));
    let classes = 0;
    fc.assert(
      fc.property(
        fc.constantFrom(...texts),
        fc.array(changed, { minLength: 2, maxLength: 10 }),
        (text, all) => {
          const events = all.map(({ event_type, changes, isLast, isWide }) => {
            const head = isLast ? { event_type, changes } : { changes, event_type };
            const fields = { ...head, ...JSON.parse(text), ...head, unheard_of: 1, resource: undefined };
            return journalEvent(JSON.stringify(fields, null, isWide ? 1 : 0));
          });
          const counts = countedAlone(events, lostClass);
          expect(countedTogether(events, lostClass)).toEqual(counts);
          for (const name of counts.keys()) if (JSON.parse(name)[1] === "class") classes++;
        },
      ),
      { numRuns: 20 },
    );
    expect(classes).toBeGreaterThan(10);
  });

  test("an integer beyond the precision of a double has another shape than one within it", () => {
    expect(shape('{"a":9007199254740993}')).not.toBe(shape('{"a":9007199254740991}'));
    expect(shape('{"a":123456789012345678901}')).not.toBe(shape('{"a":12345}'));
    expect(shape('{"a":1e400}')).not.toBe(shape('{"a":1e3}'));
    expect(shape(`{"a":${"1".repeat(320)}.5}`)).not.toBe(shape('{"a":1.5}'));
  });

  test("a shape ends where schemas are not compared any more", () => {
    const nested = (depth: number, value: string) => `${'{"a":'.repeat(depth)}${value}${"}".repeat(depth)}`;
    expect(shape(nested(6, "1"))).not.toBe(shape(nested(6, '"x"')));
    expect(shape(nested(6, '{"b":1}'))).not.toBe(shape(nested(6, "[1]")));
    expect(shape(nested(7, "1"))).toBe(shape(nested(7, '"x"')));
    expect(shape(nested(6, '{"b":1}'))).toBe(shape(nested(6, '{"c":[1,{}]}')));
    const list = (depth: number, value: string) => `{"a":${"[".repeat(depth)}${value}${"]".repeat(depth)}}`;
    expect(shape(list(5, "1"))).not.toBe(shape(list(5, '"x"')));
    expect(shape(list(6, "1"))).toBe(shape(list(6, '"x"')));
  });

  test("two events of one shape differ from their schema in the same way", () => {
    const texts = fixtureTexts().filter((text) => text.startsWith("{"));
    const byShape = new Map<string, string>();
    const rowsOf = (one: object) => {
      const drift = createDrift();
      drift.observe(journalEvent(one));
      return JSON.stringify(drift.rows().map(nameOf).sort());
    };
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.dictionary(key, value), (text, more) => {
        const one = { ...JSON.parse(text), ...more };
        const rows = rowsOf(one);
        const own = shape(JSON.stringify(one));
        expect(rows).toBe(byShape.get(own) ?? rows);
        byShape.set(own, rows);
      }),
      { numRuns: 200 },
    );
  });

  test("gives no answers for text that is no object, cut off or nested too deeply", () => {
    const all = (text: string) => pairsOf(engine.answers(Buffer.from(text))).map((one) => one !== NO_HASH);
    const deep = `${'{"a":'.repeat(100)}1${"}".repeat(100)}`;
    expect(all(`[1]\n{"a":1}\n${deep}\n{"a":"cut\n{"b":1}`)).toEqual([false, true, false, false, true]);
    expect(all('{"a":"cut')).toEqual([false]);
    expect(all("\n".repeat(5000))).toHaveLength(engine.eventsMax);
  });

  test("an event has a shape while it is too small to have too many values", () => {
    const text = (bytes: number) => `{"a":"${"x".repeat(bytes - 8)}"}`;
    expect(text(300)).toHaveLength(300);
    expect(shape(text(199_999))).toBe(shape(text(300)));
    expect(shape(text(200_000))).toBe(NO_HASH);
  });

  test("a very large event is not taken for a small one with the same members", () => {
    const drift = createDrift();
    for (const length of [10, 5_000_000, 300_000, 10])
      drift.observe(journalEvent({ service: "directory", unheard_of: "x".repeat(length) }));
    const counts = drift.rows().map(({ path, detail, count }) => [path, detail, count]);
    expect(counts).toContainEqual(["unheard_of", "", 3]);
    expect(counts).toContainEqual(["", "object, not too large", 1]);
  });

  test("an event that is too large for the engine counts too", () => {
    const drift = createDrift();
    drift.observe(journalEvent({ service: "directory", unheard_of: "x".repeat(2_000_000) }));
    expect(drift.rows()).not.toHaveLength(0);
  });

  test("more shapes than are remembered are counted right", () => {
    const drift = createDrift(100_000);
    const event = (number: number) =>
      journalEvent({ service: "directory", [`k${"x".repeat(number % 50)}`]: 1 });
    for (let number = 0; number < 20_000; number++)
      drift.observe(journalEvent({ service: `s${number}`, k: 1 }));
    for (let number = 0; number < 100; number++) drift.observe(event(number));
    const found = drift.rows().filter(({ kind, service }) => kind === "field" && service === "directory");
    expect(found.map(({ count }) => count)).toEqual(Array.from({ length: 50 }, () => 2));
  });
});
