import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileTemplate, encodeName, limitName } from "../../src/core/names.ts";
import { makeEvent } from "../support/events.ts";
import { runs } from "../support/runs.ts";

/** Any JavaScript string, also with half surrogate pairs, leaning towards what is likely to collide. */
const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({
    unit: fc.constantFrom("_", "5", "f", "2", "e", ".", "-", "a", "A", "/", "\ud83d", "\ude00", "u"),
    maxLength: 12,
  }),
  fc.string({
    unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
    maxLength: 6,
  }),
);

describe("R22 names made from event data", () => {
  test.each([
    ["sso", "sso"],
    ["user_update", "user__update"],
    ["5f0c-4a6e", "5f0c-4a6e"],
    ["Admin", "_41dmin"],
    ["a.b", "a.b"],
    [".", "_2e"],
    ["..", "_2e_2e"],
    ["a.", "a_2e"],
    ["../x", "_2e._2fx"],
    ["é", "_c3_a9"],
    ["\ud800", "_ud800"],
    ["", "_none"],
    [null, "_none"],
    [undefined, "_none"],
    ["_none", "__none"],
  ])("%j becomes %j", (value, name) => {
    expect(encodeName(value)).toBe(name);
  });

  test("hold nothing but small letters, digits and . - _ ~, and never begin or end with a dot", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(encodeName(text)).toMatch(/^[a-z0-9_-][a-z0-9_~.-]*$/);
        expect(encodeName(text)).not.toMatch(/\.$/);
      }),
    );
  });

  test("are one to one: the text can be read back", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(decodeName(encodeName(text, 10_000))).toBe(text);
        expect(decodeName(encodeName(text, 10_000, "-."))).toBe(text);
      }),
      { numRuns: runs(500) },
    );
  });

  test("are cut to the limit, and still differ where only the end does", () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 200, maxLength: 400 }),
        fc.integer({ min: 40, max: 120 }),
        (text, max) => {
          const [one, other] = [encodeName(`${text}1`, max), encodeName(`${text}2`, max)];
          expect(one).toHaveLength(max);
          expect(one).not.toBe(other);
          expect(one).not.toBe(encodeName(one, max));
        },
      ),
    );
    expect(encodeName(`${"x".repeat(200)}\ud800`)).not.toBe(encodeName(`${"x".repeat(200)}\ud801`));
    expect(limitName("short", 5)).toBe("short");
  });
});

describe("templates", () => {
  const values = fc.record({
    account: anyText,
    organization: fc.option(anyText),
    service: anyText,
    eventType: anyText,
    timestampMs: fc.integer({ min: 0, max: 4e12 }),
  });

  test("fill in every placeholder, the date being the event's own in UTC", () => {
    const fill = compileTemplate("x-{account}/{organization}/{service}/{event_type}/{date}T{hour}");
    const event = makeEvent({ organization: null, timestampMs: Date.parse("2026-03-14T23:59:59.999Z") });
    expect(fill(event)).toBe("x-acme/_none/directory/user__update/2026-03-14T23");
  });

  test.each([
    "{account}/{organization}/{service}/{event_type}/{date}",
    "{organization}-{service}-{date}",
    "{organization}.{service}",
    "{organization}-{date}.{service}",
    "events.{account}-x-{organization}{date}-{service}",
    "{organization}={service}",
  ])("R22 %s gives one name for one list of values", (template) => {
    const fill = compileTemplate(template);
    const used = (event: ReturnType<typeof makeEvent>) =>
      JSON.stringify([
        template.includes("{account}") && event.account,
        // An empty value is an absent one.
        template.includes("{organization}") && (event.organization || null),
        template.includes("{service}") && event.service,
        template.includes("{event_type}") && event.eventType,
        template.includes("{date}") && Math.floor(event.timestampMs / 86_400_000),
      ]);
    fc.assert(
      fc.property(values, values, (a, b) => {
        const [one, other] = [makeEvent(a), makeEvent(b)];
        expect(fill(one) === fill(other)).toBe(used(one) === used(other));
      }),
      { numRuns: runs(200) },
    );
    const split = [
      makeEvent({ organization: "a-b.c", service: "d" }),
      makeEvent({ organization: "a", service: "b.c-d" }),
    ];
    expect(new Set([...split, makeEvent({ organization: "a-b", service: "c.d" })].map(fill)).size).toBe(3);
  });

  test("an unknown placeholder is an error that names the known ones", () => {
    expect(() => compileTemplate("{tenant}", ["date"])).toThrow(
      "the placeholder {tenant} is not known: use {date}",
    );
    expect(() => compileTemplate("{hour}", ["date"])).toThrow("{hour}");
  });

  test.each([
    "{organization}{service}",
    "{organization}_{service}",
    "{service}x{account}",
    "{service}{date}{account}",
  ])("%s is an error, because the values run into each other", (template) => {
    expect(() => compileTemplate(template)).toThrow("run into each other");
  });
});

/** The way back, written from the description of the encoding. */
function decodeName(name: string): string {
  if (name === "_none") return "";
  let text = "";
  let bytes: number[] = [];
  const flush = () => {
    text += Buffer.from(bytes).toString("utf8");
    bytes = [];
  };
  for (const [token] of name.matchAll(/__|_u[0-9a-f]{4}|_[0-9a-f]{2}|[^_]/g)) {
    if (/^_[0-9a-f]/.test(token)) {
      bytes.push(Number.parseInt(token.slice(1), 16));
      continue;
    }
    flush();
    if (token === "__") text += "_";
    else if (token.startsWith("_u")) text += String.fromCharCode(Number.parseInt(token.slice(2), 16));
    else text += token;
  }
  flush();
  return text;
}
