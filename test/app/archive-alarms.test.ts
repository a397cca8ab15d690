import { describe, expect, test } from "vitest";
import { createArchiveAlarms } from "../../src/app/archive-alarms.ts";
import type { Verification } from "../../src/archive/verify/verify.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { DecisionNeededError } from "../../src/core/errors.ts";
import { silentLog } from "../../src/core/log.ts";
import { DAY_MS } from "../../src/core/time.ts";

const NOW_MS = Date.parse("2026-03-14T10:00:00Z");
const clock = { now: () => NOW_MS, sleep: async () => {} };

function open() {
  const alarms = createAlarms(clock, silentLog);
  return { alarmed: createArchiveAlarms(alarms, clock, "evidence"), list: () => alarms.list() };
}

const backlog = (oldestDay: string | null) => ({ oldestDay, events: 7, pages: 1, stagedPages: 0 });

describe("the alarms of an archive", () => {
  test("a day that is open for more than five days beyond settle is named, until it is closed", () => {
    const { alarmed, list } = open();
    alarmed.backlog(backlog("2026-03-07"), 2 * DAY_MS);
    expect(list()).toEqual([]);
    alarmed.backlog(backlog("2026-03-05"), 2 * DAY_MS);
    expect(list()).toMatchObject([
      { kind: "archive_behind", subject: "evidence", message: expect.stringContaining("2026-03-05") },
    ]);
    alarmed.backlog(backlog(null), 2 * DAY_MS);
    expect(list()).toEqual([]);
  });

  test("a store that refuses is a warning that ends with the next turn; a fork is critical and lists the choices", () => {
    const { alarmed, list } = open();
    expect(alarmed.failed(new Error("s3://bucket: the store answered 503"), [])).toBe("failing");
    expect(list()).toMatchObject([{ kind: "archive_failing", severity: "warning" }]);
    alarmed.worked();
    expect(list()).toEqual([]);
    expect(
      alarmed.failed(new DecisionNeededError("Two histories.", ["restore the newest state file"]), []),
    ).toBe("stopped");
    expect(list()).toMatchObject([
      {
        kind: "archive_stopped",
        severity: "critical",
        remedy: expect.stringContaining("restore the newest state file"),
      },
    ]);
  });

  test("a full disk is named with its places", () => {
    const { alarmed, list } = open();
    const full = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    expect(alarmed.failed(full, ["/var/archive", "/var/state.db"])).toBe("failing");
    expect(list()).toMatchObject([
      {
        kind: "archive_failing",
        message: expect.stringContaining("No space is left for the archive"),
        remedy: expect.stringContaining("Free space on the disks of /var/archive and /var/state.db"),
      },
    ]);
  });

  test("a witness that is away is named with its reason, until all have cosigned", () => {
    const { alarmed, list } = open();
    alarmed.witnesses([{ name: "witness.example.org/w1", reason: "connection refused" }]);
    expect(list()).toMatchObject([
      {
        kind: "witness_away",
        message: expect.stringContaining("witness.example.org/w1: connection refused"),
      },
    ]);
    alarmed.witnesses([]);
    expect(list()).toEqual([]);
  });

  test("a verification that found something is critical and names the first finding", () => {
    const { alarmed, list } = open();
    const finding = { check: "data file hash", subject: "events/x", message: "INVALID: hash" } as const;
    alarmed.verified({ isValid: false, findings: [finding] } as unknown as Verification, "/archive");
    expect(list()).toMatchObject([
      {
        kind: "archive_invalid",
        severity: "critical",
        message: expect.stringContaining("events/x: INVALID: hash"),
      },
    ]);
    alarmed.verified({ isValid: true, findings: [] } as unknown as Verification, "/archive");
    expect(list()).toEqual([]);
  });

  test("days that differ are named while the service still has them", () => {
    const { alarmed, list } = open();
    const parts = [
      { day: "2026-03-02", part: "001", lines: 2 },
      { day: "2026-01-10", part: "001", lines: 1 },
    ];
    alarmed.differing(parts, 90 * DAY_MS);
    expect(list()).toMatchObject([
      {
        kind: "archive_differs",
        message: expect.stringContaining("For 3 closed days of organizations, from 2026-01-10 to 2026-03-02"),
        remedy: expect.stringContaining("tidemark reconcile --since 2026-01-10"),
      },
    ]);
    alarmed.differing(parts, 20 * DAY_MS);
    expect(list()).toMatchObject([{ message: expect.stringContaining("For 2 closed days") }]);
    alarmed.differing(parts, DAY_MS);
    expect(list()).toEqual([]);
  });
});
