import { expect, describe as suite, test } from "vitest";
import { readPipeline } from "./pipeline.ts";
import { fires, readDetection } from "./sigma.ts";
import { conditionOf } from "./sigma-condition.ts";
import { matcherOf } from "./sigma-values.ts";

const ecs = readPipeline(new URL("../../detections/pipelines/ecs.yml", import.meta.url));

const matches = (modifiers: string, wanted: unknown, ...values: unknown[]) =>
  matcherOf(modifiers === "" ? [] : modifiers.split("|"), wanted, false)(values);

suite("values", () => {
  test("text is compared without case, with wildcards, and exactly where that is asked for", () => {
    expect(matches("", "Admin", "ADMIN")).toBe(true);
    expect(matches("", "adm*", "administrator")).toBe(true);
    expect(matches("", "a?min", "admin")).toBe(true);
    expect(matches("", "(uid=\\*)", "(uid=*)")).toBe(true);
    expect(matches("", "(uid=\\*)", "(uid=jo)")).toBe(false);
    expect(matches("", "admin", "administrator")).toBe(false);
    expect(matcherOf([], "success", true)(["Success"])).toBe(false);
  });

  test("numbers, booleans and null", () => {
    expect(matches("", 10, 10)).toBe(true);
    expect(matches("", 10, "10")).toBe(false);
    expect(matches("", false, false)).toBe(true);
    expect(matches("", false)).toBe(false);
    expect(matches("", null)).toBe(true);
    expect(matches("", null, "x")).toBe(false);
    expect(matches("gte", 3, 3)).toBe(true);
    expect(matches("lt", 3, 3)).toBe(false);
  });

  test("modifiers", () => {
    expect(matches("contains", ["x", "min"], "Admins")).toBe(true);
    expect(matches("contains|all", ["ad", "xx"], "Admins")).toBe(false);
    expect(matches("contains|all", ["ad", "ins"], "Admins")).toBe(true);
    expect(matches("startswith", "admin_", "admin_update")).toBe(true);
    expect(matches("startswith", "admin_", "user_admin_update")).toBe(false);
    expect(matches("endswith", "_update", "admin_update")).toBe(true);
    expect(matches("re", "^a.c$", "abc")).toBe(true);
    expect(matches("cidr", "10.0.0.0/8", "10.1.2.3")).toBe(true);
    expect(matches("cidr", "10.0.0.0/8", "11.1.2.3")).toBe(false);
    expect(matches("cidr", "fc00::/7", "fd00::1")).toBe(true);
    expect(matches("exists", true, 0)).toBe(true);
    expect(matches("exists", false)).toBe(true);
  });

  test("anything that is not understood throws", () => {
    for (const [modifiers, wanted] of [
      ["base64", "x"],
      ["contains|startswith", "x"],
      ["contains", 7],
      ["contains", ""],
      ["cidr", "10.0.0.0"],
      ["cidr", "x/8"],
      ["exists", "yes"],
      ["gte", "3"],
      ["all", "x"],
      ["", []],
      ["", { a: 1 }],
      ["re", "("],
    ] as const)
      expect(() => matches(modifiers, wanted, "x"), modifiers).toThrow();
  });
});

suite("conditions", () => {
  const is = (condition: string, names: string[], truths: string[]) =>
    conditionOf(condition, names)((name) => truths.includes(name));

  test("and binds closer than or, not closer than both, parentheses closest", () => {
    expect(is("a or b and c", ["a", "b", "c"], ["a"])).toBe(true);
    expect(is("(a or b) and c", ["a", "b", "c"], ["a"])).toBe(false);
    expect(is("not a and b", ["a", "b"], ["b"])).toBe(true);
    expect(is("not (a and b)", ["a", "b"], ["a", "b"])).toBe(false);
  });

  test("quantifiers", () => {
    expect(is("1 of sel*", ["sel_a", "sel_b"], ["sel_b"])).toBe(true);
    expect(is("all of sel*", ["sel_a", "sel_b"], ["sel_b"])).toBe(false);
    expect(is("all of them", ["a", "b"], ["a", "b"])).toBe(true);
    expect(is("1 of them and not x", ["a", "x"], ["x"])).toBe(false);
  });

  test("anything that is not understood throws, and so does a selection without use", () => {
    for (const condition of [
      "",
      "a |",
      "a b",
      "(a",
      "a and",
      "2 of a*",
      "c",
      "1 of x*",
      "a | count() > 5",
      "a)",
    ])
      expect(() => is(condition, ["a"], []), condition).toThrow();
    expect(() => is("a", ["a", "b"], [])).toThrow(/without use/);
  });
});

