import fc from "fast-check";
import { expect, test } from "vitest";
import type { JournalEvent } from "../../src/core/event.ts";
import { createRecipeEngine } from "../../src/core/recipe-engine.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { journalEvent } from "./event.ts";
import { mutate, mutation } from "./mutations.ts";
import { converters, fixtureTexts, LOGIN, makers, recipesOf, withAllRecipes } from "./recipes-support.ts";

test("recipes write every fixture as the converter does, the first time, when learned and later", () => {
  const texts = fixtureTexts();
  expect(texts.length).toBeGreaterThan(50);
  for (const { converter, recipes } of withAllRecipes()) {
    for (let round = 0; round < 7; round++)
      for (const text of texts) {
        const event = journalEvent(text);
        expect(String(recipes.encode(event))).toBe(converter(event));
      }
    expect(recipes.counts.wrong).toBe(0);
    expect(recipes.counts.fast).toBeGreaterThan(3 * texts.length);
  }
});

test("one recipe serves events that differ in copied values, organizations and members that are not read", () => {
  for (const { converter, recipes } of withAllRecipes()) {
    for (let number = 0; number < 40; number++) {
      const event = journalEvent({
        ...LOGIN,
        id: `id-${number}`,
        organization: `0ed99129c72ac75bace76${100 + number}`,
        username: `user ${number} "é"`,
        timestamp: `2026-10-16T20:35:${10 + number}Z`,
        trace_context: { [`k${number}`]: [number, null, {}] },
      });
      expect(String(recipes.encode(event))).toBe(converter(event));
    }
    expect(recipes.counts).toMatchObject({ fast: 37, slow: 3, learned: 1, refused: 0, wrong: 0 });
  }
});

test("a recipe is learned from the third event of its kind", () => {
  const recipes = recipesOf(makers.ocsf);
  for (let number = 1; number <= 4; number++) {
    const event = journalEvent({ ...LOGIN, id: `id-${number}` });
    expect(String(recipes.encode(event))).toBe(converters.ocsf(event));
    expect(recipes.counts.learned).toBe(number < 3 ? 0 : 1);
  }
  expect(recipes.counts).toMatchObject({ fast: 1, slow: 3, learned: 1, refused: 0, wrong: 0 });
});

test("numbers that JSON.stringify writes differently are rewritten, and one recipe serves them all", () => {
  const line = JSON.stringify({ ...LOGIN, trace_context: "NUMBERS" });
  const numbers = ['[1,"a"]', "1.0", "-2.500", "[0.10]", '{"a":90071992547409937}', "-12345678901234567890"];
  for (const { converter, recipes } of withAllRecipes()) {
    for (const text of numbers) {
      const event = journalEvent(line.replace('"NUMBERS"', text));
      expect(String(recipes.encode(event))).toBe(converter(event));
    }
    expect(recipes.counts).toMatchObject({
      fast: numbers.length - 3,
      slow: 3,
      learned: 1,
      refused: 0,
      wrong: 0,
    });
  }
});

test("numbers beyond a double stay what the converter makes of them once a recipe was learned", () => {
  const line = JSON.stringify({ ...LOGIN, trace_context: "NUMBERS" });
  const huge = ["1e400", "-1E+400", "[1, 1e999]", '{"a" : 1.5e310}', "9".repeat(400), "9".repeat(25), "1e22"];
  for (const { converter, recipes } of withAllRecipes()) {
    for (const text of [
      "1",
      "2",
      "3",
      "4",
      ...huge,
      ...huge.map((number) => `{"b": "é\\u00e9", "c": ${number}}`),
    ]) {
      const event = journalEvent(line.replace('"NUMBERS"', text));
      expect(String(recipes.encode(event)), text.slice(0, 40)).toBe(converter(event));
    }
    expect(recipes.counts).toMatchObject({ learned: 1, wrong: 0 });
  }
});

test("a number that is no JSON is not rewritten to one that is", () => {
  const line = JSON.stringify({ ...LOGIN, trace_context: "NUMBER" });
  const engine = createRecipeEngine(reads);
  for (const text of ["01.0", "1.", "-", "1.0.0", "1.0-2", "1e5", '"\\q"']) {
    const bytes = Buffer.from(line.replace('"NUMBER"', text));
    expect(engine.convert(bytes, 0)).toBe("not_canonical");
    expect(engine.canonical(bytes), text).toBeUndefined();
  }
});

