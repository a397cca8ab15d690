import { afterEach, expect, test } from "vitest";
import { eventText, pageOf } from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

const ORGANIZATION = "aaaaaaaaaaaaaaaaaaaaaaaa";
const PORTAL = "9d9d9d9d9d9d9d9d9d9d9d9d";
let fixture: JournalFixture;
afterEach(() => fixture.close());

/** The same event, shown by an organization and by a portal: how many are stored. */
async function stored(organization: string | null): Promise<unknown> {
  fixture = openFixture();
  const text = eventText(1, { organization });
  await fixture.journal.append(pageOf([text], { organizations: [ORGANIZATION] }));
  await fixture.journal.append(pageOf([text], { organizations: [], provider: PORTAL }));
  return fixture.db.prepare("SELECT SUM(events) FROM pages").pluck().get();
}

test("R10 an event of an organization that a portal shows too is stored once", async () => {
  expect(await stored(ORGANIZATION)).toBe(1);
});

test("R10 without an organization its owner is the source that shows it, so it is stored for each", async () => {
  expect(await stored(null)).toBe(2);
});
