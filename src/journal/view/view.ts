import type { Clock } from "../../core/clock.ts";
import { statementOf } from "../../core/statement.ts";
import type { DriftView } from "../../core/view/events.ts";
import type { SinkView } from "../../core/view/sinks.ts";
import type { AccountView, StatusView, WindowCounts } from "../../core/view/status.ts";
import type { LiveAccount, LiveView, View } from "../../core/view.ts";
import { LIVE_BEHIND_MS_MAX } from "../../core/window.ts";
import type { State } from "../database.ts";
import { createGapQueries } from "../gaps.ts";
import { endText, metaOf, SHARD } from "../shard.ts";
import { createSpace } from "../space.ts";
import { createArchivesView } from "./archives.ts";
import { noWindows } from "./days.ts";
import { createDeadLettersView } from "./dead-letters.ts";
import { createForeignAlarms } from "./foreign.ts";
import { createLedgerView, type Survey } from "./ledger.ts";
import { liveFrom, readStoredLive, silentMs } from "./live.ts";
import { createOrganizationsView } from "./organizations.ts";
import { createBacklogs, type ReaderRow } from "./readers.ts";
import { createRecent } from "./recent.ts";
import { createWindowDays } from "./window-days.ts";
import { windowsOf } from "./windows.ts";

export interface ViewOptions {
  readonly clock: Clock;
  readonly version: string;
  readonly lane?: number | undefined;
  /** The state file's path; its log is beside it. */
  readonly file: string;
  readonly budgetBytes: number | null;
  /** A sink whose oldest undelivered event is older than this is behind. */
  readonly sinkBehindMs: number;
  /** As the config has them, in its order. */
  readonly accounts: readonly { readonly name: string; readonly retentionMs: number }[];
  readonly sinks: readonly {
    readonly name: string;
    readonly type: string;
    readonly guarantee: "exactly_once" | "at_least_once";
    readonly promise: string;
    readonly isFiltered?: boolean;
  }[];
  /** False where no process runs: what an ended one has stored is not current (R40). Undefined: that is not known. */
  isRunning?(): boolean | undefined;
  /** Why a sink cannot go on, where no process reports on it. */
  troubleOf?(sink: string): Promise<{ readonly reason: string; readonly remedy: string } | undefined>;
  /** Readers of the journal that are no sinks, beside those whose name begins with ~, as no sink's can. */
  readonly internalReaders?: readonly string[];
}

/**
 * Answers from the state file, and from what only the running process knows. Without the latter (`null`:
 * another process runs, or none) what the running process stored last counts, if that is recent.
 */
