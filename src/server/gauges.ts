import type { Clock } from "../core/clock.ts";
import type { GaugeReading, Metrics } from "../core/metrics.ts";
import type { ArchiveView } from "../core/view/archives.ts";
import type { OrganizationView } from "../core/view/organizations.ts";
import type { SinkView } from "../core/view/sinks.ts";
import type { StatusView } from "../core/view/status.ts";
import type { View } from "../core/view.ts";

const FRESH_MS = 5000;
const SINK_STATES: readonly SinkView["state"][] = ["opening", "running", "retrying", "paused", "stopped"];

/** Series for each organization are many; of more than this only the incomplete ones have any. */
const ORGANIZATIONS_MAX = 200;

const seconds = (fromMs: number | null, nowMs: number) => (fromMs === null ? null : (nowMs - fromMs) / 1000);
const ARCHIVE_GAUGES = [
  ["tidemark_archive_days", ({ daysClosed }: ArchiveView) => daysClosed],
  ["tidemark_archive_waiting_events", ({ waitingEvents }: ArchiveView) => waitingEvents],
  ["tidemark_archive_staged_bytes", ({ stagedBytes }: ArchiveView) => stagedBytes],
  [
    "tidemark_archive_checkpoint_age_seconds",
    ({ checkpointMs }: ArchiveView, nowMs: number) => seconds(checkpointMs, nowMs),
  ],
  [
    "tidemark_archive_verification_age_seconds",
    ({ verifiedMs }: ArchiveView, nowMs: number) => seconds(verifiedMs, nowMs),
  ],
  ["tidemark_archive_findings", ({ findings }: ArchiveView) => findings],
  ["tidemark_archive_holds", ({ holds }: ArchiveView) => holds],
] as const;

interface Seen {
  readonly status: StatusView;
  readonly sinks: readonly SinkView[];
  readonly organizations: readonly OrganizationView[];
  readonly archives: readonly ArchiveView[];
  readonly ms: number;
}

/**
 * Every gauge, read from the view. Collecting returns the last values and starts a new look at the view;
 * `refresh` before collecting makes them current.
 */
