// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Batch } from "../../src/core/sink.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { ORGANIZATION, OTHER_ORGANIZATION, pageOf, timeText } from "../support/pages.ts";
import { linesIn, linesOf, makeFolder, namesIn, openFile, useDisk } from "./file-support.ts";

/*
 * Stretches of lines that delivery hands over, from a real journal: large ones are written from the page's
 * own memory, small ones through a buffer.
 */

const disk = useDisk();

const organizations = [ORGANIZATION, OTHER_ORGANIZATION];
const bothOf = (number: number) => organizations[number % 2]!;
const longRuns = (number: number) => organizations[Math.floor(number / 1500) % 2]!;

test.each([
  ["one file", () => ORGANIZATION, { path: "all" }],
  ["two files that take turns", bothOf, { path: "{organization}" }],
  ["two files with long runs each", longRuns, { path: "{organization}" }],
  ["files that fill up", longRuns, { path: "{organization}", rotateSize: "300KB" }],
])("every line is there once, in order and byte for byte: %s", async (_, organizationOf, config) => {
  const texts = Array.from({ length: 6000 }, (_, number) =>
    JSON.stringify({
      organization: organizationOf(number),
      timestamp: timeText(number),
      id: `n${number}`,
      text: "é".repeat(number % 500),
    }),
  );
  for (let from = 0; from < texts.length; from += 2000)
    await disk.fixture.journal.append(pageOf(texts.slice(from, from + 2000), { organizations }));

  const sink = await openFile(disk.folder.path, config, { journal: disk.fixture.journal.id });
  const reader = await disk.fixture.journal.reader("disk");
  for (let at = reader.position; ; ) {
    const { recordsMax } = sink.limits;
    const { batch } = await formBatch({
      ...{ reader, from: at, limits: sink.limits, recordsMax, bound: undefined, keepsBytes: true },
      wants: ({ id }) => id !== "n7",
      encode: ({ bytes }) => bytes,
    });
    if (batch === null) break;
    expect(batch.stretches).toBeDefined();
    const state = await sink.write(batch, new AbortController().signal);
    await reader.commit(batch.to, state);
    at = batch.to;
  }
  await sink.close();

  const wanted = texts.filter((_, number) => number !== 7);
  const ofEach = (lines: readonly string[]) =>
    organizations.map((organization) => lines.filter((line) => line.includes(organization)));
  expect(ofEach(linesIn(disk.folder.path))).toEqual(ofEach(wanted));
  if ("rotateSize" in config) expect(namesIn(disk.folder.path).length).toBeGreaterThan(6);
});

test.each([
  "all",
  "{date}",
  "{organization}/{date}",
  "{account}/{organization}",
  "{service}",
  "{date}/{event_type}",
])(
  "files are the same as from records one by one, days, organizations and gaps in them included: %s",
  async (path) => {
    const event = fc.record(
      {
        organization: fc.constantFrom(...organizations),
        timestamp: fc.oneof(
          fc.integer({ min: -3, max: 3 }).map((steps) => new Date(MIDNIGHT_MS + steps).toISOString()),
          fc.constantFrom("2026-03-15T00:00:00.000000001Z", "yesterday", "2026-03-14T23:59:59.999999999Z"),
        ),
        service: fc.constantFrom("sso", "radius"),
        event_type: fc.constantFrom("login", "logout"),
        text: fc.string({ maxLength: 20 }),
      },
      { requiredKeys: ["organization"] },
    );
    let number = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { minLength: 1, maxLength: 12 }),
        fc.nat(12),
        async (events, unwanted) => {
          const from = disk.fixture.journal.end();
          const texts = events.map((fields) => JSON.stringify({ ...fields, id: `n${number++}` }));
          await disk.fixture.journal.append(pageOf(texts, { organizations }));
          const { batch } = await formBatch({
            ...{ reader: await disk.fixture.journal.reader("disk"), from, limits: LIMITS, recordsMax: 1000 },
            ...{ bound: undefined, keepsBytes: true, encode: ({ bytes }) => bytes },
            wants: ({ index }) => index !== unwanted,
          });
          if (batch === null) return;
          const folders = [makeFolder(), makeFolder()];
          try {
            const one = await writtenTo(folders[0]!.path, path, batch);
            const { records, to } = batch;
            expect(batch.stretches).toBeDefined();
            expect(one).toEqual(await writtenTo(folders[1]!.path, path, { records, from, to }));
          } finally {
            for (const made of folders) made.remove();
          }
        },
      ),
      { numRuns: 25 },
    );
  },
);

const MIDNIGHT_MS = Date.parse("2026-03-15T00:00:00Z");
const LIMITS = { recordsMax: 1000, bytesMax: 1_000_000, ageMsMax: 0 };

/** The files of a directory after one batch. */
async function writtenTo(directory: string, path: string, batch: Batch): Promise<Record<string, string[]>> {
  const sink = await openFile(directory, { path, rotateSize: "1KB" }, { journal: disk.fixture.journal.id });
  await sink.write(batch, new AbortController().signal);
  await sink.close();
  return Object.fromEntries(namesIn(directory).map((name) => [name, linesOf(join(directory, name))]));
}
