import { describe, expect, test } from "vitest";
import { settingsOf } from "../../src/polling/config.ts";
import { cutAtMidnights } from "../../src/polling/plan/missing-windows.ts";

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
