import { afterEach, beforeEach, expect, test } from "vitest";
import { placeReaders } from "../../src/app/sinks.ts";
import { parseConfig } from "../../src/config/load.ts";
import { type Log, silentLog } from "../../src/core/log.ts";
import { createSpace } from "../../src/journal/space.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { eventTexts, pageOf } from "../support/pages.ts";

let fixture: JournalFixture;
beforeEach(() => {
  fixture = openFixture();
});
afterEach(() => fixture.close());

async function warningsFor(sinks: string): Promise<unknown[]> {
  const warnings: unknown[] = [];
  const log: Log = { ...silentLog, warn: (fields) => warnings.push(fields) };
  const text = `accounts: [{ name: acme, region: us, apiKey: { env: KEY } }]\nsinks: [${sinks}]\n`;
  await placeReaders(parseConfig(text, "tidemark.yaml"), fixture.journal, log);
  return warnings;
}

test("R14 a new sink that asks for the beginning of a trimmed journal is told that older events are missing", async () => {
  const { journal, db, file } = fixture;
  await journal.append(pageOf(eventTexts(0, 10)));
  await journal.append(pageOf(eventTexts(10, 10)));
  const late = "{ name: late, type: console, start: beginning }";
  expect(await warningsFor(late)).toEqual([]);
  const reader = await journal.reader("old");
  await reader.commit((await reader.read(reader.position))!.after(9), undefined);
  await createSpace(db, file, 1_000_000_000).trim();
  const old = "{ name: old, type: console }";
  expect(await warningsFor(`${old}, ${late}`)).toEqual([{ sink: "late" }]);
  expect(await warningsFor(`${old}, { name: new, type: console, start: now }`)).toEqual([]);
});

test("R14 two sinks whose names were swapped are refused, and nothing else", async () => {
  const place = (name: string, directory: string, more = "") =>
    `{ name: ${name}, type: file, directory: /data/${directory}${more} }`;
  await fixture.journal.append(pageOf(eventTexts(0, 3)));
  for (const name of ["one", "two"]) await fixture.journal.reader(name);
  await warningsFor(`${place("one", "a")}, ${place("two", "b")}`);
  const swapped = warningsFor(`${place("one", "b")}, ${place("two", "a")}`);
  await expect(swapped).rejects.toThrow('the sink "one" has the settings that "two" had so far');
  await expect(swapped).rejects.toThrow('the sink "two" has the settings that "one" had so far');
  // Refused again, since nothing was kept of it.
  await expect(warningsFor(`${place("one", "b")}, ${place("two", "c")}`)).rejects.toThrow('"one"');
  // A new place, other options, and the place of a sink that was forgotten are no mistakes.
  await warningsFor(`${place("one", "d")}, ${place("two", "b", ", compress: zstd")}`);
  await warningsFor(`${place("one", "d")}, ${place("two", "e")}`);
  await fixture.journal.readers.forget("two");
  await warningsFor(`${place("one", "e")}, ${place("three", "d", ", start: now")}`);
});

test("R14 sinks that differ by a secret or a filter alone are told apart", async () => {
  const hec = (name: string, env: string) =>
    `{ name: ${name}, type: splunk_hec, url: "https://splunk:8088", token: { env: ${env} } }`;
  const lines = (name: string, services: string) =>
    `{ name: ${name}, type: console, only: { services: [${services}] } }`;
  await fixture.journal.append(pageOf(eventTexts(0, 3)));
  for (const name of ["one", "two"]) await fixture.journal.reader(name);
  for (const [first, second, of] of [
    ["A", "B", hec],
    ["sso", "radius", lines],
  ] as const) {
    await warningsFor(`${of("one", first)}, ${of("two", second)}`);
    await expect(warningsFor(`${of("one", second)}, ${of("two", first)}`)).rejects.toThrow("had so far");
  }
});

test("R14 names that were swapped by renaming the positions too are no mistake", async () => {
  const place = (name: string, directory: string) =>
    `{ name: ${name}, type: file, directory: /data/${directory} }`;
  await fixture.journal.append(pageOf(eventTexts(0, 3)));
  for (const name of ["one", "two"]) await fixture.journal.reader(name);
  await warningsFor(`${place("one", "a")}, ${place("two", "b")}`);
  const { readers } = fixture.journal;
  await readers.rename("one", "other");
  await readers.rename("two", "one");
  await readers.rename("other", "two");
  expect(await warningsFor(`${place("one", "b")}, ${place("two", "a")}`)).toEqual([]);
});
