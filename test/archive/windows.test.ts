import { describe, expect, test } from "vitest";
import { newWindow } from "../../src/core/window.ts";
import { settingsOf } from "../../src/polling/config.ts";
import type { PollContext } from "../../src/polling/context.ts";
import { createServiceClock } from "../../src/polling/limits/service-clock.ts";
import { createAgenda } from "../../src/polling/plan/agenda.ts";
import { cutAtMidnights } from "../../src/polling/plan/missing-windows.ts";
import { openFixture } from "../journal/support.ts";

describe("windows for an archive", () => {
  test("A1 history is cut at UTC midnights, at most seven days long, without a gap or an overlap", () => {
    const fromMs = Date.parse("2026-08-17T13:21:00Z");
    const toMs = Date.parse("2026-11-15T09:00:00Z");
    const pieces = cutAtMidnights({ fromMs, toMs });
    expect(pieces[0]!.fromMs).toBe(fromMs);
    expect(pieces.at(-1)!.toMs).toBe(toMs);
    for (const [at, piece] of pieces.entries()) {
      expect(piece.toMs - piece.fromMs).toBeLessThanOrEqual(7 * 86_400_000);
      if (at > 0) expect(piece.fromMs).toBe(pieces[at - 1]!.toMs);
      if (at > 0) expect(piece.fromMs % 86_400_000).toBe(0);
    }
    expect(pieces).toHaveLength(13);
  });

  test("A1 only polling for an archive cuts them", () => {
    const account = { retention: 1, since: 1, services: ["all"] };
    expect(settingsOf(account as never, {} as never).archived).toBe(false);
    expect(settingsOf(account as never, { archived: true } as never).archived).toBe(true);
  });
});

describe("A4 a journal that is nearly full", () => {
  test.each([
    ["newest_first", [3, 2]],
    ["oldest_first", [1, 2]],
  ] as const)(
    "%s: polling reads only what completes the oldest open day, until there is room",
    async (order, days) => {
      const fixture = openFixture();
      try {
        const stream = await fixture.journal.stream({
          account: "acme",
          provider: null,
          organizations: ["a".repeat(24)],
          services: ["all"],
        });
        const dayMs = (day: number) => Date.UTC(2026, 2, day);
        await fixture.journal.changeWindows({
          add: [1, 2, 3].map((day) => newWindow(stream, dayMs(day), dayMs(day + 1))),
        });
        let open: number | undefined = dayMs(2);
        const clock = { now: () => dayMs(20), sleep: async () => {} };
        const context = {
          account: "acme",
          journal: fixture.journal,
          clock,
          serviceClock: createServiceClock(clock),
          settings: { order, oldestOpenMs: () => open },
        } as unknown as PollContext;
        const agenda = createAgenda(context, { nextPollMs: (ms) => ms + 1000, workers: 8 });
        const taken: number[] = [];
        const takeAll = async () => {
          for (let work = await agenda.next(); work !== undefined; work = await agenda.next())
            taken.push(new Date(work.window.fromMs).getUTCDate());
        };
        await takeAll();
        expect(taken).toEqual(days);
        open = undefined;
        await takeAll();
        expect(taken.toSorted()).toEqual([1, 2, 3]);
      } finally {
        fixture.close();
      }
    },
  );
});
