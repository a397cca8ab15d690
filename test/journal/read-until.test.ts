import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NOT_IN_CONFIG } from "../../src/core/roster.ts";
import { newWindow, type Window } from "../../src/core/window.ts";
import { createRoster } from "../../src/journal/roster.ts";
import { eventText, pageOf } from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

const [FIRST, SECOND] = ["5f0c8a1b2c3d4e5f60718201", "5f0c8a1b2c3d4e5f60718202"];

let own: JournalFixture;
beforeEach(async () => {
  own = openFixture();
  const names = [FIRST, SECOND].map((id) => ({ id, name: id }));
  await createRoster(own.db).seen("acme", names, 0);
});
afterEach(() => own.close());

const streamOf = (organizations: readonly string[]) =>
  own.journal.stream({ account: "acme", provider: null, organizations, services: ["all"] });

async function add(organizations: readonly string[], fromMs: number, toMs: number, more: Partial<Window>) {
  await own.journal.changeWindows({ add: [newWindow(await streamOf(organizations), fromMs, toMs, more)] });
}

test("an organization is read up to the end of its own live window, whatever others are", async () => {
  await add([FIRST], 0, 500, { live: true });
  await add([SECOND], 0, 900, { live: true });
  const readUntilMs = own.journal.readUntil("~reader");
  expect(readUntilMs("acme", FIRST, 0)).toBe(500);
  expect(readUntilMs("acme", SECOND.toUpperCase(), 0)).toBe(900);
  expect(readUntilMs("acme", null, 0)).toBe(500);
  expect(readUntilMs("other", FIRST, 0)).toBeUndefined();
});

test("time that waits to be read, or is refused, ends it", async () => {
  await add([FIRST, SECOND], 1000, 2000, { live: true });
  await add([FIRST], 400, 700, {});
  await add([FIRST], 100, 200, { state: "read" });
  await add([SECOND], 800, 1000, { state: "refused", reason: "403" });
  const readUntilMs = own.journal.readUntil("~reader");
  expect(readUntilMs("acme", FIRST, 300)).toBe(400);
  expect(readUntilMs("acme", FIRST, 700)).toBe(2000);
  expect(readUntilMs("acme", SECOND, 300)).toBe(800);
});

test("an organization without a live window is not read, unless the config leaves it out", async () => {
  await add([SECOND], 0, 900, { live: true });
  const readUntilMs = own.journal.readUntil("~reader");
  const roster = createRoster(own.db);
  await roster.setState("acme", [FIRST], "refused", "403", null);
  expect(readUntilMs("acme", FIRST, 0)).toBeUndefined();
  await roster.setState("acme", [FIRST], "vanished", "the service no longer lists it", null);
  expect(readUntilMs("acme", FIRST, 0)).toBeUndefined();
  await roster.setState("acme", [FIRST], "vanished", NOT_IN_CONFIG, null);
  expect(readUntilMs("acme", FIRST, 0)).toBe(Number.POSITIVE_INFINITY);
});

test("the key's own organization counts for every id", async () => {
  await add([], 0, 700, { live: true });
  expect(own.journal.readUntil("~reader")("acme", FIRST, 0)).toBe(700);
  expect(own.journal.readUntil("~reader")("acme", null, 0)).toBe(700);
});

describe("events that the reader has not passed", () => {
  const at = (ms: number, organization = FIRST) => ({ organization, timestamp: new Date(ms).toISOString() });
  const append = (ms: number, organizations: readonly string[] = [FIRST, SECOND]) =>
    own.journal.append(pageOf([eventText(ms, at(ms)), eventText(ms + 1, at(ms + 500))], { organizations }));

  test("end it, for their own organization and for a job of the whole account", async () => {
    await add([FIRST, SECOND], 0, 9_000_000, { live: true });
    const reader = await own.journal.reader("~reader");
    const readUntilMs = own.journal.readUntil("~reader");
    await append(4_000_000);
    expect(readUntilMs("acme", FIRST, 3_000_000)).toBe(4_000_000);
    expect(readUntilMs("acme", null, 3_000_000)).toBe(4_000_000);
    expect(readUntilMs("acme", SECOND, 3_000_000)).toBe(9_000_000);
    // Half of the page is not the page.
    await reader.commit({ ...own.journal.end(), event: 1 }, undefined);
    expect(readUntilMs("acme", FIRST, 3_000_000)).toBe(4_000_000);
    await reader.commit(own.journal.end(), undefined);
    expect(readUntilMs("acme", FIRST, 3_000_000)).toBe(9_000_000);
    await append(5_000_000);
    expect(readUntilMs("acme", FIRST, 3_000_000)).toBe(5_000_000);
  });

  test("count from a little before the time asked for, because clocks differ, and no further back", async () => {
    await add([FIRST, SECOND], 0, 9_000_000, { live: true });
    await own.journal.reader("~reader");
    const readUntilMs = own.journal.readUntil("~reader");
    await append(4_000_000);
    expect(readUntilMs("acme", FIRST, 4_100_000)).toBe(4_000_000);
    expect(readUntilMs("acme", FIRST, 4_200_000)).toBe(9_000_000);
  });

  test("are none where the journal has no bytes for it any more", async () => {
    await add([FIRST], 0, 9_000_000, { live: true });
    await own.journal.reader("~reader");
    await append(4_000_000, [FIRST]);
    own.db.exec("DELETE FROM bodies");
    expect(own.journal.readUntil("~reader")("acme", FIRST, 3_000_000)).toBe(9_000_000);
  });
});
