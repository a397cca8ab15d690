import fc from "fast-check";
import { expect, test } from "vitest";
import { MANY_MAX } from "../../src/core/format.ts";
import type { JournalPage } from "../../src/core/journal.ts";
import { PROCESS_SEED } from "../../src/core/process-seed.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { mutate, mutation } from "./mutations.ts";
import {
  converters,
  fixtureTexts,
  LOGIN,
  makers,
  manyLines,
  pageOfTexts,
  recipesOf,
  withAllRecipes,
} from "./recipes-support.ts";

function logins(count: number, more: (number: number) => object = () => ({})): string[] {
  return Array.from({ length: count }, (_, number) =>
    JSON.stringify({ ...LOGIN, id: `id-${number}`, ...more(number) }),
  );
}

/** What the converter writes for each event of the page. */
function expected(page: JournalPage, converter: (typeof converters)["ocsf"]): string[] {
  return Array.from({ length: page.count }, (_, index) => converter(page.event(index)));
}

test("events of a page that are encoded together are written as the converter writes each of them", () => {
  const texts = fixtureTexts().filter((text) => text.startsWith("{"));
  for (const { converter, recipes } of withAllRecipes()) {
    for (let round = 0; round < 9; round++) {
      // Each round in another order, so that other keys and organizations follow each other.
      const turned = [...texts.slice(round * 7), ...texts.slice(0, round * 7)];
      // Pages from disk have no records of their events.
      const page = pageOfTexts(round % 2 ? turned : turned.toReversed(), { records: round % 3 > 0 });
      expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    }
    expect(recipes.counts.wrong).toBe(0);
    expect(recipes.counts.fast).toBeGreaterThan(4 * texts.length);
  }
});

test("organizations, identities and times are each event's own", () => {
  const texts = logins(200, (number) => ({
    organization: number % 3 ? `0ED99129c72ac75bace7${1000 + (number % 50)}` : undefined,
    timestamp: `2026-10-16T20:${10 + (number % 40)}:34Z`,
  }));
  for (const { converter, recipes } of withAllRecipes())
    for (const organization of ["6a1b6a1b6a1b6a1b6a1b6a1b", null]) {
      const page = pageOfTexts(texts, { organization });
      for (let round = 0; round < 3; round++)
        expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    }
});

test("most events are converted together, and those that are new, odd or checked alone", () => {
  let converted = 0;
  const recipes = recipesOf((describe) => {
    const encode = makers.ocsf(describe);
    return (event) => {
      converted++;
      return encode(event);
    };
  });
  manyLines(recipes, pageOfTexts(logins(100)));
  // Two rare ones; one that teaches, with its two copies; three checks.
  expect(recipes.counts).toMatchObject({ slow: 3, learned: 1, wrong: 0 });
  const learning = converted;
  expect(learning).toBeLessThanOrEqual(9);
  manyLines(recipes, pageOfTexts(logins(200)));
  expect(converted).toBe(learning);
  // One in a thousand is checked.
  for (let page = 0; page < 10; page++) manyLines(recipes, pageOfTexts(logins(200)));
  expect(converted - learning).toBe(2);
});

test("the one in a thousand that is checked is the only one of its page that is converted alone", () => {
  let converted = 0;
  const recipes = recipesOf((describe) => {
    const encode = makers.ocsf(describe);
    return (event) => {
      converted++;
      return encode(event);
    };
  });
  for (let time = 0; time < 2; time++) manyLines(recipes, pageOfTexts(logins(50)));
  const { alone } = recipes.counts;
  converted = 0;
  for (let time = 0; time < 40; time++) manyLines(recipes, pageOfTexts(logins(100)));
  expect(recipes.counts.alone - alone).toBe(4);
  expect(converted).toBe(4);
});

test("an event of very many values is written as the converter does, also where a recipe would fit", () => {
  const withList = (values: number) =>
    JSON.stringify({ ...LOGIN, list: Array.from({ length: values }, () => 1) });
  const texts = [...Array.from({ length: 30 }, () => withList(2)), withList(100_100), withList(2)];
  for (const { converter, recipes } of withAllRecipes()) {
    const page = pageOfTexts(texts);
    expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    expect(String(recipes.encode(page.event(30)))).toBe(converter(page.event(30)));
    expect(recipes.counts.wrong).toBe(0);
  }
});

