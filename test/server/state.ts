import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ordinaryMemory } from "../../src/core/buffer-pool.ts";
import type { Clock } from "../../src/core/clock.ts";
import { preparePage } from "../../src/core/prepare-page.ts";
import type { LiveView } from "../../src/core/view.ts";
import { newWindow, type Stream } from "../../src/core/window.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { createJournal, type SqliteJournal } from "../../src/journal/journal.ts";
import { createRoster } from "../../src/journal/roster.ts";
import type { ViewOptions } from "../../src/journal/view/view.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
/** Ten in the morning, UTC. */
export const NOW_MS = Date.parse("2026-03-14T10:00:00Z");

/** A state file made by the journal itself, with a clock that stands still. */
export interface TestState {
  readonly db: State;
  readonly file: string;
  readonly journal: SqliteJournal;
  readonly clock: Clock;
  readonly options: ViewOptions;
  close(): void;
}

export function makeState(nowMs = NOW_MS): TestState {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-view-"));
  const file = join(folder, "tidemark.db");
  const db = openState(file);
  const clock: Clock = { now: () => nowMs, sleep: () => Promise.resolve() };
  return {
    db,
    file,
    journal: createJournal(db, clock),
    clock,
    options: {
      clock,
      version: "1.2.3",
      file,
      budgetBytes: 1_000_000_000,
      sinkBehindMs: 300_000,
      accounts: [{ name: "acme", retentionMs: 90 * DAY_MS }],
      sinks: [
        { name: "lake", type: "kafka", guarantee: "exactly_once", promise: "Each event exactly once." },
        {
          name: "siem",
          type: "splunk_hec",
          guarantee: "at_least_once",
          promise: "Each event at least once.",
        },
      ],
      internalReaders: ["imports"],
    },
    close() {
      db.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function organizationId(number: number): string {
  return number.toString(16).padStart(24, "0");
}

/** Appends a page of made-up events of one organization, one a second up to `toMs`. */
export async function append(
  { journal }: Pick<TestState, "journal">,
  organization: string,
  events: number,
  toMs = NOW_MS,
): Promise<void> {
  const list = Array.from({ length: events }, (_, at) => ({
    id: `${organization}-${toMs - (events - at) * 1000}`,
    service: at % 3 === 0 ? "sso" : "directory",
    event_type: at % 3 === 0 ? "sso_auth" : "user_update",
    timestamp: new Date(toMs - (events - at) * 1000).toISOString(),
    organization,
    secretContent: "must not be shown",
  }));
  const bytes = Buffer.from(JSON.stringify(list));
  await journal.append({
    account: "acme",
    provider: null,
    organization: null,
    page: preparePage(bytes, { organizations: [organization, "other"], provider: null }),
    lease: ordinaryMemory.adopt(bytes),
    fetchedAtMs: toMs,
    edge: [],
    lateBeforeMs: 0,
    reader: null,
    change: () => ({}),
  });
}

export function streamOf({ journal }: TestState, organizations: readonly string[]): Promise<Stream> {
  return journal.stream({ account: "acme", provider: null, organizations, services: ["all"] });
}

/**
 * Three organizations: one sealed up to yesterday and live, one 2 hours behind with an unread day and a gap,
 * one refused. Events for two sinks, one of them half way.
 */
export async function fillSmall(state: TestState): Promise<void> {
  const { journal, db } = state;
  const [first, second, third] = [organizationId(1), organizationId(2), organizationId(3)];
  const roster = createRoster(db);
  await roster.seen(
    "acme",
    [
      { id: first, name: "Aurora Labs" },
      { id: second, name: "Borealis Bank" },
      { id: third, name: "Cirrus Clinic" },
    ],
    NOW_MS,
  );
  await roster.setState("acme", [third], "refused", "403: not entitled", NOW_MS + HOUR_MS);
  const [one, two, three] = [
    await streamOf(state, [first]),
    await streamOf(state, [second]),
    await streamOf(state, [third]),
  ];
  const today = NOW_MS - (NOW_MS % DAY_MS);
  const closed = { askedMs: NOW_MS - HOUR_MS, sweeps: 3 };
  await journal.changeWindows({
    add: [
      newWindow(one, today - DAY_MS, today, {
        ...closed,
        state: "sealed",
        apiCount: 120,
        heldCount: 120,
        late: 2,
      }),
      newWindow(one, today, NOW_MS - 30_000, { live: true, askedMs: NOW_MS - 30_000 }),
      newWindow(two, today - 3 * DAY_MS, today - 2 * DAY_MS, { state: "expired", reason: "forgotten" }),
      newWindow(two, today - 2 * DAY_MS, today - DAY_MS, {}),
      newWindow(two, today - DAY_MS, today, { ...closed, state: "read", apiCount: 11, heldCount: 10 }),
      newWindow(two, today, NOW_MS - 2 * HOUR_MS, { live: true }),
      newWindow(three, today - DAY_MS, today, { state: "refused", reason: "403: not entitled" }),
    ],
  });
  await append(state, first, 30, NOW_MS - 60_000);
  await append(state, second, 10, NOW_MS - 2 * HOUR_MS);
  roster.addEvents(
    "acme",
    new Map([
      [first, { events: 30, newestMs: NOW_MS - 61_000 }],
      [second, { events: 10, newestMs: NOW_MS - 2 * HOUR_MS }],
    ]),
    true,
  );
  await roster.smooth("acme", 1);
  const lake = await journal.reader("lake");
  const siem = await journal.reader("siem");
  await lake.commit(journal.end(), undefined);
  const page = (await siem.read(siem.position))!;
  await siem.commit(page.after(11), undefined);
  await siem.addDeadLetters([
    { event: page.event(3), reason: "400: the field is too long" },
    { event: page.event(4), reason: "400: the field is too long" },
  ]);
  db.prepare("INSERT INTO lateness (account, at_most_ms, events) VALUES ('acme', 60000, 2)").run();
  db.prepare(
    `INSERT INTO drift (service, kind, path, first_ms, last_ms, events, detail)
     VALUES ('directory', 'field', 'changes[].reason', ?, ?, 7, '')`,
  ).run(NOW_MS - DAY_MS, NOW_MS);
}

/** The live part of a running process: one sink paused, with its alarm. */
export function liveOf(clock: Clock, more: Partial<LiveView> = {}): LiveView {
  return {
    startedMs: clock.now() - HOUR_MS,
    alarms: () => [
      {
        kind: "sink_paused",
        subject: "siem",
        message: "The destination says 403.",
        remedy: "Give the token the right to write to the index.",
        severity: "critical",
        sinceMs: clock.now() - 600_000,
      },
    ],
    accounts: () => [
      {
        name: "acme",
        pausedUntilMs: null,
        clockOffsetMs: 5000,
        polledMs: clock.now() - 1000,
        overdueMs: 0,
        pace: {
          ...{ concurrency: 4, running: 1, rate: Number.POSITIVE_INFINITY, requests: 99, refused: 2 },
          pausedUntilMs: 0,
        },
      },
    ],
    deliveries: () => [
      delivery("lake", "running", clock.now()),
      {
        ...delivery("siem", "paused", clock.now()),
        reason: "The destination says 403.",
        remedy: "Give the token the right to write to the index.",
      },
    ],
    rates: () => ({
      bucketMs: 5000,
      fromMs: clock.now() - 10_000,
      received: [3, 4],
      live: [3, 4],
      sent: { lake: [3, 4], siem: [0, 0] },
    }),
    ...more,
  };
}

function delivery(name: string, state: "running" | "paused", nowMs: number) {
  return {
    ...{ name, state, reason: null, remedy: null, sentEvents: 40 },
    ...{ sinceMs: nowMs - HOUR_MS, lastWriteMs: nowMs - 60_000 },
  };
}

/** Organizations in groups as polling makes them, with ninety days of windows for each group. */
export async function fillLarge(state: TestState, organizations: number, groupSize: number): Promise<void> {
  const { journal, db } = state;
  const list = Array.from({ length: organizations }, (_, at) => ({
    id: organizationId(at + 1),
    name: `${WORDS[at % WORDS.length]} ${String(at + 1).padStart(5, "0")}`,
  }));
  const roster = createRoster(db);
  await roster.seen("acme", list, NOW_MS);
  const counts = list.map(({ id }, at) => ({
    id,
    events: 1000 + ((at * 37) % 5000),
    newestMs: NOW_MS - at * 1000,
  }));
  roster.addEvents("acme", new Map(counts.map(({ id, ...count }) => [id, count])), true);
  const count = db.prepare(
    "UPDATE organizations SET events = @events, last_event_ms = @newestMs WHERE id = @id",
  );
  await db.change(() => {
    for (const one of counts) count.run(one);
  });
  await roster.smooth("acme", 1);
  const today = NOW_MS - (NOW_MS % DAY_MS);
  for (let from = 0; from < organizations; from += groupSize) {
    const members = list.slice(from, from + groupSize).map(({ id }) => id);
    const stream = await streamOf(state, members);
    const sealed = Array.from({ length: 89 }, (_, at) =>
      newWindow(stream, today - (at + 1) * DAY_MS, today - at * DAY_MS, {
        state: at < 2 ? "read" : "sealed",
        ...{ apiCount: 500, heldCount: 500, askedMs: NOW_MS - HOUR_MS, sweeps: 3 },
      }),
    );
    const live = newWindow(stream, today, NOW_MS - 20_000 - (from % 600) * 100, { live: true });
    await journal.changeWindows({ add: [...sealed, live] });
  }
}

const WORDS = [
  "Aurora",
  "Borealis",
  "Cirrus",
  "Delta",
  "Everest",
  "Fjord",
  "Glacier",
  "Harbour",
  "Isthmus",
  "Juniper",
];
