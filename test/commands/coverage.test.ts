import { PassThrough } from "node:stream";
import { Command } from "commander";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { registerCoverage } from "../../src/commands/coverage.ts";
import type { Io } from "../../src/commands/io.ts";
import { newWindow } from "../../src/core/window.ts";
import { createView } from "../../src/journal/view/view.ts";
import {
  DAY_MS,
  fillLarge,
  fillSmall,
  HOUR_MS,
  makeState,
  NOW_MS,
  organizationId,
  streamOf,
  type TestState,
} from "../server/state.ts";

const states: TestState[] = [];
let small: TestState;
let large: TestState;
beforeAll(async () => {
  small = makeState();
  await fillSmall(small);
  large = makeState();
  await fillLarge(large, 3000, 30);
  states.push(small, large);
});
afterAll(() => {
  for (const state of states) state.close();
});

async function coverage(state: TestState, ...args: string[]): Promise<string> {
  const stdout = new PassThrough({ highWaterMark: 100_000_000 });
  const program = new Command().exitOverride();
  registerCoverage(program, { stdout } as unknown as Io, async () => ({
    view: createView(state.db, null, state.options),
    close: async () => {},
  }));
  await program.parseAsync(["coverage", ...args], { from: "user" });
  return (stdout.read() as Buffer | null)?.toString() ?? "";
}

