import type { Focus } from "./focus.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "./plan.ts";

/** A rule, a small change of the sources that disables it, and the kind of life that has to notice. */
export interface Mutant {
  readonly rule: string;
  readonly what: string;
  readonly file: string;
  /** Found in the file exactly once. */
  readonly text: string;
  readonly replacement: string;
  readonly focus: Focus;
}

/** Past the end of every focused life. */
const ALWAYS = 1000 * DAY_MS;

/** Half a page looks like the last one while history is read. */
const SHORT_HISTORY: Focus = {
  hours: 48,
  organizations: 1,
  settings: { sinceMs: 4 * DAY_MS, retentionMs: 90 * DAY_MS, sweepsMs: [10 * MINUTE_MS, HOUR_MS] },
  faults: [{ kind: "service", fromMs: 0, toMs: 8 * MINUTE_MS, effect: { type: "short_page", share: 0.9 } }],
};

export const MUTANTS: readonly Mutant[] = [
  {
    rule: "R1",
    what: "the query changes with the second page",
    file: "src/polling/read/read-window.ts",
    text: "query: queryOf(window, window.pass!), cursor",
    replacement:
      "query: queryOf(window, { ...window.pass!, startMs: window.pass!.startMs + (cursor === null ? 0 : 1) }), cursor",
    focus: { settings: { pageSize: 5 } },
  },
  {
    rule: "R2",
    what: "nothing is planned for what no window covers",
    file: "src/polling/plan/plan-windows.ts",
    text: "  await addMissing(context, scope, nowMs);\n",
    replacement: "",
    focus: {},
  },
  {
    rule: "R3",
    what: "the first pass counts as every sweep, also as those that are not due",
    file: "src/polling/plan/sweep-times.ts",
    text: "while (sweeps < listed && sweepDueMs(window, sweeps, times)! <= begunMs) sweeps++;",
    replacement: "while (sweeps < listed) sweeps++;",
    focus: { events: { lateShare: 0.5, lateMs: 20 * MINUTE_MS } },
  },
  {
    rule: "R3",
    what: "history that one pass has sealed is not compared again",
    file: "src/polling/plan/sweep-times.ts",
    text: 'if (window.state !== "sealed" || window.nextMs === null) return window;',
    replacement: "if (window.sweeps >= 0) return window;",
    focus: SHORT_HISTORY,
  },
  {
    rule: "R3",
    what: "with a shorter list of sweeps, one that is owed counts as done",
    file: "src/app/window-times.ts",
    text: "before.length, own",
    replacement: "sweepsMs.length, own",
    focus: {
      ...SHORT_HISTORY,
      faults: [
        ...SHORT_HISTORY.faults!,
        {
          kind: "reconfigure",
          fromMs: 20 * MINUTE_MS,
          downMs: 5000,
          change: { type: "sweeps", sweepsMs: [10 * MINUTE_MS] },
        },
      ],
    },
  },
  {
    rule: "R4",
    what: "a sweep takes every event as held",
    file: "src/polling/read/compare-window.ts",
    text: "const isHeld = isUnsure || held.has(identity);",
    replacement: "const isHeld = isUnsure || held.has(identity) || true;",
    focus: { events: { lateShare: 0.5, lateMs: 20 * MINUTE_MS } },
  },
  {
    rule: "R5",
    what: "a stretch that the service forgot before it was read leaves no gap",
    file: "src/polling/plan/missing-windows.ts",
    text: "await journal.changeWindows({ add, gaps, remove:",
    replacement: 'await journal.changeWindows({ add: add.filter(({ state }) => state !== "expired"), remove:',
    focus: {
      hours: 72,
      settings: { retentionMs: 36 * HOUR_MS },
      faults: [{ kind: "stop", fromMs: 6 * HOUR_MS, downMs: 60 * HOUR_MS }],
    },
  },
  {
    rule: "R6",
    what: "a refused cursor is not dropped",
    file: "src/polling/read/meet-fault.ts",
    text: "if (window.pass?.cursor != null) return restartWithoutCursor(context, window);\n",
    replacement: "\n",
    focus: {
      organizations: 1,
      events: { eventsPerDay: 400 },
      settings: { pageSize: 5 },
      // Every cursor is too old when it is used. No fault excuses the program, because this is a habit.
      service: { tokenMs: 1000, latencyMs: 2000 },
    },
  },
  {
    rule: "R7",
    what: "an event of a foreign organization is dropped",
    file: "src/polling/read/fetch-page.ts",
    text: "if (query.fields === undefined) await keepApart(context, window, error);\n",
    replacement: "\n",
    focus: { organizations: 1, events: { odd: [{ atMs: 2 * HOUR_MS, kind: "foreign" }] } },
  },
  {
    rule: "R8",
    what: "a body above the limit is never asked for in smaller pages",
    file: "src/polling/read/pass.ts",
    text: "if (pass.limit <= 1) return null;",
    replacement: "if (pass.limit >= 1) return null;",
    focus: { organizations: 1, events: { odd: [{ atMs: 2 * HOUR_MS, kind: "huge" }] } },
  },
  {
    rule: "R9",
    what: "what a sweep misses is not fetched",
    file: "src/polling/read/sweep-window.ts",
    text: "const read = await readSlice(context, window, slice, signal);",
    replacement:
      "const read = slice.fromMs > 0 ? { fresh: 0, owners: [], skips: [] } : await readSlice(context, window, slice, signal);",
    focus: { events: { lateShare: 0.5, lateMs: 20 * MINUTE_MS } },
  },
  {
    rule: "R10",
    what: "other bytes with one identity are one event",
    file: "src/journal/dedupe.ts",
    text: 'return before !== undefined || doubled?.includes(heldDigest!) ? "twin" : "changed";',
    replacement: 'return before !== undefined && doubled === null ? "twin" : "changed";',
    focus: { events: { twinShare: 0.5 } },
  },
  {
    rule: "R11",
    what: "append does not look at what is held",
    file: "src/journal/journal.ts",
    text: "const held = commit.reader === null ? identities.heldFor(commit.page) : NOTHING_HELD;",
    replacement: "const held = NOTHING_HELD;",
    focus: {},
  },
  {
    rule: "R12",
    what: "identities are forgotten an hour after their events",
    file: "src/journal/space.ts",
    text: "const beforeMs = nowMs - retentionMs - 7 * DAY_MS;",
    replacement: "const beforeMs = nowMs - retentionMs * 0 - DAY_MS / 24;",
    focus: { events: { lateShare: 0.5, lateMs: 20 * MINUTE_MS } },
  },
  {
    rule: "R29",
    what: "`since` counts again after every absence",
    file: "src/polling/plan/missing-windows.ts",
    text: "const fromMs = Math.min(firstMs, Math.max(...ends));",
    replacement: "const fromMs = Math.max(firstMs, Math.max(...ends));",
    focus: {
      hours: 16,
      settings: { sinceMs: HOUR_MS },
      faults: [{ kind: "stop", fromMs: 6 * HOUR_MS, downMs: 6 * HOUR_MS }],
    },
  },
  {
    rule: "R30",
    what: "a pass that resumes goes on over what the service has forgotten",
    file: "src/polling/read/forgotten.ts",
    text: "  if (forgottenMs <= readMs) return null;\n",
    replacement: "  if (forgottenMs <= readMs || pass !== null) return null;\n",
    focus: {
      hours: 56,
      organizations: 1,
      events: { eventsPerDay: 400 },
      settings: { pageSize: 5, retentionMs: 36 * HOUR_MS },
      service: { latencyMs: 2000 },
      faults: [
        { kind: "stop", fromMs: 6 * HOUR_MS, downMs: 14 * HOUR_MS },
        { kind: "kill", fromMs: 20 * HOUR_MS + 8000, hops: 3, downMs: 30 * HOUR_MS },
      ],
    },
  },
  {
    rule: "R31",
    what: "the last page is judged by X-Limit alone",
    file: "src/polling/read/fetch-page.ts",
    text: "return limit === undefined ? count === 0 : count < Math.min(asked, limit);",
    replacement: "return count < (limit ?? asked);",
    focus: { settings: { pageSize: 5 }, service: { claimedLimit: 10_000 } },
  },
  {
    rule: "R32",
    what: "a group with one broken organization is never halved",
    file: "src/polling/read/isolate.ts",
    text: 'if (verdict !== "works" && verdict !== "alone") return wait;',
    replacement: 'if (isGroup || (verdict !== "works" && verdict !== "alone")) return wait;',
    focus: {
      organizations: 3,
      faults: [
        {
          kind: "service",
          fromMs: HOUR_MS,
          toMs: ALWAYS,
          effect: { type: "tenant", organization: 1, status: 500 },
        },
      ],
    },
  },
  {
    rule: "R33",
    what: "a Retry-After of a day is a silent day",
    file: "src/polling/limits/pace.ts",
    text: "const PROBE_MS = 600_000;",
    replacement: "const PROBE_MS = 86_400_000;",
    focus: {
      faults: [
        {
          kind: "service",
          fromMs: 8 * HOUR_MS,
          toMs: 8 * HOUR_MS + 30 * MINUTE_MS,
          effect: { type: "throttle", share: 1, retryAfterS: 86_400 },
        },
      ],
    },
  },
  {
    rule: "R34",
    what: "history that a plan once refused is never tried again",
    file: "src/polling/limits/history-limit.ts",
    text: "const nextMs = serviceClock.now() + DAY_MS;",
    replacement: "const nextMs = serviceClock.now() + DAY_MS * 4000;",
    focus: {
      hours: 42,
      organizations: 1,
      settings: { sinceMs: 40 * HOUR_MS, retentionMs: 5 * DAY_MS },
      faults: [
        {
          kind: "service",
          fromMs: 0,
          toMs: 2 * HOUR_MS,
          effect: { type: "history", organization: 0, keptMs: 10 * HOUR_MS },
        },
      ],
    },
  },
  {
    rule: "R35",
    what: "an event without a time is held under the time of its reading",
    file: "src/core/prepare-page.ts",
    text: "timesMs[index] = UNDATED_MS;",
    replacement: "timesMs[index] = UNDATED_MS + Math.floor(Math.random() * 1e12);",
    focus: { events: { untimedShare: 0.2 }, settings: { overlapMs: 2 * HOUR_MS } },
  },
  {
    rule: "R36",
    what: "what is held is taken to be what the service says",
    file: "src/polling/read/counts.ts",
    text: "if (stream.organizations.length === 1) return { apiCount, heldCount, counts: null };",
    replacement:
      "if (stream.organizations.length === 1) return { apiCount, heldCount: apiCount, counts: null };",
    focus: { organizations: 1, events: { odd: [{ atMs: 2 * HOUR_MS, kind: "broken" }] } },
  },
  {
    rule: "R36",
    what: "an event that two sources show counts for one of them",
    file: "src/journal/held-counts.ts",
    text: "FROM also_seen WHERE",
    replacement: "FROM also_seen WHERE 0 AND",
    focus: { portal: {} },
  },
  {
    rule: "R36",
    what: "an event that two sources show counts twice in the totals",
    file: "src/journal/view/overlaps.ts",
    text: "resultOf(lines.values(), await alsoSeen.excess())",
    replacement: "resultOf(lines.values(), [])",
    focus: { portal: {} },
  },
];