export function registerGauges(metrics: Metrics, view: View, clock: Clock): { refresh(): Promise<void> } {
  let seen: Seen | undefined;
  let underWay: Promise<void> | undefined;

  function refresh(): Promise<void> {
    underWay ??= look().finally(() => {
      underWay = undefined;
    });
    return underWay;
  }

  async function look(): Promise<void> {
    const status = await view.status();
    const { sinks } = await view.sinks();
    const { archives } = await view.archives();
    seen = { status, sinks, archives, organizations: await countedOf(view), ms: clock.now() };
  }

  function readings(
    of: (status: StatusView, sinks: readonly SinkView[], seen: Seen) => readonly GaugeReading[],
  ) {
    return () => {
      // A failure shows in the next refresh that is awaited.
      if (seen === undefined || clock.now() - seen.ms > FRESH_MS) refresh().catch(() => {});
      return seen === undefined ? [] : of(seen.status, seen.sinks, seen);
    };
  }

  metrics.gauge(
    "tidemark_journal_used_bytes",
    readings(({ journal }) => [{ value: journal.usedBytes }]),
  );
  metrics.gauge(
    "tidemark_journal_budget_bytes",
    readings(({ journal }) => (journal.budgetBytes === null ? [] : [{ value: journal.budgetBytes }])),
  );
  for (const [name, read] of ARCHIVE_GAUGES)
    metrics.gauge(
      name,
      readings((_, __, { archives }) =>
        archives.flatMap((archive) => {
          const value = read(archive, clock.now());
          return value === null ? [] : [{ value, attributes: { sink: archive.name } }];
        }),
      ),
    );
  metrics.gauge(
    "tidemark_windows",
    readings(({ accounts }) => accounts.flatMap(({ name, windows }) => byState(windows, { account: name }))),
  );
  metrics.gauge(
    "tidemark_organizations",
    readings(({ accounts }) =>
      accounts.flatMap(({ name, organizations }) => byState(organizations, { account: name })),
    ),
  );
  metrics.gauge(
    "tidemark_windows_loss_hours",
    readings(({ accounts }) =>
      accounts.flatMap(({ name, lossInMs }) =>
        lossInMs === null ? [] : [{ value: lossInMs / 3_600_000, attributes: { account: name } }],
      ),
    ),
  );
  metrics.gauge(
    "tidemark_organization_counted_events",
    readings((_, __, { organizations }) => organizations.flatMap(bySide)),
  );
  metrics.gauge(
    "tidemark_gaps",
    readings(({ totals: { gaps } }) =>
      byState({ lost: gaps.gaps, refused: gaps.open, not_asked: gaps.aside }, {}),
    ),
  );
  metrics.gauge(
    "tidemark_gap_hours",
    readings(({ totals: { gaps } }) =>
      byState(hoursOf({ lost: gaps.durationMs, refused: gaps.openMs, not_asked: gaps.asideMs }), {}),
    ),
  );
  metrics.gauge(
    "tidemark_live_lag_seconds",
    readings(({ accounts }) =>
      accounts.flatMap(({ name, liveLagMs }) =>
        liveLagMs === null ? [] : [{ value: liveLagMs / 1000, attributes: { account: name } }],
      ),
    ),
  );
  metrics.gauge(
    "tidemark_sink_lag_events",
    readings((_, sinks) => bySink(sinks, (sink) => sink.lagEvents)),
  );
  metrics.gauge(
    "tidemark_sink_lag_seconds",
    readings((_, sinks) => bySink(sinks, (sink) => sink.lagMs / 1000)),
  );
  metrics.gauge(
    "tidemark_dead_letters",
    readings((_, sinks) => bySink(sinks, (sink) => sink.deadLetters)),
  );
  metrics.gauge(
    "tidemark_sink_state",
    readings((_, sinks) =>
      sinks.flatMap((sink) =>
        SINK_STATES.map((state) => ({
          value: sink.state === state ? 1 : 0,
          attributes: { sink: sink.name, state },
        })),
      ),
    ),
  );
  metrics.gauge(
    "tidemark_alarms",
    readings(({ alarms }) => alarmCounts(alarms)),
  );
  metrics.gauge(
    "tidemark_import_jobs",
    readings(({ totals }) => byState(totals.importJobs, {})),
  );
  return { refresh };
}

async function countedOf(view: View): Promise<readonly OrganizationView[]> {
  const query = { search: "", sort: "lag", offset: 0, limit: ORGANIZATIONS_MAX } as const;
  const all = await view.organizations({ ...query, problems: false });
  if (all.total <= ORGANIZATIONS_MAX) return all.rows;
  const { rows } = await view.organizations({ ...query, problems: true });
  return rows.filter(({ apiCount, heldCount }) => apiCount !== null && heldCount! < apiCount);
}

function bySide({ account, id, apiCount, heldCount }: OrganizationView): GaugeReading[] {
  if (apiCount === null || heldCount === null) return [];
  const attributes = { account, organization: id };
  return [
    { value: apiCount, attributes: { ...attributes, side: "service" } },
    { value: heldCount, attributes: { ...attributes, side: "held" } },
  ];
}

function hoursOf(times: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(times).map(([state, ms]) => [state, ms / 3_600_000]));
}

function byState(
  counts: Readonly<Record<string, number>>,
  attributes: Record<string, string>,
): GaugeReading[] {
  return Object.entries(counts).map(([state, value]) => ({ value, attributes: { ...attributes, state } }));
}

function bySink(sinks: readonly SinkView[], read: (sink: SinkView) => number): GaugeReading[] {
  return sinks.map((sink) => ({ value: read(sink), attributes: { sink: sink.name } }));
}

function alarmCounts(alarms: StatusView["alarms"]): GaugeReading[] {
  const counts = new Map<string, { value: number; attributes: { kind: string; severity: string } }>();
  for (const { kind, severity } of alarms) {
    const key = `${kind} ${severity}`;
    const count = counts.get(key) ?? { value: 0, attributes: { kind, severity } };
    count.value++;
    counts.set(key, count);
  }
  return [...counts.values()];
}