test("odd events among others are written as the converter does", () => {
  const line = JSON.stringify(LOGIN);
  const odd = [
    line.replace(/,/g, ", ").replace('{"id"', '{ \n "id"'),
    line.replace('"miguel"', '"mi\\u0067uel\\/\\u003c"'),
    line.replace('"mfa":true', '"mfa":false,"mfa":true'),
    line.replace('"mfa":true', '"12":{"a":1.0,"b":1e2,"c":-0}'),
    line.replace('"mfa":true', '"nested":{"a":1,"b":{"a":1},"a":2}'),
    line.replace('"mfa":true', '"nested":{"a":1,"b":{"a":1},"c":2}'),
    line.replace('"mfa":true', '"list":[{"a":1},{"a":2}],"listed":[{"a":1,"a":2}]'),
    line.replace('"mfa":true', `"${"k".repeat(29)}":1,"${"k".repeat(30)}":2,"${"k".repeat(90)}":3`),
    line.replace('"mfa":true', `"${"k".repeat(90)}":3,"${"k".repeat(90)}":3`),
    line.replace('"mfa":true', '"__proto__":{"a":1}'),
    line.replace('"0ed99129c72ac75bace7678a"', '"0\\u0065d99129c72ac75bace7678a"'),
    line.replace('"0ed99129c72ac75bace7678a"', '"Ö"'),
    line.replace('"0ed99129c72ac75bace7678a"', "12"),
    line.replace('"0ed99129c72ac75bace7678a"', "null"),
    line.replace('"0ed99129c72ac75bace7678a"', `"${"o".repeat(400)}"`),
    line.replace('"2026-10-16T20:35:34.936980733Z"', '"some day"'),
    line.replace('"2026-10-16T20:35:34.936980733Z"', "1790000000"),
    line.replace('"miguel"', `"${"x".repeat(5000)}"`),
  ];
  const texts = odd.flatMap((text) => [line, text]);
  for (const { converter, recipes } of withAllRecipes())
    for (let round = 0; round < 8; round++) {
      // The first odd one has a line break. A page with it has no records.
      const page = pageOfTexts(round % 2 ? texts : texts.slice(2));
      expect(page.inPlace!.records === undefined).toBe(round % 2 === 1);
      expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    }
});

test("what the page thread found about an event is used, if it was found for this thread's recipes", () => {
  const recipes = recipesOf(makers.ocsf);
  for (let round = 0; round < 3; round++) manyLines(recipes, pageOfTexts(logins(100)));
  const changed = (seed: string): JournalPage => {
    const page = pageOfTexts(logins(100));
    const records = page.inPlace!.records!;
    const { bytes, places } = records;
    for (let index = 0; index < 100; index++) bytes[places[index]!]! ^= 1;
    return { ...page, inPlace: { ...page.inPlace!, records: { ...records, seed } } };
  };
  const { slow } = recipes.counts;
  // To the recipes, events with another hash are new ones.
  const page = changed(PROCESS_SEED);
  expect(manyLines(recipes, page)).toEqual(expected(page, converters.ocsf));
  expect(recipes.counts.fast).toBeLessThan(400);
  const { fast } = recipes.counts;
  manyLines(recipes, changed("0000000000000000"));
  expect(recipes.counts).toMatchObject({ fast: fast + 100, slow });
});

test("events that name no organization, and long slices, are written as the converter does", () => {
  const texts = [
    ...logins(40, () => ({ organization: undefined })),
    ...logins(40, (number) => ({ username: "x".repeat(250 + number), more: "y".repeat(240 + number) })),
    ...logins(20, (number) => ({ username: "x".repeat(70_000 * (number % 2)) })),
  ];
  for (const { converter, recipes } of withAllRecipes())
    for (let round = 0; round < 3; round++) {
      const page = pageOfTexts(texts, { organization: "6a1b6a1b6a1b6a1b6a1b6a1b" });
      expect(manyLines(recipes, page, 10)).toEqual(expected(page, converter));
    }
});

test("a key that is there twice is noticed, also where a recipe would copy it", () => {
  const line = JSON.stringify(LOGIN);
  const withMember = (member: string) => line.replace('"mfa":true', member);
  const twice = [
    ['"nested":{"a":1,"b":{"a":1}}', '"nested":{"a":1,"b":{"a":1},"a":2}'],
    ['"nested":{"a":1,"b":{"a":1}}', '"nested":{"a":1,"b":{"a":1,"a":3}}'],
    ['"list":[{"a":1},{"a":2}]', '"list":[{"a":1},{"a":2,"a":3}]'],
    ['"other":1,"another":2', '"other":1,"another":2,"other":3'],
    [`"${"k".repeat(40)}":1`, `"${"k".repeat(40)}":1,"${"k".repeat(40)}":2`],
  ] as const;
  for (const { converter, recipes } of withAllRecipes())
    for (const [once, again] of twice) {
      manyLines(recipes, pageOfTexts(Array.from({ length: 20 }, () => withMember(once))));
      const page = pageOfTexts([withMember(once), withMember(again), withMember(once)]);
      expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    }
});

test("more keys than are remembered, and ids as keys, change nothing", () => {
  for (const { converter, recipes } of withAllRecipes()) {
    for (let round = 0; round < 12; round++) {
      const texts = logins(100, (number) => ({
        more: Object.fromEntries([1, 2, 3].map((key) => [`key-${round}-${number}-${key}`, { key }])),
        [`own-${round}-${number}`]: { id: number },
      }));
      const page = pageOfTexts(texts);
      expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    }
    expect(recipes.counts.fast).toBeGreaterThan(1000);
  }
});

