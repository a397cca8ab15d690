import type { SinkView } from "../../core/view/sinks.ts";
import type { AccountView, StatusView } from "../../core/view/status.ts";

/** The parts of several statuses that are sums or extremes. Alarms, health and headline are the caller's. */
export function mergeStatuses(
  list: readonly StatusView[],
): Pick<StatusView, "accounts" | "journal" | "totals" | "lateness"> {
  const accounts = new Map<string, AccountView>();
  for (const account of list.flatMap((status) => status.accounts)) {
    const known = accounts.get(account.name);
    accounts.set(account.name, known === undefined ? account : mergeAccounts(known, account));
  }
  const lateness = new Map<number, number>();
  for (const { atMostMs, events } of list.flatMap((status) => status.lateness))
    lateness.set(atMostMs, (lateness.get(atMostMs) ?? 0) + events);
  return {
    accounts: [...accounts.values()],
    journal: mergeJournals(list.map(({ journal }) => journal)),
    totals: mergeTotals(list.map(({ totals }) => totals)),
    lateness: [...lateness].sort(([a], [b]) => a - b).map(([atMostMs, events]) => ({ atMostMs, events })),
  };
}

function mergeAccounts(a: AccountView, b: AccountView): AccountView {
  return {
    ...a,
    state: a.state === "paused" || b.state === "paused" ? "paused" : a.state,
    pausedUntilMs: extreme(Math.max, a.pausedUntilMs, b.pausedUntilMs),
    // A lane that has not been read yet must not hide behind one that has.
    polledMs: a.polledMs === null || b.polledMs === null ? null : Math.min(a.polledMs, b.polledMs),
    overdueMs: extreme(Math.max, a.overdueMs, b.overdueMs),
    organizations: addRecords(a.organizations, b.organizations),
    windows: addRecords(a.windows, b.windows),
    liveLagMs: extreme(Math.max, a.liveLagMs, b.liveLagMs),
    unreadFromMs: extreme(Math.min, a.unreadFromMs, b.unreadFromMs),
    lossInMs: extreme(Math.min, a.lossInMs, b.lossInMs),
  };
}

function mergeJournals(list: readonly StatusView["journal"][]): StatusView["journal"] {
  const slowest = [...list].sort((a, b) => b.backlogEvents - a.backlogEvents)[0];
  const sum = (value: (one: StatusView["journal"]) => number) =>
    list.reduce((all, one) => all + value(one), 0);
  return {
    usedBytes: sum(({ usedBytes }) => usedBytes),
    // Each lane's file has the whole budget to itself.
    budgetBytes: sum(({ budgetBytes }) => budgetBytes ?? 0),
    heldUpBy: slowest?.heldUpBy ?? null,
    backlogBytes: sum(({ backlogBytes }) => backlogBytes),
    backlogEvents: sum(({ backlogEvents }) => backlogEvents),
    endPage: sum(({ endPage }) => endPage),
  };
}

const NO_TOTALS: StatusView["totals"] = {
  ...{
    events: 0,
    apiCount: 0,
    heldCount: 0,
    differing: 0,
    doubted: 0,
    late: 0,
    organizations: 0,
    deadLetters: 0,
  },
  windows: { unread: 0, read: 0, sealed: 0, expired: 0, refused: 0, live: 0 },
  gaps: { gaps: 0, organizations: 0, durationMs: 0, events: 0, open: 0, openMs: 0, aside: 0, asideMs: 0 },
  importJobs: {},
};

function mergeTotals(list: readonly StatusView["totals"][]): StatusView["totals"] {
  return list.reduce((a, b) => {
    const { windows, gaps, importJobs, ...sums } = b;
    const { windows: knownWindows, gaps: knownGaps, importJobs: knownJobs, ...known } = a;
    return {
      ...addRecords(known, sums),
      windows: addRecords(knownWindows, windows),
      gaps: addRecords(knownGaps, gaps),
      importJobs: addRecords(knownJobs, importJobs),
    };
  }, NO_TOTALS);
}

/** A sink of several lanes: the worst state, sums, and the longest wait. */
export function mergeSinks(list: readonly SinkView[]): SinkView[] {
  const sinks = new Map<string, SinkView>();
  for (const sink of list) {
    const known = sinks.get(sink.name);
    sinks.set(sink.name, known === undefined ? sink : mergeTwoSinks(known, sink));
  }
  return [...sinks.values()];
}

const RANKS: readonly SinkView["state"][] = [
  "running",
  "opening",
  "unknown",
  "retrying",
  "paused",
  "stopped",
];

/** Of two in one state, the one with a reason: it waits for its destination. */
const rankOf = ({ state, reason }: SinkView) => RANKS.indexOf(state) + (reason === null ? 0 : 0.5);

function mergeTwoSinks(a: SinkView, b: SinkView): SinkView {
  const worse = rankOf(b) > rankOf(a) ? b : a;
  return {
    ...worse,
    lagEvents: a.lagEvents + b.lagEvents,
    lagMs: Math.max(a.lagMs, b.lagMs),
    sentEvents:
      a.sentEvents === null && b.sentEvents === null ? null : (a.sentEvents ?? 0) + (b.sentEvents ?? 0),
    committedMs: Math.max(a.committedMs, b.committedMs),
    lastWriteMs: extreme(Math.max, a.lastWriteMs, b.lastWriteMs),
    deadLetters: a.deadLetters + b.deadLetters,
  };
}

/** Number by number; a key that only one has counts as 0 in the other. */
export function addRecords<Of extends Readonly<Record<string, number>>>(a: Of, b: Of): Of {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return Object.fromEntries([...keys].map((key) => [key, (a[key] ?? 0) + (b[key] ?? 0)])) as Of;
}

export function extreme(
  choose: (...values: number[]) => number,
  ...values: readonly (number | null)[]
): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : choose(...known);
}
