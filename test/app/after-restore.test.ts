import { expect, test } from "vitest";
import { afterRestore } from "../../src/app/after-restore.ts";
import { placeReaders } from "../../src/app/sinks.ts";
import type { Config } from "../../src/config/schema.ts";
import { silentLog } from "../../src/core/log.ts";
import { sinks } from "../../src/sinks/index.ts";
import { openFixture } from "../journal/support.ts";
import { eventTexts, pageOf } from "../support/pages.ts";

const linesOf = (list: readonly object[]) =>
  afterRestore({ sinks: list, imports: [], state: "/nowhere/state.db" } as unknown as Config);

test("a sink that takes nothing twice has its own sentence; one that does is said to get events again", async () => {
  const [, ...lines] = await linesOf(sinks.map(({ type }) => ({ name: "siem", type })));
  expect(lines).toHaveLength(sinks.length);
  for (const [at, { type, guarantee }] of sinks.entries()) {
    expect(lines[at]).toContain(`siem (${type}): `);
    const getsAgain = lines[at]!.includes("gets again what was delivered");
    expect({ type, getsAgain }).toEqual({ type, getsAgain: guarantee === "at_least_once" });
  }
});

test("Kafka without transactions gets events again", async () => {
  const [, line] = await linesOf([{ name: "lake", type: "kafka", delivery: "at_least_once" }]);
  expect(line).toContain("gets again what was delivered");
  expect(line).not.toContain("the positions topic knows");
});

test("an archive whose place cannot be looked at is said to stop if its log is further than the copy", async () => {
  const store = { directory: "/nowhere/archive" };
  const lines = await linesOf([{ name: "evidence", type: "archive", origin: "example.com/a", store }]);
  expect(lines.at(-1)).toContain("evidence (archive): its log knows how far it was written.");
});

test("R14 a copy from before two names were swapped with their positions says that the next run is refused", async () => {
  const fixture = openFixture();
  try {
    await fixture.journal.append(pageOf(eventTexts(0, 3)));
    for (const name of ["one", "two"]) await fixture.journal.reader(name);
    const place = (name: string, directory: string) => ({ name, type: "file", directory });
    const config = (sinks: readonly object[]) =>
      ({ sinks, accounts: [], imports: [], state: fixture.file }) as unknown as Config;
    const before = config([place("one", "/data/a"), place("two", "/data/b")]);
    await placeReaders(before, fixture.journal, silentLog);
    expect((await afterRestore(before))[0]).toContain("are pulled again");
    const [first] = await afterRestore(config([place("one", "/data/b"), place("two", "/data/a")]));
    expect(first).toContain("It is refused: The sinks of the config do not match the state file");
    expect(first).toContain('the sink "one" has the settings that "two" had so far');
  } finally {
    fixture.close();
  }
});
