import { expect, describe as suite, test } from "vitest";
import { z } from "zod";
import type { FormatDefinition } from "../../src/core/format.ts";
import type { Fields } from "../../src/core/meaning.ts";
import { describe, services } from "../../src/services/index.ts";
import { journalEvent } from "../formats/event.ts";
import { damaged, documentedTypes, seeded, syntheticEvent } from "../services/synthetic.ts";
import { FIXTURES, fixturesOf } from "./service.ts";

/** The promises of every format. `ending` is that of its fixtures; without one it has no fixtures. */
export function formatContract(definition: FormatDefinition, ending?: string): void {
  const format = definition.create(definition.options.parse({}), { describe });
  const textOf = (event: Parameters<typeof format.encode>[0]) => Buffer.from(format.encode(event)).toString();

  suite(`the format ${definition.name}`, () => {
    test("has a summary, and a description for each option", () => {
      expect(definition.summary).toMatch(/\.$/);
      const { shape } = definition.options as z.ZodObject;
      for (const [name, option] of Object.entries(shape))
        expect((option as z.ZodType).meta()?.description, name).toMatch(/\.$/);
    });

    test("refuses options that it does not know", () => {
      expect(definition.options).toBeInstanceOf(z.ZodObject);
      expect(definition.options.safeParse({ unheardOf: 1 }).success).toBe(false);
    });

    test("writes any event on one line, without throwing, and the same event as the same text", () => {
      const random = seeded(21);
      for (let round = 0; round < 1500; round++) {
        const { service, eventType } = documentedTypes[(round * 7) % documentedTypes.length]!;
        const whole = syntheticEvent(service, eventType, random);
        const event = journalEvent(JSON.stringify(damaged(whole, random, 6), null, round % 3));
        const text = textOf(event);
        expect(text).not.toMatch(/[\r\n]/);
        expect(textOf(event)).toBe(text);
      }
    });

    test("leaves the event's bytes as they are", () => {
      const event = journalEvent(`{"id":"a",\n"event_type":"user_login","timestamp":"x"}`);
      const before = Buffer.from(event.bytes).toString("hex");
      format.encode(event);
      expect(Buffer.from(event.bytes).toString("hex")).toBe(before);
    });

    test("survives an event that is nested as deep as the scanner allows", () => {
      const deep = `{"event_type":"user_create","resource":{"id":"r"},"a":${"[".repeat(490)}${"]".repeat(490)}}`;
      expect(textOf(journalEvent(deep)).length).toBeGreaterThan(50);
    });

    if (ending !== undefined) fixtures(ending, textOf);
  });
}

function fixtures(ending: string, textOf: (event: ReturnType<typeof journalEvent>) => string): void {
  for (const service of services) {
    test(`writes the fixtures of ${service.name} as they were agreed`, async () => {
      for (const { name, text } of fixturesOf(service.name)) {
        const written = textOf(journalEvent(text));
        const pretty = ending.endsWith("json")
          ? JSON.stringify(JSON.parse(written) as Fields, null, 2)
          : written;
        const path = new URL(`${service.name}/${name}.${ending}`, FIXTURES).pathname;
        await expect(`${pretty}\n`).toMatchFileSnapshot(path);
      }
    });
  }
}
