import { afterEach, beforeEach, expect, test } from "vitest";
import { formBatch } from "../../src/delivery/batching.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { ORGANIZATION, OTHER_ORGANIZATION, pageOf, timeText } from "../support/pages.ts";
import { linesIn, makeFolder, namesIn, openFile } from "./file-support.ts";

/*
 * What delivery hands over as stretches of lines, from a real journal: large ones are written from the page's
 * own memory, small ones through a buffer.
 */

let folder: ReturnType<typeof makeFolder>;
let fixture: JournalFixture;

beforeEach(() => {
  folder = makeFolder();
  fixture = openFixture();
});
afterEach(() => {
  fixture.close();
  folder.remove();
});

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
    await fixture.journal.append(pageOf(texts.slice(from, from + 2000), { organizations }));

  const sink = await openFile(folder.path, config, { journal: fixture.journal.id });
  const reader = await fixture.journal.reader("disk");
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
  expect(ofEach(linesIn(folder.path))).toEqual(ofEach(wanted));
  if ("rotateSize" in config) expect(namesIn(folder.path).length).toBeGreaterThan(6);
});