test("pages with broken UTF-8 or twins are encoded one by one, and of long or many events some", () => {
  const recipes = recipesOf(makers.ocsf);
  const page = pageOfTexts(logins(10));
  expect(recipes.encodeMany(page, 0, 10)).toBeDefined();
  page.inPlace!.bytes[page.inPlace!.bytes.indexOf("miguel")] = 0xc3;
  expect(recipes.encodeMany(page, 0, 10)).toBeUndefined();
  expect(recipes.encodeMany(pageOfTexts(logins(10), { twins: { 3: "twin" } }), 0, 10)).toBeUndefined();
  const long = pageOfTexts(logins(10, () => ({ text: "x".repeat(120_000) })));
  expect(recipes.encodeMany(long, 0, 10)?.ends.length).toBe(2);
  const huge = pageOfTexts(logins(1, () => ({ text: "x".repeat(1_100_000) })));
  expect(recipes.encodeMany(huge, 0, 1)).toBeUndefined();
  const many = pageOfTexts(logins(MANY_MAX + 1));
  const lengths = Array.from({ length: 9 }, () => recipes.encodeMany(many, 0, MANY_MAX + 1)?.ends.length);
  expect(lengths.at(-1)).toBe(MANY_MAX);
});

test("numbers that JSON.stringify writes differently do not keep events from being converted together", () => {
  const texts = logins(200).map((text, number) =>
    text.replace('"mfa":true', `"counter":90071992547409${100 + number},"ratio":${number}.50,"mfa":true`),
  );
  const page = pageOfTexts(texts);
  for (const { converter, recipes } of withAllRecipes()) {
    for (let round = 0; round < 3; round++)
      expect(manyLines(recipes, page)).toEqual(expected(page, converter));
    // The first ones teach the recipe or are checked.
    expect(recipes.counts.alone).toBeLessThan(20);
    expect(recipes.counts.fast).toBeGreaterThan(550);
  }
});

test("where many events have to be converted alone, only a few of them are at a time", () => {
  const unknown = logins(100, (number) => ({ [`own-${number}`]: 1, event_type: `type_${number}` }));
  const recipes = recipesOf(makers.ocsf);
  const page = pageOfTexts(unknown);
  const counts: number[] = [];
  for (let from = 0; from < page.count; from += counts.at(-1)!)
    counts.push(recipes.encodeMany(page, from, page.count)!.ends.length);
  expect(Math.max(...counts)).toBeLessThan(10);
  expect(manyLines(recipes, page)).toEqual(expected(page, converters.ocsf));
});

test("a converter that fails on an event leaves all of them to be encoded one by one", () => {
  const recipes = recipesOf(() => (event) => {
    if (event.id === "id-7") throw new Error("no");
    return converters.ocsf(event);
  });
  const failing = logins(10, (number) => (number === 7 ? { event_type: "never_seen" } : {}));
  expect(recipes.encodeMany(pageOfTexts(failing), 0, 10)).toBeUndefined();
  expect(recipes.encodeMany(pageOfTexts(logins(5)), 0, 5)).toBeDefined();
});

test("a recipe that differs from the converter is noticed among many events too", () => {
  let isOther = false;
  const mismatched: number[] = [];
  const recipes = recipesOf(
    () => (event) => (isOther ? `{"other":${JSON.stringify(event.id)}}` : converters.ocsf(event)),
    reads,
    ({ index }) => mismatched.push(index),
  );
  for (let round = 0; round < 3; round++) manyLines(recipes, pageOfTexts(logins(MANY_MAX)));
  isOther = true;
  for (let round = 0; round < 4; round++) manyLines(recipes, pageOfTexts(logins(MANY_MAX)));
  expect(mismatched).toHaveLength(1);
  expect(recipes.counts.wrong).toBe(1);
  expect(manyLines(recipes, pageOfTexts(logins(2)))).toEqual(['{"other":"id-0"}', '{"other":"id-1"}']);
});

const RUNS = Number(process.env.TIDEMARK_RECIPE_RUNS ?? 60);

test(
  "changed events among others are written as the converter does",
  () => {
    const contenders = withAllRecipes();
    fc.assert(
      fc.property(fc.array(mutation, { minLength: 1, maxLength: 6 }), (mutations) => {
        const texts = mutations.flatMap(({ text, changes }) => {
          const event = JSON.parse(text) as Record<string, unknown>;
          mutate(event, changes);
          const changed = JSON.stringify(event);
          return [text, changed, text, text, changed];
        });
        const page = pageOfTexts(texts);
        for (const { converter, recipes } of contenders) {
          const right = expected(page, converter);
          for (let round = 0; round < 3; round++) expect(manyLines(recipes, page)).toEqual(right);
          expect(recipes.counts.wrong).toBe(0);
        }
      }),
      { numRuns: RUNS, endOnFailure: true },
    );
  },
  120_000 + RUNS * 1000,
);
