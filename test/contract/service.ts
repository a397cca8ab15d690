import { readdirSync, readFileSync } from "node:fs";
import { expect, describe as suite, test } from "vitest";
import { type Fields, isFields, type Leaf } from "../../src/core/meaning.ts";
import type { ServiceDefinition } from "../../src/core/service.ts";
import { damaged, seeded, syntheticEvent } from "../services/synthetic.ts";

export const FIXTURES = new URL("../fixtures/services/", import.meta.url);

/** The inputs of a service's fixtures: name without ending, and content. */
export function fixturesOf(service: string): { name: string; text: string }[] {
  return readdirSync(new URL(`${service}/`, FIXTURES))
    .filter((name) => name.endsWith(".in.json"))
    .map((name) => ({
      name: name.slice(0, -".in.json".length),
      text: readFileSync(new URL(`${service}/${name}`, FIXTURES), "utf8"),
    }));
}

/** The promises of every service. */
export function serviceContract(service: ServiceDefinition): void {
  suite(`the service ${service.name}`, () => {
    test("has at least three fixtures", () => {
      expect(fixturesOf(service.name).length).toBeGreaterThanOrEqual(3);
    });

    test("its schema takes its fixtures and keeps every field", () => {
      for (const { name, text } of fixturesOf(service.name)) {
        const event = JSON.parse(text) as Fields;
        if (event.event_type === undefined) continue;
        const result = service.event.safeParse(event);
        expect(result.error, name).toBeUndefined();
        expect(result.data, name).toEqual(event);
      }
    });

    test("describes any event without throwing, and every leaf of the meaning is in the event", () => {
      const random = seeded(11);
      const wrong: string[] = [];
      for (let round = 0; round < 500; round++) {
        const eventType = service.eventTypes[round % service.eventTypes.length] ?? "unheard_of";
        const event = damaged(syntheticEvent(service.name, eventType, random), random, 3) as Fields;
        const before = JSON.stringify(event);
        const meaning = service.describe(event);
        const hasStranger = leavesIn(meaning).some((leaf) => !Object.hasOwn(leaf.holder, leaf.key));
        if (hasStranger || JSON.stringify(event) !== before) wrong.push(before);
      }
      expect(wrong).toEqual([]);
    });

    test("describes what is no event at all", () => {
      for (const event of [{}, { initiated_by: [], resource: "x", geoip: 3, system: null, changes: {} }])
        expect(service.describe(event).outcome.is).toBe("unknown");
    });
  });
}

function leavesIn(value: unknown, found: Leaf<unknown>[] = []): Leaf<unknown>[] {
  if (Array.isArray(value)) for (const inner of value) leavesIn(inner, found);
  if (!isFields(value)) return found;
  if ("holder" in value && "key" in value) found.push(value as unknown as Leaf<unknown>);
  else for (const inner of Object.values(value)) leavesIn(inner, found);
  return found;
}