describe("coverage", () => {
  test("begins with a summary, then the gaps, then the days of few organizations", async () => {
    const text = await coverage(small);
    expect(text).toMatch(/^3 organizations, 2 with a problem\.\nTime ranges: 1 complete, 1 read/);
    expect(text).toContain(
      "The service counts 131 events in closed time ranges, 130 are held; 1 time ranges differ.",
    );
    expect(text).toContain("refused: 403: not entitled");
    expect(text).toMatch(/day +unread +read +complete +refused +lost +late +service +held +compared/);
  });

  test("with 3,000 organizations it is bounded: the summary and the worst, not every day", async () => {
    const lines = (await coverage(large)).trimEnd().split("\n");
    expect(lines.length).toBeLessThan(60);
    expect(lines[0]).toMatch(/^3000 organizations/);
    expect(lines.at(-1)).toMatch(/^2980 more\. Choose with --problems/);
  });

  test("--problems shows only organizations with problems, --organization one day by day", async () => {
    const problems = await coverage(small, "--problems");
    expect(problems).toContain("Borealis Bank");
    expect(problems).not.toContain("Aurora Labs");
    const one = await coverage(small, "--organization", organizationId(1));
    expect(one).toContain("Aurora Labs");
    expect(one).not.toContain("Borealis Bank  ");
    const json = (await coverage(small, "--json", "--organization", organizationId(1))).trim().split("\n");
    expect(JSON.parse(json[0]!)).toMatchObject({ organization: organizationId(1), sealedHours: 24 });
  });

  describe("--json", () => {
    const today = NOW_MS - (NOW_MS % DAY_MS);
    const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);
    let state: TestState;
    beforeEach(async () => {
      state = makeState();
      states.push(state);
      await fillSmall(state);
    });

    interface Row {
      readonly organization: string;
      readonly day: string;
      readonly [field: string]: unknown;
    }

    async function rows(...args: string[]): Promise<Row[]> {
      const text = await coverage(state, "--json", ...args);
      return text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Row);
    }

    test("names gaps inside time that was read, on their days and in their organization alone", async () => {
      const stream = await streamOf(state, [organizationId(1)]);
      const { journal } = state;
      const unchecked = { stream, reason: "unchecked", detail: "not compared again", events: null } as const;
      const unreadable = { stream, reason: "unreadable", detail: "the event x", events: 1 } as const;
      await journal.changeWindows({
        gaps: [
          { ...unchecked, fromMs: today - 6 * HOUR_MS, toMs: today + 2 * HOUR_MS },
          { ...unreadable, fromMs: today - HOUR_MS, toMs: today - HOUR_MS + 1 },
        ],
      });
      const found = (await rows()).filter(({ organization }) => organization === organizationId(1));
      const ids = (await journal.gaps({ owner: organizationId(1) })).map(({ id }) => id);
      const spanned = {
        ...{ id: ids[0], reason: "unchecked", detail: "not compared again", services: ["all"] },
        from: new Date(today - 6 * HOUR_MS).toISOString(),
        to: new Date(today + 2 * HOUR_MS).toISOString(),
        ...{ events: null, open: false },
      };
      expect(found).toMatchObject([
        {
          day: dayOf(today - DAY_MS),
          ...{ sealedHours: 24, gapHours: 0, reasons: ["not compared again", "the event x"] },
          gaps: [
            { ...spanned, hours: 6 },
            { id: ids[1], reason: "unreadable", detail: "the event x", hours: 0, events: 1, open: false },
          ],
        },
        { day: dayOf(today), gaps: [{ ...spanned, hours: 2 }], reasons: ["not compared again"] },
      ]);
      for (const row of await rows("--organization", organizationId(2)))
        expect(row.reasons).not.toContain("the event x");
      expect(await coverage(state, "--organization", organizationId(1))).toContain(
        "(not compared again; the event x)",
      );
    });

    test("has a row for each day of a gap that is older than the calendar, also of a portal", async () => {
      const { journal } = state;
      const portal = await journal.stream({
        ...{ account: "acme", provider: "9D9D", organizations: [], services: ["all"] },
      });
      const old = today - 200 * DAY_MS;
      const lost = { stream: portal, detail: "forgotten", events: null } as const;
      await journal.changeWindows({
        add: [newWindow(portal, today - DAY_MS, today, { state: "sealed" })],
        gaps: [
          { ...lost, reason: "expired", fromMs: old + 12 * HOUR_MS, toMs: old + DAY_MS + 6 * HOUR_MS },
          { ...lost, reason: "refused", fromMs: old + 20 * HOUR_MS, toMs: old + DAY_MS + HOUR_MS },
        ],
      });
      const found = (await rows("--organization", "9d9d")).filter(({ day }) => day < dayOf(today - DAY_MS));
      expect(found).toMatchObject([
        {
          day: dayOf(old),
          gapHours: 12,
          sealedHours: 0,
          apiCount: null,
          gaps: [{ hours: 12 }, { hours: 4 }],
        },
        { day: dayOf(old + DAY_MS), gapHours: 6, gaps: [{ hours: 6 }, { hours: 1 }] },
      ]);
      const since = new Date(old + DAY_MS + 12 * HOUR_MS).toISOString();
      const later = await rows("--organization", "9d9d", "--since", since);
      expect(later[0]).toMatchObject({ day: dayOf(old + DAY_MS), gaps: [{ hours: 6 }, { hours: 1 }] });
    });

    test("shows what is refused now as an open gap", async () => {
      const [row] = await rows("--organization", organizationId(3));
      expect(row).toMatchObject({ refusedHours: 24, gaps: [{ id: null, reason: "refused", open: true }] });
    });

    test("has all gaps where they are too many for one answer", async () => {
      const stream = await streamOf(state, [organizationId(1)]);
      const other = await streamOf(state, [organizationId(2)]);
      const one = { reason: "unreadable", detail: "one event is not readable", events: 1 } as const;
      const at = (ms: number) => ({ ...one, fromMs: ms, toMs: ms + 1 });
      await state.journal.changeWindows({
        gaps: [
          ...Array.from({ length: 10_000 }, (_, place) => ({ ...at(today - DAY_MS + place), stream })),
          { ...at(today - HOUR_MS), stream: other },
        ],
      });
      const counts = (await rows())
        .filter(
          ({ day, organization }) => day === dayOf(today - DAY_MS) && organization !== organizationId(3),
        )
        .map(({ organization, gaps }) => [organization, (gaps as unknown[]).length]);
      expect(new Map(counts as [string, number][])).toEqual(
        new Map([
          [organizationId(1), 10_000],
          [organizationId(2), 1],
        ]),
      );
    });
  });
});
