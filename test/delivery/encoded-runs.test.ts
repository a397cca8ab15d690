import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createFormat } from "../../src/app/sinks.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import type { JournalReader } from "../../src/core/journal.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { createChunks } from "../../src/delivery/encoded-lines.ts";
import { everything } from "../../src/delivery/filter.ts";
import { fixtureTexts } from "../formats/recipes-support.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { pageOf } from "../support/pages.ts";

const ORGANIZATIONS = ["0ed99129c72ac75bace7678a", "30eed3a6df45e10a248fa3ae"];

const ASKED = [...ORGANIZATIONS, "12", 'a"b', "köln", "o".repeat(300)];

describe("events that are encoded at once", () => {
  let fixture: JournalFixture;
  let reader: JournalReader;

  beforeEach(async () => {
    fixture = openFixture();
    reader = await fixture.journal.reader("r");
  });
  afterEach(() => fixture.close());

  /** Fixture events over and over, changed by `more`. */
  async function append(
    count: number,
    more: (index: number) => object = () => ({}),
    first = 0,
  ): Promise<void> {
    const texts = fixtureTexts();
    const events = Array.from({ length: count }, (_, index) => {
      const event = JSON.parse(texts[index % texts.length]!);
      const id = (first + index).toString(16).padStart(24, "0");
      return JSON.stringify({ ...event, organization: ORGANIZATIONS[index % 2], id, ...more(index) });
    });
    await fixture.journal.append(pageOf(events, { organizations: ASKED, provider: "portal" }));
  }

  interface Chosen {
    readonly recordsMax?: number;
    readonly bytesMax?: number;
    readonly recordBytesMax?: number;
    readonly chunkBytes?: number;
  }

  /** The lines of all batches, and how many events were encoded one by one. */
  async function encoded(format: Format, chosen: Chosen = {}) {
    const { recordsMax = 777, bytesMax = 100_000_000, recordBytesMax, chunkBytes = 100_000 } = chosen;
    const lines: string[] = [];
    const misfits: string[] = [];
    const sizes: number[] = [];
    let singles = 0;
    const encode = (event: JournalEvent) => {
      singles++;
      return (format.encodeShared ?? format.encode)(event);
    };
    const chunks = createChunks({ poison: true, chunkBytes });
    const limits = { recordsMax, bytesMax, ageMsMax: 0, ...(recordBytesMax && { recordBytesMax }) };
    for (let from = reader.position; ; ) {
      const formed = await formBatch({
        ...{ reader, from, limits, recordsMax, bound: undefined, wants: everything, encode, chunks },
        ...{ encodeLines: format.encodeLines, keepsBytes: false },
      });
      misfits.push(...formed.misfits.map(({ event }) => event.id ?? ""));
      for (const lease of formed.misfitLeases) lease.release();
      if (formed.batch === null && formed.misfits.length === 0) return { lines, misfits, sizes, singles };
      if (formed.batch !== null) {
        const bodies = formed.batch.records.map(({ body }) => Buffer.from(body).toString());
        lines.push(...bodies);
        sizes.push(bodies.reduce((sum, body) => sum + Buffer.byteLength(body), 0));
        for (const { lines: own, from: first, to } of formed.batch.stretches!)
          expect(Buffer.from(own.bytes(first, to)).toString().split("\n").slice(0, -1)).toHaveLength(
            to - first,
          );
        for (const lease of formed.batch.leases) lease.release();
      }
      from = formed.to;
    }
  }

  const withRecipes = (name: string) => createFormat(name, {}, () => expect.unreachable("a wrong recipe"));

  test.each(["ocsf", "ecs"])("%s: most events are, with the bytes of the converter", async (name) => {
    await append(6000, (index) => ({ at: index, name: `Zoë ${index}` }));
    const expected = await encoded(createFormat(name, {}));
    expect(expected.singles).toBeGreaterThanOrEqual(6000);
    const made = await encoded(withRecipes(name));
    expect(made.lines).toEqual(expected.lines);
    expect(made.lines).toHaveLength(6000);
    expect(made.singles).toBeLessThan(3000);
  });

  test("batches end where they do with events that are encoded one by one", async () => {
    await append(4000, (index) => ({ at: "x".repeat(index % 50) }));
    const format = withRecipes("ocsf");
    await encoded(format);
    for (const limits of [
      { recordsMax: 3 },
      { bytesMax: 20_000 },
      { recordBytesMax: 1500 },
      { bytesMax: 4000, chunkBytes: 3000 },
    ]) {
      const expected = await encoded(createFormat("ocsf", {}), limits);
      const made = await encoded(format, limits);
      expect(made.lines).toEqual(expected.lines);
      expect(made.misfits).toEqual(expected.misfits);
      expect(made.sizes).toEqual(expected.sizes);
      expect(made.singles).toBeLessThan(expected.singles);
    }
  });

  const ODD: readonly [string, (index: number) => object][] = [
    ["an organization in upper case", (index) => ({ organization: ORGANIZATIONS[index % 2]!.toUpperCase() })],
    ["an organization that is a number", () => ({ organization: 12 })],
    ["an organization with an escape", () => ({ organization: 'a"b' })],
    ["an organization of other letters", () => ({ organization: "Köln" })],
    ["no organization", () => ({ organization: undefined })],
    ["an empty organization", () => ({ organization: "" })],
    ["a very long organization", () => ({ organization: "o".repeat(300) })],
    ["no timestamp", () => ({ timestamp: undefined })],
    ["a timestamp that is none", () => ({ timestamp: "yesterday" })],
    ["an id of another event", () => ({ id: "0".repeat(24) })],
    ["no id", () => ({ id: undefined })],
    ["numbers that are written differently", () => ({ at: 1e21 })],
    ["a line of 600 KB", (index) => (index === 500 ? { at: "y".repeat(600_000) } : {})],
  ];
  test.each(ODD)("events with %s come out as from the converter", async (_, odd) => {
    await append(1000);
    await append(1000, (index) => ({ at: index, ...(index % 5 === 0 ? odd(index) : {}) }), 1000);
    for (const name of ["ocsf", "ecs"]) {
      const expected = await encoded(createFormat(name, {}), { recordsMax: 5000 });
      const made = await encoded(withRecipes(name), { recordsMax: 5000 });
      expect(made.lines).toEqual(expected.lines);
      expect(made.singles).toBeLessThan(expected.singles);
    }
  });

  test("recipes are still compared with the converter once in a thousand uses", async () => {
    const event = JSON.parse(fixtureTexts()[0]!);
    const texts = Array.from({ length: 3000 }, (_, index) =>
      JSON.stringify({ ...event, organization: ORGANIZATIONS[0], id: `id-${index}` }),
    );
    await fixture.journal.append(pageOf(texts, { organizations: ORGANIZATIONS }));
    const made = await encoded(withRecipes("ocsf"), { recordsMax: 5000 });
    // Two teach nothing, the third teaches, three are checked, then the uses 1,000 and 2,000 are.
    expect(made.singles).toBe(2 + 1 + 3 + 2);
  });
});