/** The value as JSON, here and there not as JSON.stringify writes it. */
function otherwise(value: fc.JsonValue, odd: () => boolean): string {
  const blank = () => (odd() ? " " : "");
  const text = (words: string) =>
    odd()
      ? JSON.stringify(words).replace(/[a-z]/, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`)
      : JSON.stringify(words);
  if (Array.isArray(value))
    return `[${blank()}${value.map((each) => otherwise(each, odd) + blank()).join(",")}]`;
  if (typeof value === "string") return text(value);
  if (typeof value === "number" && odd())
    return `${JSON.stringify(value)}${Number.isInteger(value) ? ".0" : "e0"}`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([key, each]) => `${text(key)}${blank()}:${otherwise(each!, odd)}`,
  );
  if (members.length > 0 && odd()) members.push(members[0]!);
  return `{${blank()}${members.join(`,${blank()}`)}${blank()}}`;
}

test("an event is copied only where JSON.stringify writes the same text", () => {
  const engine = createRecipeEngine(reads);
  let canonical = 0;
  let other = 0;
  fc.assert(
    fc.property(
      fc.jsonValue({ maxDepth: 4 }),
      fc.jsonValue({ maxDepth: 2 }),
      fc.infiniteStream(fc.nat(200)),
      (own, undeclared, stream) => {
        const odd = () => stream.next().value === 0;
        const text = otherwise(
          { changes: own, initiated_by: undeclared, geoip: own, x: undeclared, y: own },
          odd,
        );
        const isCopied = engine.convert(Buffer.from(text), 0) !== "not_canonical";
        if (isCopied) {
          canonical++;
          expect(JSON.stringify(JSON.parse(text))).toBe(text);
        } else other++;
      },
    ),
    { numRuns: 3000, endOnFailure: true },
  );
  expect(Math.min(canonical, other)).toBeGreaterThan(100);
});

const RUNS = Number(process.env.TIDEMARK_RECIPE_RUNS ?? 100);

const changedValue = fc.constantFrom(
  ...[
    "true",
    "false",
    '"True"',
    '"FALSE"',
    "null",
    "1",
    "0",
    '""',
    '"x\\"y"',
    '"\\u0074rue"',
    "[true]",
    '{"a":true}',
  ],
  ...[
    '"manager"',
    '"Manager"',
    '"Help Desk"',
    '"6a1b6a1b6a1b"',
    '"7c1b6a1b6a1b"',
    '["manager"]',
    '"Man\\u0061ger"',
  ],
  ...[
    '"help des\u212a"',
    '"suspended"',
    '"ACTIVATED"',
    "8",
    "12",
    '"deny"',
    '"allow"',
    '{"suspended":true,"sudo":true}',
  ],
);
const changedField = fc.oneof(
  fc.constantFrom("sudo", "passwordless_sudo", "roleName", "suspended"),
  fc.constantFrom(...reads.changes.names.keys(), "attributes.suspended", "Sus-Pended", "note"),
);
const changeText = fc
  .tuple(changedField, fc.option(changedValue), fc.option(changedValue), fc.nat(9))
  .map(([field, from, to, order]) => {
    const members = [`"field":${order === 0 ? 7 : JSON.stringify(field)}`];
    if (from !== null) members.push(`"from":${from}`);
    if (to !== null) members.push(`"to":${to}`);
    if (order === 1) members.push('"to":false');
    return `{${(order % 2 ? members : members.toReversed()).join(",")}}`;
  });

test(
  "an event with any changes is written as the converter does",
  () => {
    const contenders = withAllRecipes();
    const { changes: _, ...event } = { ...LOGIN, changes: undefined };
    const type = fc.constantFrom(
      "user_update",
      "admin_update",
      "policy_update",
      "organization_update",
      "alert_updated",
    );
    const list = fc.oneof(
      { weight: 3, arbitrary: fc.array(changeText, { minLength: 1, maxLength: 2 }) },
      fc.array(changeText, { maxLength: 5 }),
    );
    fc.assert(
      fc.property(type, list, (event_type, entries) => {
        const text = JSON.stringify({ ...event, event_type, resource: { id: "r", type: "policy" } });
        const changed = journalEvent(text.replace(/}$/, `,"changes":[${entries.join(",")}]}`));
        for (const { converter, recipes } of contenders) {
          const expected = converter(changed);
          for (let time = 0; time < 4; time++) expect(String(recipes.encode(changed))).toBe(expected);
          expect(recipes.counts.wrong).toBe(0);
        }
      }),
      { numRuns: 8 * RUNS, endOnFailure: true },
    );
    expect(contenders[0]!.recipes.counts.fast).toBeGreaterThan(RUNS);
  },
  120_000 + RUNS * 1000,
);

/** Each event in turn, often enough for recipes to be learned and used without a check. */
function checkInTurn(...events: readonly object[]): void {
  for (const { converter, recipes } of withAllRecipes())
    for (const event of events.map((each) => journalEvent({ ...LOGIN, ...each })))
      for (let time = 0; time < 12; time++) expect(String(recipes.encode(event))).toBe(converter(event));
}

test("the order of privileges counts, also where one is not judged by its rank", () => {
  const sudo = { field: "sudo", from: false, to: true };
  const others = [
    { field: "role", from: "Manager", to: "Geschäftsführer" },
    { field: "role", from: "Manager", to: 'a"b' },
    { field: "attributes", from: {}, to: { administrator: true } },
    { field: "administrator", from: "a\\b", to: true },
  ];
  for (const other of others)
    checkInTurn(
      { event_type: "user_update", changes: [sudo, other] },
      { event_type: "user_update", changes: [other, sudo] },
    );
});

test("combinations of effects and of privileges that were not seen together need no learning", () => {
  const changed = (...fields: readonly string[]) =>
    journalEvent({
      ...LOGIN,
      event_type: "user_update",
      resource: { id: "r", type: "user", username: "bob" },
      changes: fields.map((field) => ({ field, from: false, to: true })),
    });
  for (const { name, converter, recipes } of withAllRecipes()) {
    for (let time = 0; time < 6; time++) recipes.encode(changed("suspended", "sudo"));
    const { slow } = recipes.counts;
    expect(slow, name).toBe(3);
    for (const more of [
      "totp_enabled",
      "password",
      "email",
      "passwordless_sudo",
      "apiKeySet",
      "ldap_binding_user",
    ])
      for (const fields of [
        ["sudo", more],
        [more, "suspended", "sudo"],
      ])
        expect(String(recipes.encode(changed(...fields)))).toBe(converter(changed(...fields)));
    expect(recipes.counts, name).toMatchObject({ slow, learned: 1, wrong: 0 });
  }
});

test("what the first effect does not tell is not forgotten: a graver one, a privilege, and who judges", () => {
  const change = (field: string, from: unknown = false, to: unknown = true) => ({ field, from, to });
  const update = (event_type: string, type: string, ...changes: readonly object[]) => ({
    event_type,
    resource: { id: "r", type },
    changes,
  });
  const excluded = change("mfa", { exclusion: false }, { exclusion: true });
  const revoked = change("passwordless_sudo", true, false);
  checkInTurn(
    update("user_update", "user", change("suspended")),
    update("user_update", "user", change("suspended"), change("account_locked")),
    update("user_update", "user", change("suspended"), change("account_locked"), change("email")),
    update("user_update", "user", excluded, change("suspended")),
    update("user_update", "user", excluded, change("suspended"), revoked),
    update("user_update", "user", change("totp_enabled"), revoked),
    update("user_update", "user", change("totp_enabled"), change("email", "a", "b")),
  );
  for (const changes of [[change("disabled")], [change("disabled"), change("enabled")], [change("active")]])
    checkInTurn(
      update("group_update", "user_group", ...changes),
      update("policy_update", "policy", ...changes),
      update("user_update", "policy", ...changes),
      update("user_update", "user", ...changes),
    );
});

test("which word a state has become counts", () => {
  const states = [
    "SUSPENDED",
    "ACTIVATED",
    "STAGED",
    "Suspended",
    "susp\\u0065nded",
    "",
    1,
    null,
    { state: "ACTIVATED" },
  ];
  checkInTurn(
    ...states.map((to) => ({
      event_type: "user_update",
      resource: { id: "r", type: "user" },
      changes: [{ field: "state", from: "STAGED", to }],
    })),
  );
});

test("members of changed objects count as changes", () => {
  const large = {
    field: "x",
    from: null,
    to: Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`m${at}`, at])),
  };
  const suspended = { field: "suspended", from: false, to: true };
  const more = Array.from({ length: 60 }, (_, at) => ({ field: `f${at}`, from: 1, to: 2 }));
  checkInTurn(
    { event_type: "user_update", changes: [large, suspended, ...more] },
    { event_type: "user_update", changes: [large, ...more, suspended] },
  );
});

test("names that are equal in another case of any alphabet are noticed", () => {
  for (const [one, other] of [
    ["JOÉ", "joé"],
    ["joé", "JOÉ"],
    ["\u212aim", "kim"],
    ["ИВАН", "иван"],
    ["иван", "ИВАН"],
  ] as const)
    checkInTurn(
      {
        service: "ldap",
        event_type: "ldap_bind",
        initiated_by: { ...LOGIN.initiated_by, username: one },
        username: "bob",
      },
      {
        service: "ldap",
        event_type: "ldap_bind",
        initiated_by: { ...LOGIN.initiated_by, username: one },
        username: other,
      },
    );
});

test("a changed role that is no text is written", () => {
  const role = { field: "role", from: { toString: 1 }, to: ["Manager", { toString: 1 }] };
  checkInTurn({
    event_type: "user_update",
    changes: [role, { field: "effect.action", from: { toString: 1 }, to: "allow" }],
  });
});

test("shared bytes are those of `encode`, until the next call", () => {
  const recipes = recipesOf(makers.ocsf);
  const events = Array.from({ length: 6 }, (_, number) => journalEvent({ ...LOGIN, id: `id-${number}` }));
  const kept = events.map((event) => {
    expect(String(recipes.encodeShared(event))).toBe(converters.ocsf(event));
    return recipes.encode(event);
  });
  expect(kept.map(String)).toEqual(events.map(converters.ocsf));
});

test(
  "a changed event is written as the converter does, whatever was learned before",
  () => {
    const contenders = withAllRecipes();
    fc.assert(
      fc.property(mutation, ({ text, changes }) => {
        const event = JSON.parse(text) as Record<string, unknown>;
        mutate(event, changes);
        const changed = journalEvent(JSON.stringify(event));
        for (const { converter, recipes } of contenders) {
          const original = journalEvent(text);
          for (let time = 0; time < 3; time++) recipes.encode(original);
          const expected = converter(changed);
          expect(String(recipes.encode(changed))).toBe(expected);
          expect(recipes.counts.wrong).toBe(0);
          for (let time = 0; time < 3; time++) expect(String(recipes.encode(changed))).toBe(expected);
        }
      }),
      // A wrong recipe is dropped, so a second try with a smaller example would pass.
      { numRuns: RUNS, endOnFailure: true },
    );
  },
  120_000 + RUNS * 1000,
);

test("events that JSON.stringify would write differently come out as from the converter", () => {
  const line = JSON.stringify(LOGIN);
  const odd = [
    line.replace(/,/g, ", ").replace('{"id"', '{ \n "id"'),
    line.replace('"miguel"', '"mi\\u0067uel\\/\\u003c"'),
    line.replace('"mfa":true', '"mfa":false,"mfa":true'),
    line.replace('"mfa":true', '"mfa":true,"12":{"a":1.0,"b":1e2,"c":-0}'),
    line.replace('"mfa":true', '"sequence":90071992547409937'),
    line.replace('"mfa":true', '"asn":{"number":90071992547409937},"ratio":1.50'),
    line.replace('"mfa":true', '"mfa":1.0,"mfa":1.0'),
    line.replace('"mfa":true', '"nested":{"a":1,"a":2}'),
    line.replace("12.9719", "12.97190"),
    line.replace('"mfa":true', '"__proto__":{"a":1}'),
    line.replace('"ec7e08698188d712"', `${"[".repeat(60)}${"]".repeat(60)}`),
  ];
  for (const { converter, recipes } of withAllRecipes())
    for (let round = 0; round < 5; round++)
      for (const text of odd) {
        const event = journalEvent(text);
        expect(String(recipes.encode(event))).toBe(converter(event));
      }
});

test("an id that is written with an escape, or as a number, is each event's own", () => {
  const line = JSON.stringify({ ...LOGIN, id: "ID" });
  for (const { converter, recipes } of withAllRecipes()) {
    // The checks of a new recipe see equal ids.
    for (const ids of [
      (number: number) => `"CORP\\\\pc${number < 12 ? 1 : number}"`,
      (number: number) => (number < 12 ? "1.0" : `${number}.0`),
      (number: number) => (number < 12 ? '""' : `"${number}"`),
    ])
      for (let number = 0; number < 40; number++) {
        const event = journalEvent(line.replace('"ID"', () => ids(number)));
        expect(String(recipes.encode(event))).toBe(converter(event));
      }
    expect(recipes.counts.wrong).toBe(0);
  }
});

test("broken UTF-8 is replaced as the converter does", () => {
  const bytes = Buffer.from(JSON.stringify({ ...LOGIN, username: "zoë" }));
  const broken = Buffer.from(bytes);
  broken[broken.indexOf(0xc3) + 1] = 0x22 + 0x40;
  for (const { converter, recipes } of withAllRecipes())
    for (const body of [bytes, bytes, bytes, bytes, broken, broken, broken, broken]) {
      const event = { ...journalEvent(LOGIN), bytes: body, size: body.length };
      expect(String(recipes.encode(event))).toBe(converter(event));
    }
});

test("a recipe that differs from the converter is noticed, dropped and reported, and the converter's output goes out", () => {
  // The converter compares this name with the actor's; a recipe that does not know it copies both.
  const paths = new Map(reads.paths).set("username", "copied");
  const reported: string[] = [];
  const report = ({ eventType }: { readonly eventType: string }) => reported.push(eventType);
  const recipes = recipesOf(makers.ocsf, { ...reads, paths }, report);
  const named = { ...LOGIN, initiated_by: { ...LOGIN.initiated_by, username: "somebody" } };
  const event = journalEvent(named);
  const failed = journalEvent({ ...named, username: "somebody" });
  for (let time = 0; time < 3; time++) recipes.encode(event);
  expect(recipes.counts.learned).toBe(1);
  expect(String(recipes.encode(failed))).toBe(converters.ocsf(failed));
  expect(reported).toEqual(["user_login_attempt"]);
  expect(recipes.counts.wrong).toBe(1);
  for (const again of [event, failed, event])
    expect(String(recipes.encode(again))).toBe(converters.ocsf(again));
  expect(recipes.counts.fast).toBe(1);
});

test("the three events after a recipe was learned are checked, then one in a thousand", () => {
  let conversions = 0;
  const counted = (event: JournalEvent) => {
    conversions++;
    return converters.ocsf(event);
  };
  const recipes = recipesOf(() => counted);
  const event = journalEvent(LOGIN);
  const conversionsOf = (uses: number) => {
    const before = conversions;
    for (let use = 0; use < uses; use++) recipes.encode(event);
    return conversions - before;
  };
  conversionsOf(3);
  expect(conversionsOf(3)).toBe(3);
  expect(conversionsOf(996)).toBe(0);
  expect(conversionsOf(1)).toBe(1);
});

const AGENT = { name: "Edge", version: "125.0", os_name: "Windows", os_version: "10", device: "Other" };
const PLACES = [
  { country_code: "in", latitude: 12.9719, longitude: 77.5937, city_name: "bengaluru", timezone: "a" },
  { geoip: { country_code: "de", latitude: "52.5244", longitude: "13.4105", region_name: "berlin" } },
  { timezone: "asia/tokyo" },
] as const;
const AGENTS = [AGENT, "Mozilla/5.0", { os_name: "Linux" }, { useragent: AGENT }] as const;
const KINDS = [
  { event_type: "user_login_attempt", success: true },
  { event_type: "user_login_attempt", success: false, error_message: "refused" },
  { event_type: "sso_auth", service: "sso", application: { id: "a1", name: "slack", sso_type: "saml" } },
  {
    event_type: "admin_login_attempt",
    client_ip: undefined,
    asn: { number: 64496, organization: "telecom" },
  },
] as const;

test("a place and a user agent that other events have shown need no learning", () => {
  for (const { name, converter, recipes } of withAllRecipes()) {
    const eventOf = (kind: object, geoip: unknown, useragent: unknown, id: string) =>
      journalEvent({ ...LOGIN, ...kind, id, geoip, useragent });
    const check = (event: JournalEvent) => expect(String(recipes.encode(event))).toBe(converter(event));
    const [usual, ...others] = KINDS;
    // The usual kind shows every place and agent; the others show themselves with one of them.
    for (const geoip of PLACES)
      for (const agent of AGENTS)
        for (let time = 0; time < 7; time++) check(eventOf(usual, geoip, agent, `u${time}`));
    for (const kind of others)
      for (let time = 0; time < 7; time++) check(eventOf(kind, PLACES[0], AGENT, `o${time}`));
    const { slow, fast } = recipes.counts;
    for (const kind of [KINDS[1], KINDS[2]])
      for (const geoip of PLACES) for (const agent of AGENTS) check(eventOf(kind, geoip, agent, "new"));
    expect(recipes.counts, name).toMatchObject({ slow, wrong: 0 });
    expect(recipes.counts.fast, name).toBe(fast + 2 * PLACES.length * AGENTS.length);
    // Without an address the endpoint itself is what the groups add.
    for (const geoip of PLACES) for (const agent of AGENTS) check(eventOf(KINDS[3], geoip, agent, "new"));
    expect(recipes.counts.wrong, name).toBe(0);
  }
});

test("more kinds of user agents, and of events, than are remembered are written right", () => {
  const recipes = recipesOf(makers.ocsf);
  const check = (event: JournalEvent) => expect(String(recipes.encode(event))).toBe(converters.ocsf(event));
  // The name of the system decides, so each is a variant.
  for (let number = 0; number < 150; number++)
    for (let time = 0; time < 4; time++)
      check(journalEvent({ ...LOGIN, id: `${time}`, useragent: { os_name: `system ${number}` } }));
  for (let number = 0; number < 3200; number++)
    for (let time = 0; time < 3; time++)
      check(journalEvent({ ...LOGIN, id: `${time}`, severity: `level ${number}` }));
  for (const geoip of [{ city_name: "x" }, { timezone: "y" }])
    for (let time = 0; time < 9; time++)
      check(journalEvent({ ...LOGIN, id: `${time}`, geoip, useragent: AGENT }));
  expect(recipes.counts).toMatchObject({ refused: 0, wrong: 0 });
  const { slow } = recipes.counts;
  check(journalEvent({ ...LOGIN, id: "new", geoip: { timezone: "z" }, useragent: AGENT }));
  expect(recipes.counts.slow).toBe(slow);
}, 60_000);

test("two halves that do not fit together are noticed, dropped and reported, and the converter's output goes out", () => {
  // The place is written in another way in events of type B, but only where it has no city.
  const encode = ({ bytes, identity }: JournalEvent) => {
    const { event_type, geoip, ...rest } = JSON.parse(bytes.toString());
    const isOdd = event_type === "B" && geoip !== undefined && geoip.city_name === undefined;
    return JSON.stringify({ identity, event_type, place: isOdd ? { odd: geoip } : geoip, rest });
  };
  const reported: string[] = [];
  const recipes = recipesOf(
    () => encode,
    reads,
    ({ eventType }) => reported.push(eventType),
  );
  const eventOf = (event_type: string, geoip: object, id: number) =>
    journalEvent({ ...LOGIN, event_type, geoip, id: `id-${id}` });
  const check = (event: JournalEvent) => expect(String(recipes.encode(event))).toBe(encode(event));
  for (let time = 0; time < 9; time++) {
    check(eventOf("A", { city_name: "x" }, time));
    check(eventOf("A", { timezone: "y" }, time));
    check(eventOf("B", { city_name: "x" }, time));
  }
  expect(recipes.counts).toMatchObject({ learned: 3, wrong: 0 });
  check(eventOf("B", { timezone: "y" }, 1));
  expect(recipes.counts.wrong).toBe(1);
  expect(reported).toEqual(["B"]);
  for (let time = 0; time < 9; time++)
    for (const place of [{ timezone: "y" }, { city_name: "x" }])
      for (const type of ["A", "B"]) check(eventOf(type, place, time));
  expect(recipes.counts.wrong).toBe(1);
});

test("nothing in a group is compared with the rest of the event", () => {
  for (const group of reads.groups)
    for (const [path, kind] of reads.paths)
      if (path === group || path.startsWith(`${group}.`))
        expect(["decides", "copied", "number", "latitude", "longitude"], path).toContain(kind);
});

test("at most 4,096 recipes are kept, and those that are used survive", () => {
  const engine = createRecipeEngine(reads);
  engine.setSpecial(0, "");
  engine.setSalt("");
  const convert = (type: string) => engine.convert(Buffer.from(`{"event_type":"${type}"}`), 0);
  const parts = [{ kind: "literal", bytes: Buffer.from("used") }] as const;
  convert("used");
  engine.add(parts);
  for (let number = 0; number < 6000; number++) {
    expect(convert(`type ${number}`)).toBe("unknown");
    engine.add([{ kind: "literal", bytes: Buffer.from(`recipe ${number}`) }]);
    expect(engine.recipes).toBeLessThanOrEqual(4096);
    if (number % 100 === 0) convert("used");
  }
  expect(engine.out(convert("used") as number).toString()).toBe("used");
  expect(engine.out(convert("type 5999") as number).toString()).toBe("recipe 5999");
});
