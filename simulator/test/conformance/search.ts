import { expect } from "vitest";
import type { Simulator } from "../../index.ts";
import { type AnyEvent, ask, readAll } from "../support.ts";
import type { Rule } from "./rule.ts";

const part = "Endpoints: search terms";

async function search(simulator: Simulator, search_term: object, service = ["all"]): Promise<AnyEvent[]> {
  return readAll(simulator, { service, limit: 10_000, search_term });
}

async function status(simulator: Simulator, search_term: unknown): Promise<number> {
  return (await ask(simulator, { service: ["genai"], search_term, limit: 1 })).status;
}

const everything = new WeakMap<Simulator, Promise<AnyEvent[]>>();

/** The events that a plain filter over everything would find. */
async function expected(simulator: Simulator, matches: (event: AnyEvent) => boolean): Promise<AnyEvent[]> {
  if (!everything.has(simulator)) everything.set(simulator, readAll(simulator, { limit: 10_000 }));
  return (await everything.get(simulator)!).filter(matches);
}

export const searchRules: readonly Rule[] = [
  {
    part,
    rule: "search_term holds exactly one logical operator, and or or, with an array of terms",
    async check(simulator) {
      for (const bad of [
        {},
        [],
        "x",
        { and: [{ success: true }], or: [{ success: true }] },
        { success: true },
        { and: {} },
        { not: [] },
      ]) {
        expect(await status(simulator, bad), JSON.stringify(bad)).toBe(400);
      }
    },
  },
  {
    part,
    rule: "original form: a single value means equality, and joins",
    async check(simulator) {
      const found = await search(simulator, { and: [{ event_type: "sso_auth" }, { idp_initiated: true }] });
      expect(found).toEqual(
        await expected(simulator, (event) => event.event_type === "sso_auth" && event.idp_initiated === true),
      );
      expect(found.length).toBeGreaterThan(0);
    },
  },
  {
    part,
    rule: "original form: an array of values means any of them; or joins",
    async check(simulator) {
      const found = await search(simulator, {
        or: [{ event_type: ["ldap_bind", "ldap_search"] }, { severity: "high" }],
      });
      expect(found).toEqual(
        await expected(
          simulator,
          (event) => ["ldap_bind", "ldap_search"].includes(event.event_type!) || event.severity === "high",
        ),
      );
    },
  },
  {
    part,
    rule: "a field name may not repeat inside one list",
    choice: "in either form a 400; nested lists count on their own",
    async check(simulator) {
      expect(await status(simulator, { and: [{ success: true }, { success: false }] })).toBe(400);
      expect(
        await status(simulator, {
          and: [{ success: true }, { field: "success", operator: "ne", value: true }],
        }),
      ).toBe(400);
      expect(
        await status(simulator, { and: [{ success: true }, { or: [{ success: false }, { mfa: true }] }] }),
      ).toBe(200);
    },
  },
  {
    part,
    rule: "boolean values may be given as strings",
    async check(simulator) {
      const asText = await search(simulator, { and: [{ success: "false" }] });
      expect(asText).toEqual(await search(simulator, { and: [{ success: false }] }));
      expect(asText.length).toBeGreaterThan(0);
      expect(await status(simulator, { and: [{ success: "perhaps" }] })).toBe(400);
    },
  },
  {
    part,
    rule: "operator form: field, operator, value; without operator a single value means eq and a list means in",
    async check(simulator) {
      const byOperator = await search(simulator, {
        and: [{ field: "event_type", operator: "eq", value: "sso_auth" }],
      });
      expect(byOperator).toEqual(
        await search(simulator, { and: [{ field: "event_type", value: "sso_auth" }] }),
      );
      const byIn = await search(simulator, {
        and: [{ field: "event_type", operator: "in", value: ["sso_auth", "alert_created"] }],
      });
      expect(byIn).toEqual(
        await search(simulator, { and: [{ field: "event_type", value: ["sso_auth", "alert_created"] }] }),
      );
      expect(byIn.length).toBeGreaterThan(byOperator.length);
    },
  },
  {
    part,
    rule: "a term may hold a nested and or or",
    async check(simulator) {
      const found = await search(simulator, {
        and: [
          { service: "radius" },
          { or: [{ success: false }, { and: [{ nas_mfa_state: "always" }, { eap_type: "peap" }] }] },
        ],
      });
      expect(found).toEqual(
        await expected(
          simulator,
          (event) =>
            event.service === "radius" && (event.success === false || event.nas_mfa_state === "always"),
        ),
      );
    },
  },
  {
    part,
    rule: "string fields: eq, ne, contains, startsWith, endsWith, in, not_in",
    choice: "case does not matter; ne and not_in also match events without the field",
    async check(simulator) {
      const field = "username";
      const cases: [string, unknown, (value: string | undefined) => boolean][] = [
        ["eq", "ADA.adams", (value) => value === "ada.adams"],
        ["ne", "ada", (value) => value !== "ada"],
        ["contains", ".ME", (value) => value?.includes(".me") ?? false],
        ["startsWith", "al", (value) => value?.startsWith("al") ?? false],
        ["endsWith", "u1", (value) => value?.endsWith("u1") ?? false],
        ["in", ["a", "b"], (value) => value === "a" || value === "b"],
        ["not_in", ["a"], (value) => value !== "a"],
      ];
      for (const [operator, value, matches] of cases) {
        const found = await search(simulator, { and: [{ field, operator, value }] });
        expect(found, operator).toEqual(await expected(simulator, (event) => matches(event.username)));
      }
      for (const operator of ["lt", "before", "like"])
        expect(await status(simulator, { and: [{ field, operator, value: "a" }] })).toBe(400);
    },
  },
  {
    part,
    rule: "numeric fields: eq, ne, lt, gt, lte, gte, in, not_in",
    async check(simulator) {
      const field = "number_of_results";
      const cases: [string, unknown, (value: number) => boolean][] = [
        ["eq", 100, (value) => value === 100],
        ["lt", 100, (value) => value < 100],
        ["gt", 100, (value) => value > 100],
        ["lte", 100, (value) => value <= 100],
        ["gte", "100", (value) => value >= 100],
        ["in", [1, 2, 3], (value) => value >= 1 && value <= 3],
      ];
      for (const [operator, value, matches] of cases) {
        const found = await search(simulator, { and: [{ field, operator, value }] });
        const wanted = await expected(
          simulator,
          (event) => event.number_of_results !== undefined && matches(event.number_of_results),
        );
        expect(found, operator).toEqual(wanted);
      }
      const without = await search(simulator, { and: [{ field, operator: "ne", value: 100 }] });
      expect(without).toEqual(await expected(simulator, (event) => event.number_of_results !== 100));
      for (const operator of ["contains", "before"])
        expect(await status(simulator, { and: [{ field, operator, value: 1 }] })).toBe(400);
      expect(await status(simulator, { and: [{ field, operator: "lt", value: "many" }] })).toBe(400);
    },
  },
  {
    part,
    rule: "timestamp fields: eq, before, after, in, not_in",
    async check(simulator) {
      const [event] = (
        await ask(simulator, { service: ["sso"], limit: 1, start_time: "2025-02-20T10:00:00Z" })
      ).body;
      const at = event!.timestamp;
      const eq = await search(simulator, { and: [{ field: "timestamp", operator: "eq", value: at }] });
      expect(eq.map(({ id }) => id)).toContain(event!.id);
      const before = await search(simulator, {
        and: [{ field: "timestamp", operator: "before", value: at }],
      });
      const after = await search(simulator, { and: [{ field: "timestamp", operator: "after", value: at }] });
      const rest = await search(simulator, {
        and: [{ field: "timestamp", operator: "not_in", value: [at] }],
      });
      const total = (await readAll(simulator, { limit: 10_000 })).length;
      expect(before.length + eq.length + after.length).toBe(total);
      expect(rest.length).toBe(total - eq.length);
      for (const operator of ["ne", "lt", "contains"])
        expect(await status(simulator, { and: [{ field: "timestamp", operator, value: at }] })).toBe(400);
    },
  },
  {
    part,
    rule: "boolean fields: eq, ne, in, not_in",
    async check(simulator) {
      const found = await search(simulator, {
        and: [{ field: "mfa", operator: "in", value: ["true", false] }],
      });
      expect(found).toEqual(await expected(simulator, (event) => event.mfa !== undefined));
      const not = await search(simulator, { and: [{ field: "mfa", operator: "not_in", value: [true] }] });
      expect(not).toEqual(await expected(simulator, (event) => event.mfa !== true));
      for (const operator of ["gt", "contains"])
        expect(await status(simulator, { and: [{ field: "mfa", operator, value: true }] })).toBe(400);
    },
  },
  {
    part,
    rule: "contains and endsWith take *, ? and backslash literally",
    async check(simulator) {
      const organization = simulator.organizations[1]!.id;
      const odd = ["a*b?c\\", "aXbYc\\", "*"];
      simulator.control.append(
        organization,
        odd.map((username) => ({ service: "alert", event_type: "literal", username })),
      );
      const found = async (operator: string, value: string) =>
        (
          await search(simulator, {
            and: [{ field: "username", operator, value }, { event_type: "literal" }],
          })
        ).map((event) => event.username);
      expect(await found("contains", "a*b?")).toEqual(["a*b?c\\"]);
      expect(await found("endsWith", "c\\")).toEqual(["a*b?c\\", "aXbYc\\"]);
      expect(await found("contains", "*")).toEqual(["a*b?c\\", "*"]);
    },
  },
  {
    part,
    rule: "nested fields are addressed with dot notation, through lists too",
    async check(simulator) {
      const found = await search(simulator, { and: [{ "outer.eap_type": "peap" }] });
      expect(found).toEqual(await expected(simulator, (event) => event.outer?.eap_type === "peap"));
      const listed = await search(simulator, { and: [{ "error_chain.error_code": 12021 }] });
      expect(listed.length).toBeGreaterThan(0);
      expect(listed).toEqual(
        await expected(simulator, (event) => event.error_chain?.[0]?.error_code === 12021),
      );
    },
  },
  {
    part: "Resources: Directory Insights event",
    rule: "changes, useragent and system_timestamp cannot be searched",
    choice: "a 400",
    async check(simulator) {
      for (const field of ["changes", "changes.field", "useragent", "system_timestamp"]) {
        expect(await status(simulator, { and: [{ [field]: "x" }] })).toBe(400);
      }
    },
  },
  {
    part: "Limits",
    rule: "criteria in a search list are not limited, but very complex searches may give 500",
    choice: "more than searchTermsMax (1000) terms, or a tenth as many levels",
    async check(simulator) {
      const terms = (count: number) => ({
        or: Array.from({ length: count }, (_, index) => ({ [`field_${index}`]: index })),
      });
      expect(await status(simulator, terms(900))).toBe(200);
      expect(await status(simulator, terms(1100))).toBe(500);
      let deep: object = { success: true };
      for (let level = 0; level < 150; level++) deep = { and: [deep] };
      expect(await status(simulator, deep)).toBe(500);
    },
  },
];
