import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Journal, PageCommit } from "../../src/core/journal.ts";
import { comparePositions, type Position, startOf } from "../../src/core/position.ts";
import { newWindow, StaleWindowError, type Window } from "../../src/core/window.ts";
import {
  eventText,
  eventTexts,
  FETCHED_MS,
  ORGANIZATION,
  OTHER_ORGANIZATION,
  pageOf,
  readEvents,
  readTexts,
  textsOf,
  timeMs,
  timeText,
} from "../support/pages.ts";

/** A journal for one test, empty at first. */
export interface OpenedJournal {
  readonly journal: Journal;
  /** Closed and opened again, as after a restart. */
  reopen(): Promise<Journal>;
  close(): Promise<void>;
}

/** The suite that every journal passes; it knows nothing but the contract. */
export function testJournal(name: string, open: () => Promise<OpenedJournal>): void {
  describe(`the contract of a journal: ${name}`, () => {
    let opened: OpenedJournal;
    let journal: Journal;

    beforeEach(async () => {
      opened = await open();
      journal = opened.journal;
    });
    afterEach(() => opened.close());

    async function reopen(): Promise<void> {
      journal = await opened.reopen();
    }

    const append = (events: readonly string[], over: Parameters<typeof pageOf>[1] = {}) =>
      journal.append(pageOf(events, over));

    async function windowOf(): Promise<Window> {
      const stream = await journal.stream({
        account: "acme",
        provider: null,
        organizations: [ORGANIZATION],
        services: ["all"],
      });
      await journal.changeWindows({ add: [newWindow(stream, timeMs(0), timeMs(100))] });
      return (await journal.windows())[0]!;
    }

    describe("append and read", () => {
      test("gives back every event, byte for byte, in order, over pages and restarts", async () => {
        const events = eventTexts(0, 30);
        for (let at = 0; at < 30; at += 10) await append(events.slice(at, at + 10));
        expect(await textsOf(journal, "before")).toEqual(events);
        await reopen();
        expect(await textsOf(journal, "after")).toEqual(events);
      });

      test("says of an event what the page and the event say of it", async () => {
        const text = eventText(1, { organization: ORGANIZATION.toUpperCase(), correlation: { id: "c7" } });
        const { page } = await append([eventText(0, { organization: null }), text]);
        await reopen();
        const [without, event] = await readEvents(await journal.reader("r"));
        expect(without).toMatchObject({ organization: ORGANIZATION, provider: null, index: 0 });
        expect(event).toMatchObject({
          account: "acme",
          organization: ORGANIZATION,
          service: "sso",
          eventType: "login",
          timestamp: timeText(1),
          timestampMs: timeMs(1),
          id: "000000000000000000000001",
          correlationId: "c7",
          fetchedAtMs: FETCHED_MS,
          page,
          index: 1,
        });
        expect(event!.identity).toMatch(/^[0-9a-f]{32}$/);
      });

      test("a portal's own event belongs to no organization", async () => {
        await append([eventText(0, { organization: null })], { organizations: [], provider: "9d9d" });
        const [event] = await readEvents(await journal.reader("r"));
        expect(event).toMatchObject({ organization: null, provider: "9d9d" });
      });

      test("says how many are new, and for whom, up to which time", async () => {
        const events = [0, 1, 2].map((number) =>
          eventText(number, { organization: number === 1 ? OTHER_ORGANIZATION : ORGANIZATION }),
        );
        const found = await append(events, { organizations: [ORGANIZATION, OTHER_ORGANIZATION] });
        expect(found).toMatchObject({ page: 1, fresh: 3, known: 0, repeated: 0, changed: 0, late: 0 });
        expect([...found.byOrganization]).toEqual([
          [ORGANIZATION, { events: 2, newestMs: timeMs(2) }],
          [OTHER_ORGANIZATION, { events: 1, newestMs: timeMs(1) }],
        ]);
      });

      test("events before the given time count as late, if they are new", async () => {
        await append(eventTexts(0, 3));
        expect((await append(eventTexts(0, 6), { lateBeforeMs: timeMs(4) })).late).toBe(1);
      });

      test("an empty page makes no page, and its change of the ledger is made", async () => {
        const window = await windowOf();
        const found = await append([], { change: () => ({ put: [{ ...window, state: "read" }] }) });
        expect(found).toMatchObject({ page: null, fresh: 0 });
        expect((await journal.windows())[0]!.state).toBe("read");
      });

      test("tells listeners of new events, of nothing else, and not after they left", async () => {
        let told = 0;
        const stop = journal.onAppend(() => told++);
        await append(eventTexts(0, 2));
        await append(eventTexts(0, 2));
        await append([]);
        expect(told).toBe(1);
        stop();
        await append(eventTexts(5, 2));
        expect(told).toBe(1);
      });
    });

    describe("R10 identity", () => {
      const a = eventText(1, { note: "a" });
      const b = eventText(1, { note: "b" });

      test("R10 two byte strings with one identity in one pass are two events, each with its own identity", async () => {
        expect(await append([a, b])).toMatchObject({ fresh: 2, repeated: 0, changed: 0 });
        const events = await readEvents(await journal.reader("r"));
        expect(events.map((event) => Buffer.from(event.bytes).toString())).toEqual([a, b]);
        expect(new Set(events.map(({ identity }) => identity)).size).toBe(2);
      });

      test.each([
        ["A before B", [a, b]],
        ["B before A", [b, a]],
      ])("R10 twins that are read again, %s, are known", async (_, again) => {
        await append([a, b]);
        expect(await append(again)).toMatchObject({ fresh: 0, known: 2, repeated: 0, changed: 0 });
        await reopen();
        expect(await append(again)).toMatchObject({ fresh: 0, known: 2 });
      });

      test.each([
        ["A before B", [a, b]],
        ["B before A", [b, a]],
      ])("R10 a twin that appears later is new beside the held one, %s", async (_, again) => {
        await append([a]);
        expect(await append(again)).toMatchObject({ fresh: 1, known: 1, changed: 0 });
        expect(await textsOf(journal)).toEqual([a, b]);
        expect(await append(again)).toMatchObject({ fresh: 0, known: 2 });
      });

      test("R10 an event that is read again with other bytes is the same one, counted as changed", async () => {
        await append([eventText(0), a, eventText(2)]);
        expect(await append([eventText(0), b, eventText(2)])).toMatchObject({
          fresh: 0,
          known: 2,
          changed: 1,
        });
        expect(await textsOf(journal)).toEqual([eventText(0), a, eventText(2)]);
      });

      test("R10 the same bytes twice in one page are one event and a repeat", async () => {
        expect(await append([a, a, eventText(2), a])).toMatchObject({ fresh: 2, repeated: 2 });
        expect(await textsOf(journal)).toEqual([a, eventText(2)]);
      });

      test("R10 three twins are three events, whatever the order they are read again in", async () => {
        const c = eventText(1, { note: "c" });
        expect(await append([a, b, c])).toMatchObject({ fresh: 3 });
        expect(await append([c, a, b])).toMatchObject({ fresh: 0, known: 3 });
      });

      test("R10 across page edges: a repeat of the last page's end is a repeat, a twin is an event", async () => {
        const first = await append([eventText(0), a]);
        const second = await append([a, b, eventText(2)], { edge: first.edge });
        expect(second).toMatchObject({ fresh: 2, known: 0, repeated: 1, changed: 0 });
        expect(await textsOf(journal)).toEqual([eventText(0), a, b, eventText(2)]);
        const again = await append([eventText(0), b]);
        expect(again).toMatchObject({ fresh: 0, known: 2 });
        expect(await append([a], { edge: again.edge })).toMatchObject({ fresh: 0, known: 1, changed: 0 });
      });

      test("R10 across page edges: a late twin before the held one is found when the pass begins anew with a mark", async () => {
        await append([a, eventText(2)]);
        const first = await append([eventText(0), b]);
        expect(first).toMatchObject({ fresh: 1, changed: 1 });
        const second = await append([a, eventText(2)], { edge: first.edge });
        expect(second).toMatchObject({ known: 2, againWith: [expect.stringMatching(/^~/)] });
        const anew = await append([eventText(0), b], { edge: second.againWith! });
        expect(anew).toMatchObject({ fresh: 1, known: 1, changed: 0 });
        const rest = await append([a, eventText(2)], { edge: anew.edge });
        expect(rest).toMatchObject({ fresh: 0, known: 2, repeated: 0 });
        expect(rest.againWith).toBeUndefined();
        expect((await textsOf(journal)).sort()).toEqual([a, b, eventText(0), eventText(2)].sort());
        // The next pass knows both.
        const later = await append([eventText(0), b]);
        expect(later).toMatchObject({ fresh: 0, known: 2 });
        expect((await append([a], { edge: later.edge })).againWith).toBeUndefined();
      });

      test("R10 across page edges: pages that lie wholly in one millisecond remember all that came before", async () => {
        const same = (id: string, note: string) => eventText(1, { id, note });
        let edge: readonly string[] = [];
        for (const page of [
          [same("x", "1"), same("y", "1")],
          [same("z", "1"), same("v", "1")],
        ])
          ({ edge } = await append(page, { edge }));
        const found = await append([same("x", "1"), same("x", "2")], { edge });
        expect(found).toMatchObject({ fresh: 1, repeated: 1 });
      });

      test("R36 twins are two events however many events of the same millisecond are between them", async () => {
        const same = (id: number, note: string) => eventText(1, { id: String(id), note });
        const between = Array.from({ length: 4500 }, (_, at) => same(at + 1, ""));
        const texts = [same(0, "a"), ...between, same(0, "b"), same(0, "a")];
        for (const expected of [
          { fresh: 4502, repeated: 1 },
          { fresh: 0, repeated: 1, changed: 0 },
        ]) {
          const totals = { fresh: 0, repeated: 0, changed: 0 };
          let edge: readonly string[] = [];
          for (let from = 0; from < texts.length; from += 1000) {
            const appended = await append(texts.slice(from, from + 1000), { edge });
            edge = appended.edge;
            totals.fresh += appended.fresh;
            totals.repeated += appended.repeated;
            totals.changed += appended.changed;
          }
          expect(totals).toMatchObject(expected);
        }
      });

      test("R10 what a pass remembers of its pages does not grow with them", async () => {
        let edge: readonly string[] = [];
        const sizes: number[] = [];
        for (let number = 0; number < 50; number++) {
          ({ edge } = await append([eventText(number)], { edge }));
          sizes.push(JSON.stringify(edge).length);
        }
        expect(Math.max(...sizes)).toBeLessThan(100);
      });

      test("R10 a pass that the first build began goes on", async () => {
        await append([eventText(0), a]);
        const [event] = (await readEvents(await journal.reader("r"))).slice(1);
        const digest = (await append([a])).edge[1]!;
        const number = Buffer.from(digest.slice(1), "base64").readUInt32LE(16);
        const found = await append([a, b], { edge: [`${event!.identity}:${number.toString(16)}`] });
        expect(found).toMatchObject({ fresh: 1, repeated: 1, changed: 0 });
      });

      test("R35 an event without a readable time is held once, however often and wherever it is read", async () => {
        const undated = (id: string, note = "") =>
          eventText(1, { id, note, timestamp: id === "none" ? (undefined as never) : "soon" });
        const texts = [eventText(0), undated("none"), undated("x"), eventText(3)];
        expect(await append(texts)).toMatchObject({ fresh: 4 });
        for (let day = 1; day < 4; day++) {
          const fetchedAtMs = FETCHED_MS + day * 86_400_000;
          const again = [eventText(10 * day), undated("x"), undated("none")];
          expect(await append(again, { fetchedAtMs })).toMatchObject({ fresh: 1, known: 2 });
          await reopen();
        }
        // A page of nothing else.
        expect(await append([undated("alone")])).toMatchObject({ fresh: 1 });
        expect(await append([undated("alone")])).toMatchObject({ fresh: 0, known: 1 });
        const first = await append([undated("x"), eventText(70)]);
        const twin = await append([eventText(71), undated("x", "other")], { edge: first.edge });
        expect(twin).toMatchObject({ fresh: 2, changed: 0 });
        expect(await append([undated("x", "changed")])).toMatchObject({ fresh: 0, changed: 1 });
      });

      test("R10 events without an id are distinguished by their bytes, and known when read again", async () => {
        const texts = [1, 2].map((number) => eventText(1, { id: undefined as never, number }));
        expect(await append([...texts, texts[0]!])).toMatchObject({ fresh: 2, repeated: 1 });
        expect(await append(texts)).toMatchObject({ fresh: 0, known: 2 });
      });

      test("R10 whatever is read, in whatever order and cut into pages: each byte string is held once", async () => {
        const pool = [0, 1, 2, 3].flatMap((number) =>
          ["a", "b"].map((note) => eventText(number, { note, timestamp: timeText(1) })),
        );
        await fc.assert(
          fc.asyncProperty(fc.shuffledSubarray(pool, { minLength: 1 }), fc.nat(8), async (texts, cut) => {
            const one = await open();
            try {
              const first = await one.journal.append(pageOf(texts.slice(0, cut)));
              await one.journal.append(pageOf(texts.slice(cut), { edge: first.edge }));
              expect((await textsOf(one.journal)).toSorted()).toEqual(texts.toSorted());
              const again = await one.journal.append(pageOf(texts.toReversed()));
              expect(again).toMatchObject({ fresh: 0, known: texts.length, changed: 0 });
            } finally {
              await one.close();
            }
          }),
          { numRuns: 25 },
        );
      });
    });

    describe("R11 what is held is not appended again", () => {
      test("R11 whatever account brings it", async () => {
        await append(eventTexts(0, 5));
        expect(await append(eventTexts(0, 5), { account: "other" })).toMatchObject({
          page: null,
          fresh: 0,
          known: 5,
        });
      });

      test("R11 read for one organization, then in a group, and the other way round", async () => {
        const organizations = [ORGANIZATION, OTHER_ORGANIZATION];
        const others = eventTexts(5, 5, { organization: OTHER_ORGANIZATION });
        await append(eventTexts(0, 5));
        expect(await append([...eventTexts(0, 5), ...others], { organizations })).toMatchObject({
          fresh: 5,
          known: 5,
        });
        expect(await append(others, { organizations: [OTHER_ORGANIZATION] })).toMatchObject({
          fresh: 0,
          known: 5,
        });
      });

      test("R11 an event without an organization of a single query is the one that names it", async () => {
        await append([eventText(1, { id: "x" })]);
        expect((await append([eventText(1, { id: "x", organization: null })])).fresh).toBe(0);
      });

      test("R11 pages that overlap in part bring only what is new, in its order", async () => {
        await append(eventTexts(4, 4));
        expect(await append(eventTexts(0, 12))).toMatchObject({ fresh: 8, known: 4 });
        const order = [...eventTexts(4, 4), ...eventTexts(0, 4), ...eventTexts(8, 4)];
        expect(await textsOf(journal)).toEqual(order);
      });

      test("R11 one id in two organizations, services or at two times is two events", async () => {
        const texts = [
          eventText(1, { id: "x" }),
          eventText(1, { id: "x", service: "ldap" }),
          eventText(1, { id: "x", timestamp: timeText(2) }),
          eventText(1, { id: "x", organization: OTHER_ORGANIZATION }),
        ];
        const organizations = [ORGANIZATION, OTHER_ORGANIZATION];
        expect((await append(texts, { organizations })).fresh).toBe(4);
      });

      test("R11 times years apart in one page, and before the epoch, are kept and found", async () => {
        const times = [
          "1969-12-31T23:59:59.999Z",
          "1970-01-01T00:00:00Z",
          "2026-01-01T00:00:00Z",
          "9999-12-31T23:59:59.999Z",
        ];
        const texts = times.map((timestamp, number) => eventText(number, { timestamp }));
        await append(texts);
        await reopen();
        expect(await append(texts.toReversed())).toMatchObject({ fresh: 0, known: 4 });
      });

      test("R11 it holds after a restart", async () => {
        await append(eventTexts(0, 5));
        await reopen();
        expect((await append(eventTexts(0, 6))).fresh).toBe(1);
      });
    });

    describe("all or nothing", () => {
      test("a change of the ledger that throws takes everything back, the next page is not mixed up with it", async () => {
        const window = await windowOf();
        await append(eventTexts(0, 2));
        const failing = pageOf(eventTexts(2, 3), {
          change() {
            throw new Error("no");
          },
        });
        await expect(journal.append(failing)).rejects.toThrow("no");
        expect(await textsOf(journal, "r1")).toEqual(eventTexts(0, 2));
        expect(await journal.windows()).toEqual([window]);
        expect((await journal.held([ORGANIZATION], timeMs(0), timeMs(100))).count).toBe(2);
        await append(eventTexts(10, 3));
        expect(await textsOf(journal, "r2")).toEqual([...eventTexts(0, 2), ...eventTexts(10, 3)]);
        expect((await append(eventTexts(2, 3))).fresh).toBe(3);
      });

      test("a change of the ledger that cannot be made takes everything back, the part that could be too", async () => {
        const window = await windowOf();
        const stream = { ...window.stream, id: 999_999 };
        const failing = pageOf(eventTexts(0, 3), {
          change: () => ({ put: [{ ...window, state: "sealed" }], add: [newWindow(stream, 0, 1)] }),
        });
        await expect(journal.append(failing)).rejects.toThrow();
        await expect(
          journal.changeWindows({ remove: [window.id], add: [newWindow(stream, 0, 1)] }),
        ).rejects.toThrow();
        expect(await textsOf(journal)).toEqual([]);
        expect(await journal.windows()).toEqual([window]);
        expect((await append(eventTexts(0, 3))).page).toBe(1);
      });

      test("R1 a read of a window that was removed meanwhile changes no other: numbers are not used again", async () => {
        const window = await windowOf();
        await journal.changeWindows({ remove: [window.id] });
        await journal.changeWindows({ add: [newWindow(window.stream, timeMs(200), timeMs(300))] });
        const later = await journal.windows();
        await expect(journal.changeWindows({ put: [{ ...window, state: "read" }] })).rejects.toThrow(
          StaleWindowError,
        );
        expect(await journal.windows()).toEqual(later);
      });

      test("R36 counts what is held by owner; of events without an organization those of one account and provider", async () => {
        const both = [0, 1, 2].map((number) =>
          eventText(number, { organization: number === 1 ? OTHER_ORGANIZATION : ORGANIZATION }),
        );
        await append(both, { organizations: [ORGANIZATION, OTHER_ORGANIZATION] });
        const portal = (from: number, count: number) =>
          eventTexts(from, count).map((text) => text.replace(`"${ORGANIZATION}"`, "null"));
        await append(portal(10, 3), { organizations: [], provider: "9d9d" });
        await append(portal(20, 5), { organizations: [], provider: "7c7c" });
        const query = { account: "acme", fromMs: timeMs(0), toMs: timeMs(100) };
        const owners = [ORGANIZATION, OTHER_ORGANIZATION, "unknown"];
        const counted = await journal.countHeld({ ...query, owners, provider: null });
        expect([...counted]).toEqual([
          [ORGANIZATION, 2],
          [OTHER_ORGANIZATION, 1],
        ]);
        const portals = ["9d9d", "7c7c", null].map(async (provider) => {
          const found = await journal.countHeld({ ...query, owners: [""], provider });
          return found.get("") ?? 0;
        });
        expect(await Promise.all(portals)).toEqual([3, 5, 0]);
        const until = await journal.countHeld({ ...query, toMs: timeMs(2), owners, provider: null });
        expect(until.get(ORGANIZATION)).toBe(1);
      });

      const PORTAL = { organizations: [], provider: "9d9d" };
      const countOf = async (owner: string, over: { account?: string; provider?: string | null } = {}) => {
        const stretch = { fromMs: timeMs(0), toMs: timeMs(100) };
        const query = { account: "acme", provider: null, owners: [owner], ...stretch, ...over };
        return (await journal.countHeld(query)).get(owner) ?? 0;
      };
      const nameless = (from: number, count: number) => eventTexts(from, count, { organization: null });
      const streamOf = (
        over: { account?: string; provider?: string | null; organizations?: string[] } = {},
      ) => journal.stream({ account: "acme", provider: null, organizations: [], services: ["sso"], ...over });

      test.each(["the organization", "the portal"])(
        "R36 events that an organization and a portal show are held once and count for both, %s first",
        async (first) => {
          await streamOf({ provider: "9d9d" });
          const ofPortal = () => append(eventTexts(2, 5), PORTAL);
          if (first === "the portal") await ofPortal();
          await append(eventTexts(0, 4));
          if (first === "the organization") await ofPortal();
          await append(eventTexts(0, 4));
          await ofPortal();
          await reopen();
          expect(await countOf(ORGANIZATION)).toBe(4);
          expect(await countOf(ORGANIZATION, { provider: "9d9d" })).toBe(5);
          expect(await readTexts(await journal.reader("one"))).toHaveLength(7);
          const held = async (provider: string | null) => {
            const from = { account: "acme", provider };
            return (await journal.held([ORGANIZATION], timeMs(0), timeMs(100), from)).count;
          };
          expect(await Promise.all([held(null), held("9d9d")])).toEqual([4, 5]);
        },
      );

      test("R36 twins, and events with other bytes, that both show count for both", async () => {
        await streamOf({ provider: "9d9d" });
        const twins = [eventText(1), eventText(1, { number: 7 })];
        await append(twins);
        await append([...twins].reverse(), PORTAL);
        expect(await countOf(ORGANIZATION, { provider: "9d9d" })).toBe(2);
        await append([eventText(2)]);
        await append([eventText(2, { number: 7 })], PORTAL);
        expect(await countOf(ORGANIZATION, { provider: "9d9d" })).toBe(3);
        expect(await countOf(ORGANIZATION)).toBe(3);
      });

      test("R36 the own organizations of two accounts, or of one that was renamed, count what each has shown", async () => {
        const own = { organizations: [] };
        await append(nameless(0, 4), own);
        await append(nameless(0, 3), { ...own, account: "renamed" });
        await append(nameless(50, 2), { ...own, account: "another" });
        const counts = ["acme", "renamed", "another"].map((account) => countOf("", { account }));
        expect(await Promise.all(counts)).toEqual([4, 3, 2]);
      });

      test("R36 the events of a portal count for every account that reads it", async () => {
        await append(nameless(0, 3), PORTAL);
        await append(nameless(0, 3), { ...PORTAL, account: "renamed" });
        for (const account of ["acme", "renamed"])
          expect(await countOf("", { account, provider: "9d9d" })).toBe(3);
      });

      const SHOWN = { state: "sealed", askedMs: 5, apiCount: 2, heldCount: 2 } as const;
      const countsNow = async () =>
        (await journal.windows()).map(({ stream, apiCount, heldCount }) => [
          stream.account,
          apiCount,
          heldCount,
        ]);

      test("R36 an event of an account's own organization counts in no window of another account's", async () => {
        for (const account of ["acme", "second"]) {
          const stream = await streamOf({ account });
          await journal.changeWindows({ add: [newWindow(stream, timeMs(0), timeMs(9), SHOWN)] });
        }
        await append([...nameless(3, 1), eventText(4)], {
          organizations: [],
          services: ["sso"],
          isOwn: true,
        });
        expect(await countsNow()).toEqual([
          ["acme", 4, 4],
          ["second", 2, 2],
        ]);
      });

      test("R36 an event of a portal counts in the windows of every account that reads it, and in no other", async () => {
        for (const over of [
          { provider: "9d9d" },
          { account: "second", provider: "9d9d" },
          { provider: "7c7c" },
          {},
        ]) {
          const stream = await streamOf(over);
          await journal.changeWindows({ add: [newWindow(stream, timeMs(0), timeMs(9), SHOWN)] });
        }
        await append(eventTexts(4, 1), { ...PORTAL, services: ["sso"] });
        expect(await countsNow()).toEqual([
          ["acme", 3, 3],
          ["second", 3, 3],
          ["acme", 2, 2],
          ["acme", 2, 2],
        ]);
      });

      test("R36 a held event that its source shows late counts in its windows, unless they have it already", async () => {
        const organizations = [ORGANIZATION];
        await streamOf({ provider: "9d9d" });
        await append(eventTexts(1, 1));
        await append(eventTexts(2, 2), PORTAL);
        for (const [account, count] of [
          ["acme", 1],
          ["second", 3],
        ] as const) {
          const stream = await streamOf({ account, organizations });
          const counts = { ...SHOWN, apiCount: count, heldCount: count };
          await journal.changeWindows({ add: [newWindow(stream, timeMs(0), timeMs(9), counts)] });
        }
        await append(eventTexts(2, 2), { services: ["sso"] });
        expect(await countsNow()).toEqual([
          ["acme", 3, 3],
          ["second", 3, 3],
        ]);
      });

      test("R36 a change that is a function sees what was stored since it was asked for", async () => {
        const window = await windowOf();
        await journal.changeWindows({ put: [{ ...window, ...SHOWN }] });
        const found = append(eventTexts(3, 1), { services: ["all"] });
        const changed = journal.changeWindows((now) => {
          const stored = now.window(window.id)!;
          const query = {
            ...stored.stream,
            owners: [ORGANIZATION],
            fromMs: stored.fromMs,
            toMs: stored.toMs,
          };
          return { put: [{ ...stored, late: now.countHeld(query).get(ORGANIZATION)! }] };
        });
        await Promise.all([found, changed]);
        expect((await journal.windows())[0]).toMatchObject({ apiCount: 3, heldCount: 3, late: 1 });
      });

      test("R36 an event that one window finds late counts in every window over its time", async () => {
        const both = { organizations: [ORGANIZATION, OTHER_ORGANIZATION], services: ["sso"] };
        const group = await journal.stream({ account: "acme", provider: null, ...both });
        const other = await journal.stream({
          ...{ account: "acme", provider: null, organizations: [ORGANIZATION], services: ["ldap"] },
        });
        const counts = { [ORGANIZATION]: [1, 1] } as const;
        const read = { state: "sealed", askedMs: 5, apiCount: 1, heldCount: 1, counts } as const;
        await journal.changeWindows({
          add: [
            newWindow(group, timeMs(0), timeMs(5), read),
            newWindow(group, timeMs(5), timeMs(9), read),
            newWindow(group, timeMs(0), timeMs(9)),
            newWindow(other, timeMs(0), timeMs(9), { ...read, counts: null }),
          ],
        });
        await append(eventTexts(3, 1), both);
        await append(eventTexts(3, 1), both);
        await append([eventText(4, { organization: OTHER_ORGANIZATION })], both);
        const shown = (await journal.windows()).map((window) => [
          window.apiCount,
          window.heldCount,
          window.counts,
        ]);
        const grown = { [ORGANIZATION]: [2, 2], [OTHER_ORGANIZATION]: [1, 1] };
        expect(shown).toEqual([
          [3, 3, grown],
          [null, null, null],
          [1, 1, null],
          [1, 1, counts],
        ]);
      });

      test("R36 of an organization that is also read with other services no more count than were shown", async () => {
        const owners = [ORGANIZATION];
        const streamOf = (services: string[]) =>
          journal.stream({ account: "acme", provider: null, organizations: owners, services });
        const [all, more] = [await streamOf(["all"]), await streamOf(["all", "workflows"])];
        await journal.changeWindows({ add: [newWindow(all, timeMs(0), timeMs(50))] });
        await append(eventTexts(0, 4));
        const query = { account: "acme", provider: null, owners, fromMs: timeMs(0), toMs: timeMs(9) };
        const counted = async (atMost: number, services = all.services) =>
          (await journal.countHeld({ ...query, services, atMost: { [ORGANIZATION]: atMost } })).get(
            ORGANIZATION,
          );
        expect(await counted(3)).toBe(4);
        await journal.changeWindows({ add: [newWindow(more, timeMs(0), timeMs(9))] });
        expect(await counted(3)).toBe(3);
        expect(await counted(7)).toBe(4);
        expect(await counted(0)).toBeUndefined();
        expect(await counted(3, more.services)).toBe(3);
      });

      test("the counts of a window are kept by organization", async () => {
        const window = await windowOf();
        const counts = { [ORGANIZATION]: [3, 2], "": [1, 1] } as const;
        await journal.changeWindows({ put: [{ ...window, counts }] });
        await reopen();
        expect((await journal.windows())[0]!.counts).toEqual(counts);
      });

      test("the change sees what was found, and is made with the page", async () => {
        const window = await windowOf();
        await append(eventTexts(0, 2));
        await append(eventTexts(0, 3), {
          change: ({ fresh, known }) => ({ put: [{ ...window, apiCount: fresh + known, heldCount: fresh }] }),
        });
        await reopen();
        expect((await journal.windows())[0]).toMatchObject({ apiCount: 3, heldCount: 1 });
      });
    });

    describe("readers", () => {
      test("a new one begins at the start; its position, state and bounds are durable together", async () => {
        await append(eventTexts(0, 10));
        const reader = await journal.reader("r");
        expect(reader.position).toEqual(startOf(journal.id));
        expect([reader.state, reader.bounds]).toEqual([undefined, []]);
        const page = (await reader.read(reader.position))!;
        await reader.setBounds([page.after(3), page.after(7)]);
        await reopen();
        expect((await journal.reader("r")).bounds).toEqual([page.after(3), page.after(7)]);
        await (await journal.reader("r")).commit(page.after(3), { files: [{ length: 12 }] });
        await reopen();
        const again = await journal.reader("r");
        expect(again.position).toEqual(page.after(3));
        expect(again.state).toEqual({ files: [{ length: 12 }] });
        expect(again.bounds).toEqual([page.after(7)]);
        expect(await readTexts(again)).toEqual(eventTexts(4, 6));
      });

      test("all bounds are dropped when the position moves back", async () => {
        await append(eventTexts(0, 10));
        const reader = await journal.reader("r");
        const page = (await reader.read(reader.position))!;
        await reader.commit(page.after(3), undefined);
        await reader.setBounds([page.after(5), page.after(7)]);
        await reader.commit(page.after(1), undefined);
        await reopen();
        expect((await journal.reader("r")).bounds).toEqual([]);
      });

      test("a bound can be taken back, and a state dropped", async () => {
        await append(eventTexts(0, 2));
        const reader = await journal.reader("r");
        const page = (await reader.read(reader.position))!;
        await reader.setBounds([page.after(0)]);
        await reader.setBounds([]);
        await reader.commit(page.after(0), { a: 1 });
        await reader.commit(page.after(1), undefined);
        await reopen();
        const again = await journal.reader("r");
        expect([again.bounds, again.state, again.position]).toEqual([[], undefined, page.after(1)]);
      });

      test("each has its own position", async () => {
        await append(eventTexts(0, 3));
        const fast = await journal.reader("fast");
        await fast.commit((await fast.read(fast.position))!.after(2), undefined);
        expect(await readTexts(fast)).toEqual([]);
        expect(await readTexts(await journal.reader("slow"))).toEqual(eventTexts(0, 3));
      });

      test("nothing yet is null, and what comes later is read from there", async () => {
        const reader = await journal.reader("r");
        expect(await reader.read(reader.position)).toBeNull();
        await append(eventTexts(0, 2));
        const page = (await reader.read(reader.position))!;
        expect([page.first, page.count]).toEqual([0, 2]);
        expect(await reader.read(page.after(1))).toBeNull();
        const rest = (await reader.read(page.after(0)))!;
        expect([rest.number, rest.first, rest.count]).toEqual([page.number, 1, 1]);
      });

      test("wherever it stops and starts, it reads everything once, in order", async () => {
        await fc.assert(
          fc.asyncProperty(
            fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 6 }),
            fc.infiniteStream(fc.integer({ min: 1, max: 5 })),
            async (sizes, steps) => {
              const one = await open();
              try {
                let total = 0;
                for (const size of sizes) {
                  await one.journal.append(pageOf(eventTexts(total, size)));
                  total += size;
                }
                const seen: string[] = [];
                for (;;) {
                  const reader = await one.journal.reader("r");
                  const page = await reader.read(reader.position);
                  if (page === null) break;
                  const take = Math.min(page.count, steps.next().value!);
                  for (let at = 0; at < take; at++)
                    seen.push(Buffer.from(page.event(page.first + at).bytes).toString());
                  const to = page.after(page.first + take - 1);
                  expect(comparePositions(to, reader.position)).toBeGreaterThan(0);
                  await reader.commit(to, undefined);
                }
                expect(seen).toEqual(eventTexts(0, total));
              } finally {
                await one.close();
              }
            },
          ),
          { numRuns: 15 },
        );
      });

      test("R18 dead letters are taken, the same one again is ignored", async () => {
        await append(eventTexts(0, 2));
        const reader = await journal.reader("r");
        const letters = (await readEvents(reader)).map((event) => ({ event, reason: "refused" }));
        await reader.addDeadLetters(letters);
        await reader.addDeadLetters(letters);
      });

      test("R20 a position is held only with its journal, page and hash", async () => {
        await append(eventTexts(0, 2));
        await append(eventTexts(2, 2));
        const reader = await journal.reader("r");
        const first = (await reader.read(reader.position))!;
        const second = (await reader.read(first.after(1)))!;
        const at: Position = first.after(0);
        for (const held of [startOf(journal.id), at, first.after(1), second.after(1)])
          expect(await reader.holds(held)).toBe(true);
        for (const foreign of [
          startOf("another"),
          { ...at, journal: "another" },
          { ...at, hash: second.after(0).hash },
          { ...at, hash: "" },
          { ...at, page: 0 },
          { ...second.after(0), page: 3 },
        ])
          expect(await reader.holds(foreign), JSON.stringify(foreign)).toBe(false);
        await reopen();
        expect(await (await journal.reader("r")).holds(second.after(1))).toBe(true);
      });

      test("R20 the hash of a page covers all pages before it", async () => {
        const other = await open();
        try {
          await append(eventTexts(0, 1));
          await append(eventTexts(5, 1));
          await other.journal.append(pageOf(eventTexts(1, 1)));
          await other.journal.append(pageOf(eventTexts(5, 1)));
          const lastOf = async (of: Journal) => (await readEvents(await of.reader("r"))).length;
          expect([await lastOf(journal), await lastOf(other.journal)]).toEqual([2, 2]);
          const hashes = await Promise.all([journal, other.journal].map(secondHash));
          expect(hashes[0]).not.toBe(hashes[1]);
        } finally {
          await other.close();
        }
      });

      async function secondHash(of: Journal): Promise<string> {
        const reader = await of.reader("r");
        const first = (await reader.read(startOf(of.id)))!;
        return (await reader.read(first.after(0)))!.after(0).hash;
      }

      test("R21 what is read again for one reader alone goes to that one, held or not, and changes nothing else", async () => {
        await append(eventTexts(0, 3));
        const found = await append(eventTexts(1, 4), { reader: "one" });
        expect(found).toMatchObject({ fresh: 4, known: 0 });
        expect(await textsOf(journal, "one")).toEqual([...eventTexts(0, 3), ...eventTexts(1, 4)]);
        expect(await textsOf(journal, "two")).toEqual(eventTexts(0, 3));
        expect((await journal.held([ORGANIZATION], timeMs(0), timeMs(100))).count).toBe(3);
        expect((await append(eventTexts(1, 4))).fresh).toBe(2);
      });

      test("R21 repeats inside such a pass are still left out, and it is repeated whole when asked again", async () => {
        const first = await append([eventText(0), eventText(1)], { reader: "one" });
        const second = await append([eventText(1), eventText(2)], { reader: "one", edge: first.edge });
        expect(second).toMatchObject({ fresh: 1, repeated: 1 });
        expect((await append([eventText(0)], { reader: "one" })).fresh).toBe(1);
      });
    });

    describe("streams and windows", () => {
      const description = {
        account: "acme",
        provider: null,
        organizations: ["b", "a"],
        services: ["sso", "all"],
      };

      test("one description is one stream, whatever the order of its lists", async () => {
        const stream = await journal.stream(description);
        expect(stream).toMatchObject({ organizations: ["a", "b"], services: ["all", "sso"] });
        await reopen();
        const same = await journal.stream({
          ...description,
          organizations: ["a", "b"],
          services: ["all", "sso"],
        });
        expect(same).toEqual(stream);
        for (const other of [
          { account: "other" },
          { provider: "9d9d" },
          { organizations: ["a"] },
          { services: ["all"] },
        ])
          expect((await journal.stream({ ...description, ...other })).id).not.toBe(stream.id);
      });

      test("a window is kept as it was given, pass and cursor byte for byte", async () => {
        const stream = await journal.stream(description);
        const window = newWindow(stream, 1000, 2000, {
          live: true,
          state: "refused",
          pass: {
            startMs: 900,
            endMs: null,
            limit: 10,
            begunMs: 3000,
            cursor: '["a\\u00e9", 1.0]',
            pages: 2,
            events: 20,
            repeated: 1,
            changed: 2,
            fresh: 17,
            edge: ["ab:1"],
          },
          askedMs: 5,
          sweeps: 2,
          nextMs: 7,
          apiCount: 8,
          heldCount: 9,
          late: 10,
          repeated: 11,
          changed: 12,
          reason: "402",
          reader: "disk",
        });
        await journal.changeWindows({ add: [window] });
        await reopen();
        const [stored] = await journal.windows();
        expect(stored).toEqual({ ...window, id: stored!.id });
      });

      test("windows are found by account, state, stream, id, time, due time and number", async () => {
        const stream = await journal.stream(description);
        const other = await journal.stream({ ...description, account: "other" });
        await journal.changeWindows({
          add: [
            newWindow(stream, 2000, 3000, { state: "read", nextMs: 50 }),
            newWindow(stream, 0, 1000, { state: "sealed" }),
            newWindow(other, 1000, 2000, { live: true, nextMs: 60 }),
          ],
        });
        const from = async (filter: Parameters<Journal["windows"]>[0]) =>
          (await journal.windows(filter)).map(({ fromMs }) => fromMs);
        expect(await from(undefined)).toEqual([0, 1000, 2000]);
        expect(await from({ account: "acme" })).toEqual([0, 2000]);
        expect(await from({ states: ["read", "unread"] })).toEqual([1000, 2000]);
        expect(await from({ live: true })).toEqual([1000]);
        expect(await from({ live: false })).toEqual([0, 2000]);
        expect(await from({ stream: other.id })).toEqual([1000]);
        expect(await from({ dueMs: 49 })).toEqual([]);
        expect(await from({ dueMs: 50 })).toEqual([2000]);
        expect(await from({ fromMs: 1000, toMs: 2000 })).toEqual([1000]);
        expect(await from({ fromMs: 999, toMs: 2001 })).toEqual([0, 1000, 2000]);
        expect(await from({ limit: 2 })).toEqual([0, 1000]);
        const [first] = await journal.windows();
        expect(await from({ id: first!.id })).toEqual([0]);
      });

      test("held events are counted in the half-open stretch, for the given owners", async () => {
        const organizations = [ORGANIZATION, OTHER_ORGANIZATION];
        await append(
          [0, 1, 2, 3].map((number) =>
            eventText(number, { organization: number === 3 ? OTHER_ORGANIZATION : ORGANIZATION }),
          ),
          { organizations },
        );
        await append([eventText(2, { organization: null })], { organizations: [], provider: "9d9d" });
        const ms = (number: number) => timeMs(number);
        const count = async (owners: (string | null)[], fromMs: number, toMs: number) =>
          (await journal.held(owners, fromMs, toMs)).count;
        expect(await count([ORGANIZATION], ms(0), ms(2))).toBe(2);
        expect(await count([ORGANIZATION], ms(0), ms(2) + 1)).toBe(3);
        expect(await count([ORGANIZATION], ms(0) + 1, ms(2))).toBe(1);
        expect(await count(organizations, ms(0), ms(100))).toBe(4);
        expect(await count([null], ms(0), ms(100))).toBe(1);
        const { page }: PageCommit = pageOf([eventText(1), eventText(7)]);
        const held = await journal.held([ORGANIZATION], ms(0), ms(100));
        expect(held.has(page.identities.subarray(0, 16))).toBe(true);
        expect(held.has(page.identities.subarray(16, 32))).toBe(false);
      });
    });

    test("the journal's id stays the same, and two journals have two", async () => {
      const { id } = journal;
      await reopen();
      expect(journal.id).toBe(id);
      const other = await open();
      expect(other.journal.id).not.toBe(id);
      await other.close();
    });
  });
}
