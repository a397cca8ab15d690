import { describe, expect, test } from "vitest";
import { filterOf, patternOf, routeSchema } from "../../src/delivery/filter.ts";
import { makeEvent } from "../support/events.ts";
import { eventTexts, timeMs } from "../support/pages.ts";
import { createHarness, stepUntilIdle } from "./support.ts";

const event = makeEvent({ account: "acme", organization: "5f0c", service: "sso", eventType: "user_login" });

describe("which events a sink gets", () => {
  test.each([
    [{ accounts: ["acme"] }, true],
    [{ accounts: ["Acme"] }, false],
    [{ organizations: ["5F0C"] }, true],
    [{ organizations: ["6a1b"] }, false],
    [{ services: ["ldap", "sso"] }, true],
    [{ services: ["ss"] }, false],
    [{ eventTypes: ["user_*"] }, true],
    [{ eventTypes: ["*login"] }, true],
    [{ eventTypes: ["user"] }, false],
    [{ services: ["sso"], eventTypes: ["admin_*"] }, false],
    [{ services: ["sso"], eventTypes: ["admin_*", "user_login"] }, true],
  ])("only %j: %s", (route, expected) => {
    expect(filterOf({ only: route })(event)).toBe(expected);
    expect(filterOf({ except: route })(event)).toBe(!expected);
  });

  test("only and except together: in the one and not in the other", () => {
    expect(filterOf({ only: { services: ["sso"] }, except: { eventTypes: ["admin_*"] } })(event)).toBe(true);
    expect(filterOf({ only: { services: ["sso"] }, except: { eventTypes: ["user_*"] } })(event)).toBe(false);
  });

  test("without conditions everything, before a start time nothing", () => {
    expect(filterOf({})(event)).toBe(true);
    expect(filterOf({ sinceMs: event.timestampMs })(event)).toBe(true);
    expect(filterOf({ sinceMs: event.timestampMs + 1 })(event)).toBe(false);
  });

  test("R21 what was read for a sink alone is not left out for its age", async () => {
    const harness = createHarness({ wants: filterOf({ sinceMs: timeMs(1000) }) });
    try {
      await harness.append(eventTexts(0, 2));
      await harness.append(eventTexts(2, 3), { reader: "sink" });
      await harness.append(eventTexts(5, 1), { reader: "sink", account: "other" });
      await stepUntilIdle(await harness.start());
      expect(harness.destination.held).toEqual([...eventTexts(2, 3), ...eventTexts(5, 1)]);
    } finally {
      await harness.close();
    }
    const own = filterOf({ sinceMs: event.timestampMs + 1, except: { services: ["sso"] } });
    expect(own(event, true)).toBe(false);
  });

  test("a portal's own event is in no organization, and is not left out as one", () => {
    const own = { ...event, organization: null };
    expect(filterOf({ only: { organizations: ["5f0c"] } })(own)).toBe(false);
    expect(filterOf({ except: { organizations: ["5f0c"] } })(own)).toBe(true);
  });

  test("a pattern takes * for anything and everything else literally", () => {
    expect(patternOf("a.b+c").test("a.b+c")).toBe(true);
    expect(patternOf("a.b").test("axb")).toBe(false);
    expect(patternOf("(a|b)").test("a")).toBe(false);
    expect(patternOf("a*c").test("abbbc")).toBe(true);
    expect(patternOf("*").test("")).toBe(true);
    expect(patternOf("$^[]{}?\\").test("$^[]{}?\\")).toBe(true);
  });

  test("an empty list and an unknown condition are mistakes", () => {
    expect(routeSchema.safeParse({ services: [] }).success).toBe(false);
    expect(routeSchema.safeParse({ service: ["sso"] }).success).toBe(false);
  });
});