export function createView(db: State, live: LiveView | null, options: ViewOptions): View {
  const { clock } = options;
  const known = () =>
    live ?? (options.isRunning?.() === false ? null : liveFrom(readStoredLive(db), clock.now()));
  const ledger = createLedgerView(db, clock);
  const windowDays = createWindowDays(db);
  const backlogs = createBacklogs(db);
  const deadLetters = createDeadLettersView(db, options.lane);
  const gaps = createGapQueries(db);
  const foreignAlarms = createForeignAlarms(db);
  const space = createSpace(db, options.file, options.budgetBytes ?? 0);
  const recent = createRecent(db);
  const archives = createArchivesView(db);
  const accountOf = (name: string) =>
    known()
      ?.accounts()
      .find((account) => account.name === name);
  const serviceNowMs = (name: string) => clock.now() + (accountOf(name)?.clockOffsetMs ?? 0);
  const organizations = createOrganizationsView(
    db,
    clock,
    ledger,
    serviceNowMs,
    new Set(options.accounts.map(({ name }) => name)),
  );
  const readers = db.prepare(
    "SELECT name, page, event, hash, committed_ms AS committedMs FROM readers ORDER BY name",
  );
  const organizationCounts = db
    .prepare("SELECT account, state, COUNT(*) FROM organizations GROUP BY account, state")
    .raw();
  const lateness = db.prepare(
    "SELECT at_most_ms AS atMostMs, SUM(events) AS events FROM lateness GROUP BY at_most_ms ORDER BY at_most_ms",
  );
  const driftRows = db.prepare(
    `SELECT json_group_array(service) AS services, kind, path, detail, MIN(first_ms) AS firstMs,
       MAX(last_ms) AS lastMs, SUM(events) AS events
     FROM (SELECT * FROM drift ORDER BY service) GROUP BY kind, path, detail
     ORDER BY SUM(events) DESC, kind, path, detail LIMIT ?`,
  );
  const importJobs = db
    .prepare("SELECT CASE WHEN ended_by IS NULL THEN state ELSE 'ended' END, COUNT(*) FROM jobs GROUP BY 1")
    .raw();
  const driftCount = db
    .prepare("SELECT COUNT(*) FROM (SELECT 1 FROM drift GROUP BY kind, path, detail)")
    .pluck();

  async function sinks(): Promise<SinkView[]> {
    const rows = new Map((readers.all() as ReaderRow[]).map((row) => [row.name, row]));
    const buried = deadLetters.counts();
    const deliveries = new Map((known()?.deliveries() ?? []).map((delivery) => [delivery.name, delivery]));
    const configured = new Set(options.sinks.map(({ name }) => name));
    const others = [...rows.keys()].filter(
      (name) =>
        !configured.has(name) && !name.startsWith("~") && !(options.internalReaders ?? []).includes(name),
    );
    const list: SinkView[] = [];
    for (const name of [...configured, ...others]) {
      const row = rows.get(name) ?? { name, page: 0, event: 0, hash: "", committedMs: 0 };
      const backlog = await backlogs.of(row);
      const delivery = deliveries.get(name);
      const trouble = delivery === undefined ? await options.troubleOf?.(name) : undefined;
      const definition = options.sinks.find((sink) => sink.name === name);
      list.push({
        name,
        type: definition?.type ?? null,
        guarantee: definition?.guarantee ?? null,
        promise: definition?.promise ?? null,
        state: trouble === undefined ? (delivery?.state ?? "unknown") : "stopped",
        sinceMs: delivery?.sinceMs ?? null,
        reason: trouble?.reason ?? delivery?.reason ?? null,
        remedy: trouble?.remedy ?? delivery?.remedy ?? null,
        position: `${metaOf(db, "journal") ?? ""}:${row.page}:${row.event}:${row.hash}`,
        lagEvents: backlog.events,
        isFiltered: definition?.isFiltered ?? false,
        lagMs: backlog.oldestMs === null ? 0 : Math.max(0, clock.now() - backlog.oldestMs),
        sentEvents: delivery?.sentEvents ?? null,
        committedMs: row.committedMs,
        lastWriteMs: delivery?.lastWriteMs ?? null,
        deadLetters: buried.get(name) ?? 0,
      });
    }
    return list;
  }

  async function status(): Promise<StatusView> {
    const survey = await ledger.survey();
    const running = known();
    const raised = running?.alarms() ?? [];
    const alarms = [...raised, ...foreignAlarms(raised)].sort(bySeverity);
    const accounts = options.accounts.map((account) => accountView(account, survey));
    const buried = deadLetters.counts();
    const windows = accounts.reduce((sum, account) => addCounts(sum, account.windows), noWindows());
    const gapTotals = gaps.totals();
    const statement = statementOf({
      startedMs: running?.startedMs ?? null,
      silentMs: running === null && options.isRunning?.() === true ? silentMs(db, clock) : undefined,
      ended: endText(db, options.file),
      alarms,
      accounts,
      sinks: await sinks(),
      gaps: gapTotals,
      unreadWindows: windows.unread,
      sinkBehindMs: options.sinkBehindMs,
    });
    return {
      version: options.version,
      shard: metaOf(db, SHARD) ?? null,
      nowMs: clock.now(),
      startedMs: running?.startedMs ?? null,
      ...statement,
      alarms,
      accounts,
      journal: await journal(),
      totals: {
        events: await backlogs.total(),
        apiCount: survey.apiCount,
        heldCount: survey.heldCount,
        differing: survey.differing,
        doubted: survey.doubted,
        late: survey.late,
        organizations: await organizations.count(),
        deadLetters: [...buried.values()].reduce((sum, letters) => sum + letters, 0),
        importJobs: Object.fromEntries(importJobs.all() as [string, number][]),
        windows,
        gaps: gapTotals,
      },
      lateness: lateness.all() as { atMostMs: number; events: number }[],
    };
  }

  async function journal(): Promise<StatusView["journal"]> {
    const rows = (readers.all() as ReaderRow[]).sort((a, b) => a.page - b.page || a.event - b.event);
    const slowest = rows[0];
    const backlog = slowest === undefined ? undefined : await backlogs.of(slowest);
    return {
      usedBytes: space.usedBytes(),
      budgetBytes: options.budgetBytes,
      heldUpBy: backlog !== undefined && backlog.events > 0 ? slowest!.name : null,
      backlogBytes: backlog?.bytes ?? 0,
      backlogEvents: backlog?.events ?? 0,
      endPage: backlogs.endPage(),
    };
  }

  function accountView({ name, retentionMs }: ViewOptions["accounts"][number], survey: Survey): AccountView {
    const running = accountOf(name);
    const nowMs = serviceNowMs(name);
    const windows = noWindows();
    let liveToMs: number | null = null;
    let unreadFromMs: number | null = null;
    for (const [id, facts] of survey.streams) {
      if (ledger.streams.get(id)?.account !== name) continue;
      addCounts(windows, facts.counts);
      if (facts.liveToMs !== null) liveToMs = Math.min(liveToMs ?? facts.liveToMs, facts.liveToMs);
      if (facts.unreadFromMs !== null)
        unreadFromMs = Math.min(unreadFromMs ?? facts.unreadFromMs, facts.unreadFromMs);
    }
    // No plan closes the live windows while the service refuses the account, or no process runs.
    if (liveToMs !== null && nowMs - liveToMs > LIVE_BEHIND_MS_MAX)
      unreadFromMs = Math.min(unreadFromMs ?? liveToMs, liveToMs);
    return {
      name,
      ...pollingView(running, clock.now()),
      organizations: countsOf(name),
      windows,
      liveLagMs: liveToMs === null ? null : Math.max(0, nowMs - liveToMs),
      unreadFromMs,
      lossInMs: unreadFromMs === null ? null : Math.max(0, unreadFromMs + retentionMs - nowMs),
    };
  }

  function countsOf(account: string): AccountView["organizations"] {
    const counts = { active: 0, vanished: 0, refused: 0 };
    for (const [name, state, count] of organizationCounts.all() as [string, keyof typeof counts, number][])
      if (name === account) counts[state] = count;
    return counts;
  }

  return {
    status,
    sinks: async () => ({ sinks: await sinks() }),
    archives: async () => ({ archives: archives() }),
    rates: () =>
      known()?.rates() ?? { bucketMs: 5000, fromMs: clock.now(), received: [], live: [], sent: {} },
    organizations: (query) => organizations.list(query),
    async calendar() {
      const { madeMs, days } = await ledger.survey();
      return { madeMs, days: [...days] };
    },
    async windows(query) {
      const { overlaps } = await ledger.survey();
      return windowsOf(db, ledger.streams, query, clock.now(), overlaps, windowDays);
    },
    async gaps({ organization, ...query }) {
      const found = { ...query, owner: organization };
      const list = gaps.list(found).map(({ cameMs: _, ...gap }) => ({ ...gap, services: [...gap.services] }));
      return { totals: gaps.totals(found), gaps: list };
    },
    deadLetters: async (query) => deadLetters.list(query),
    deadLetter: async (id) => deadLetters.one(id),
    async drift(limit) {
      return {
        total: driftCount.get() as number,
        rows: (driftRows.all(limit) as DriftRow[]).map((row) => ({
          ...row,
          services: JSON.parse(row.services) as string[],
        })),
      };
    },
    recent: async (afterPage, limit) => recent(afterPage, limit),
  };
}