const RULE = `
title: A rule for tests
id: 6f1d4a52-3f0e-4c55-9a57-0d6f2f6c7a11
name: base_event
status: test
description: A rule for tests.
author: Tidemark
logsource: { product: jumpcloud, service: directory_insights }
detection:
  selection: { outcome: failure }
  condition: selection
fields: [user]
falsepositives: [None]
level: low
tags: [attack.credential-access, attack.t1110]
`;
const correlation = (type: string, condition: string, span = "10m") => `${RULE}---
title: A correlation for tests
id: 6f1d4a52-3f0e-4c55-9a57-0d6f2f6c7a12
status: test
description: A correlation for tests.
author: Tidemark
correlation:
  type: ${type}
  rules: [base_event]
  group-by: [user]
  timespan: ${span}
  condition: ${condition}
falsepositives: [None]
level: low
tags: [attack.credential-access, attack.t1110]
`;

function failures(...entries: readonly (readonly [minute: number, user: string | null, ip?: string])[]) {
  return entries.map(([minute, name, ip = "10.0.0.1"]) => ({
    timestampMs: minute * 60_000,
    output: { event: { outcome: "failure" }, user: { name }, source: { ip } },
  }));
}

suite("rules and correlations", () => {
  const runs = (text: string, events: ReturnType<typeof failures>) =>
    fires(readDetection(text), events, ecs, new Set());

  test("events are counted for each group, within the time span", () => {
    const rule = correlation("event_count", "{ gte: 3 }");
    expect(runs(rule, failures([0, "jo"], [5, "jo"], [9, "jo"]))).toBe(true);
    expect(runs(rule, failures([0, "jo"], [5, "al"], [9, "jo"]))).toBe(false);
    expect(runs(rule, failures([0, "jo"], [5, "jo"], [10, "jo"]))).toBe(false);
    expect(runs(rule, failures([0, "jo"], [11, "jo"], [12, "jo"], [13, "jo"]))).toBe(true);
    expect(runs(rule, failures([0, null], [1, null], [2, null]))).toBe(false);
  });

  test("different values are counted for each group", () => {
    const rule = correlation("value_count", "{ field: source_ip, gte: 2 }");
    expect(runs(rule, failures([0, "jo", "10.0.0.1"], [1, "jo", "10.0.0.2"]))).toBe(true);
    expect(runs(rule, failures([0, "jo", "10.0.0.1"], [1, "jo", "10.0.0.1"]))).toBe(false);
    expect(runs(rule, failures([0, "jo", "10.0.0.1"], [1, "al", "10.0.0.2"]))).toBe(false);
  });

  test("anything that is not understood throws", () => {
    for (const text of [
      RULE.replace("level: low", "level: terrible"),
      RULE.replace("fields: [user]", "fields: [user]\nextra: 1"),
      RULE.replace("{ outcome: failure }", "[failure]"),
      RULE.replace("{ outcome: failure }", "{ unheard_of: failure }"),
      RULE.replace("outcome: failure", "outcome|sounds: failure"),
      RULE.replace("condition: selection", "condition: [selection]"),
      correlation("temporal", "{ gte: 2 }"),
      correlation("event_count", "{ field: user, gte: 2 }"),
      correlation("value_count", "{ gte: 2 }"),
      correlation("event_count", "{ gte: 2, lte: 5 }"),
      correlation("event_count", "{ gte: 2 }", "10 minutes"),
      correlation("event_count", "{ gte: 2 }").replace("rules: [base_event]", "rules: [another]"),
    ])
      expect(() => runs(text, failures([0, "jo"], [1, "jo"])), text).toThrow();
  });
});
