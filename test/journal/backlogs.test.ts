import { afterEach, beforeEach, expect, test } from "vitest";
import { createSpace } from "../../src/journal/space.ts";
import { createBacklogs } from "../../src/journal/view/readers.ts";
import { eventTexts, pageOf } from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

let fixture: JournalFixture;
beforeEach(() => {
  fixture = openFixture();
});
afterEach(() => fixture.close());

test("R40 for a reader without a position, pages whose bytes are trimmed do not wait", async () => {
  const { journal, db, file } = fixture;
  const backlogs = createBacklogs(db);
  const late = { name: "late", page: 0, event: 0 };
  await journal.append(pageOf(eventTexts(0, 10)));
  await journal.append(pageOf(eventTexts(10, 5)));
  expect(await backlogs.of(late)).toMatchObject({ events: 15 });
  const reader = await journal.reader("old");
  const trim = async () => {
    const page = (await reader.read(reader.position))!;
    await reader.commit(page.after(page.first + page.count - 1), undefined);
    await createSpace(db, file, 1_000_000_000).trim();
  };
  await trim();
  expect(await backlogs.of(late)).toMatchObject({ events: 5 });
  await trim();
  expect(await backlogs.of(late)).toEqual({ events: 0, bytes: 0, oldestMs: null });
  await journal.append(pageOf(eventTexts(15, 3)));
  expect(await backlogs.of(late)).toMatchObject({ events: 3, oldestMs: expect.any(Number) });
});
