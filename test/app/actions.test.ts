import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Account } from "../../src/app/account.ts";
import { createActions } from "../../src/app/actions.ts";
import type { Config } from "../../src/config/schema.ts";
import { UnknownNameError } from "../../src/core/actions.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createDeadLetters } from "../../src/journal/dead-letters.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { eventTexts, pageOf, readEvents } from "../support/pages.ts";

describe("the actions", () => {
  let fixture: JournalFixture;
  const polled: string[] = [];
  const { signal } = new AbortController();
  beforeEach(() => {
    fixture = openFixture();
    polled.splice(0);
  });
  afterEach(() => fixture.close());

  function actions() {
    const account = (name: string) =>
      ({ name, poller: { planNow: () => polled.push(name) } }) as unknown as Account;
    return createActions({
      config: { sinks: [{ name: "siem" }], accounts: [] } as unknown as Config,
      db: fixture.db,
      journal: fixture.journal,
      accounts: [account("acme"), account("other")],
      deliveries: [],
      archives: [],
      clock: systemClock,
    });
  }

  async function bury(count: number, reasonOf: (index: number) => string): Promise<void> {
    await fixture.journal.append(pageOf(eventTexts(0, count)));
    const reader = await fixture.journal.reader("siem");
    const events = await readEvents(reader);
    await reader.addDeadLetters(
      events.map((event, index) => ({ event, reason: reasonOf(index), answer: `answer ${index}` })),
    );
  }

  test("poll looks at one account when it is named, and at all otherwise", async () => {
    await actions().poll({ account: "acme" }, signal);
    expect(polled).toEqual(["acme"]);
    await actions().poll({}, signal);
    expect(polled).toEqual(["acme", "acme", "other"]);
    await expect(actions().poll({ account: "nobody" }, signal)).rejects.toThrow(UnknownNameError);
  });

  test("replay returns all dead letters of a sink, also more than one transaction takes", async () => {
    await bury(12_000, () => "400: no");
    expect(await actions().replay({ sink: "siem" }, signal)).toMatchObject({ count: 12_000 });
    expect(createDeadLetters(fixture.db).counts()).toEqual([]);
  });

  test("one group takes refusals that differ only in values, ids and numbers", async () => {
    await bury(6, (index) =>
      index < 4 ? `answered 400: value "x${index}" at offset 1${index}0` : "answered 413",
    );
    const [first, second] = createDeadLetters(fixture.db).groups();
    expect([first!.count, second!.count]).toEqual([4, 2]);
    expect(first!.reason).toBe('answered 400: value "…" at offset …');
    expect(first!.example).toMatchObject({
      reason: 'answered 400: value "x3" at offset 130',
      answer: "answer 3",
    });
    expect(await actions().drop({ group: second!.id }, signal)).toMatchObject({ count: 2 });
    expect(await actions().replay({ ids: [1, 2], group: first!.id }, signal)).toMatchObject({ count: 2 });
    expect(await actions().replay({ group: "none" }, signal)).toMatchObject({ count: 0 });
    expect(
      createDeadLetters(fixture.db)
        .list({}, 10)
        .map(({ id }) => id),
    ).toEqual([3, 4]);
  });
});