type DriftRow = Omit<DriftView["rows"][number], "services"> & { readonly services: string };

const UNKNOWN = { pausedUntilMs: null, clockOffsetMs: null, polledMs: null, overdueMs: null, pace: null };

function pollingView(account: LiveAccount | undefined, nowMs: number) {
  if (account === undefined) return { state: "unknown" as const, ...UNKNOWN };
  const paused = account.pausedUntilMs !== null && account.pausedUntilMs > nowMs;
  const { concurrency, running, rate, requests, refused, pausedUntilMs } = account.pace;
  return {
    state: paused ? ("paused" as const) : ("reading" as const),
    pausedUntilMs: account.pausedUntilMs,
    clockOffsetMs: account.clockOffsetMs,
    polledMs: account.polledMs,
    overdueMs: account.overdueMs,
    pace: {
      ...{ concurrency, running, requests, refused, pausedUntilMs },
      requestsPerSecondMax: Number.isFinite(rate) ? rate : null,
    },
  };
}

function bySeverity(
  a: { severity: string; sinceMs: number },
  b: { severity: string; sinceMs: number },
): number {
  if (a.severity !== b.severity) return a.severity === "critical" ? -1 : 1;
  return a.sinceMs - b.sinceMs;
}

function addCounts(sum: WindowCounts, more: WindowCounts): WindowCounts {
  for (const state of Object.keys(sum) as (keyof WindowCounts)[]) sum[state] += more[state];
  return sum;
}
