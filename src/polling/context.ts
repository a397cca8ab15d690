import type { Alarms } from "../core/alarms.ts";
import type { PageMemory } from "../core/buffer-pool.ts";
import type { Clock } from "../core/clock.ts";
import type { Distrust, Journal } from "../core/journal.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { PageGate } from "../core/page-gate.ts";
import type { Roster } from "../core/roster.ts";
import { formatDuration } from "../core/time.ts";
import type { Stream } from "../core/window.ts";
import type { Pace, Priority } from "./limits/pace.ts";
import { OFFSET_MS_MAX, type ServiceClock } from "./limits/service-clock.ts";
import type { Times } from "./plan/sweep-times.ts";
import type { Preparer } from "./prepare/preparer.ts";
import type { Source, SourceOptions, SourcePage, SourceQuery, SourceScope } from "./read/source.ts";

export interface PollingSettings extends Times {
  readonly pageSize: number;
  /** The largest body of an answer. */
  readonly bodyBytesMax: number;
  readonly overlapMs: number;
  readonly windowMs: number;
  readonly sinceMs: number;
  readonly services: readonly string[];
  readonly order: "newest_first" | "oldest_first";
  /** The names of all accounts of the config; absent: this one alone. */
  readonly accounts?: readonly string[] | undefined;
  /** An archive closes days: windows of history are cut at midnights (A1). */
  readonly archived?: boolean;
  /** The start of the oldest day that an archive waits for, while the journal is nearly full (A4). */
  readonly oldestOpenMs?: () => number | undefined;
  /** The state was restored at that time from a copy that was made before. */
  readonly restored?: { readonly madeMs: number; readonly restoredMs: number } | undefined;
}

/** The refusal of one organization, which waits until that time. */
export interface LonerRefusal {
  readonly error: unknown;
  readonly untilMs: number;
  readonly waitMs: number;
}

/** Unreadable events in a row that were passed on the way to a readable one, the first of them by its cursor. */
export interface PassedEvents {
  readonly cursor: string;
  readonly count: number;
  /** Of the readable one, where it is behind them and has a time. */
  readonly readableMs: number | undefined;
}

/** `askedMs`: when the older of both was asked for. */
export interface HistoryAges {
  readonly servedMs: number;
  readonly refusedMs: number;
  readonly askedMs: number;
}

/** Facts about the service that polling has found out since the process started. */
export interface Learned {
  /** The largest header block that is sent; lower than configured once the service has refused one. */
  headerBytesMax: number;
  /** Organizations that are read alone until that time, because they made their group fail (R7, R32). */
  readonly aloneUntilMs: Map<string, number>;
  /** The last refusal of an organization that is read alone, by which it waits. */
  readonly refusals: Map<string, LonerRefusal>;
  /** Members of a group that was halved because it kept failing, until that time. */
  readonly suspectUntilMs: Map<string, number>;
  /** Those of them that were served since. */
  readonly servedSuspects: Set<string>;
  /** Streams whose bodies stall or are nonsense while others are served, until that time (troubled.ts). */
  readonly troubledUntilMs: Map<number, number>;
  /** How often in a row another organization was served right after this stream was refused as too much. */
  readonly servedBeside: Map<number, number>;
  /** By stream: at which failure in a row nobody else was served either. */
  readonly servedNobody: Map<number, number>;
  /** By organization: how old the oldest time is that was served, and the newest one that its plan refused. */
  readonly historyAges: Map<string, HistoryAges>;
  /** By organization: how much history its plan serves, as measured last. */
  readonly plansKeepMs: Map<string, number>;
  /** How long answers lately took to begin, about the slowest of them; 0: none has come yet. */
  slowMs: number;
  /** Why and until when the order of answers is not trusted; undefined: they are in the order of time. */
  distrust: Distrust | undefined;
  /** How often in a row the name of an unreadable event could not be asked for, by stream. */
  readonly nameFailures: Map<number, number>;
  /** The next unreadable events that need no search for a readable one, by stream. */
  readonly passed: Map<number, PassedEvents>;
}

const FIRST_PATIENCE_MS = 20_000;
const PATIENCE_MS_MIN = 10_000;
const PATIENCE_FACTOR = 10;
const SLOW_DECAY = 0.99;

export function createLearned(headerBytesMax: number): Learned {
  return {
    headerBytesMax,
    aloneUntilMs: new Map(),
    refusals: new Map(),
    suspectUntilMs: new Map(),
    servedSuspects: new Set(),
    troubledUntilMs: new Map(),
    servedBeside: new Map(),
    servedNobody: new Map(),
    historyAges: new Map(),
    plansKeepMs: new Map(),
    slowMs: 0,
    distrust: undefined,
    nameFailures: new Map(),
    passed: new Map(),
  };
}

/** The parts and facts that polling one account is built from. */
export interface PollContext {
  readonly account: string;
  readonly settings: PollingSettings;
  readonly learned: Learned;
  readonly source: Source;
  readonly journal: Journal;
  readonly roster: Roster;
  readonly clock: Clock;
  readonly serviceClock: ServiceClock;
  readonly pace: Pace;
  readonly gate: PageGate;
  readonly preparer: Preparer;
  readonly memory: PageMemory;
  readonly alarms: Alarms;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Keeps an event apart: it belongs to an organization that was not asked for (R7), or it is not readable (R32). */
  keepUnattributed(stream: Stream, bytes: Uint8Array, reason: string | null): Promise<void>;
}

export function scopeOf(stream: Stream): SourceScope {
  if (stream.provider !== null) return { provider: stream.provider };
  return stream.organizations.length === 0 ? {} : { organizations: stream.organizations };
}

/** The subject of an alarm: the account, with its organization or provider where there is one. */
export function subjectOf(context: PollContext, stream: Stream): string {
  return `${context.account}/${stream.organizations[0] ?? stream.provider ?? ""}`;
}

export function timeText(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * Sends one request when the pace allows, and learns the service's clock from every answer, errors included.
 * `isApart`: its refusal does not slow down others.
 */
export async function ask(
  context: PollContext,
  query: SourceQuery,
  scope: SourceScope,
  options: SourceOptions,
  priority: Priority | "look",
  isApart = false,
): Promise<SourcePage> {
  const { account, source, pace, clock, metrics, learned } = context;
  const { signal } = options;
  const { organizations = [] } = scope;
  return pace.run(
    priority,
    signal,
    async () => {
      const startedMs = clock.now();
      try {
        const sentMs = performance.now();
        const patienceMs = organizations.length > 1 ? patienceOf(learned) : options.patienceMs;
        const page = await source.events(query, scope, { ...options, patienceMs });
        learned.slowMs = Math.max(learned.slowMs * SLOW_DECAY, performance.now() - sentMs);
        learnTime(context, page.head.dateMs);
        warnWithoutDate(context, page.head.dateMs);
        metrics.add("tidemark_source_requests_total", 1, { account, outcome: "ok" });
        metrics.record("tidemark_source_request_seconds", (clock.now() - startedMs) / 1000, { account });
        return page;
      } catch (error) {
        if (signal.aborted) throw error;
        const fault = source.fault(error);
        learnTime(context, fault.dateMs);
        metrics.add("tidemark_source_requests_total", 1, { account, outcome: fault.kind });
        throw error;
      }
    },
    (error) => {
      if (signal.aborted) return undefined;
      const { kind, retryAfterMs } = source.fault(error);
      if (isApart || (kind !== "throttled" && kind !== "unavailable")) return undefined;
      return { kind: kind === "throttled" ? "too_many" : "overloaded", retryAfterMs };
    },
  );
}

/**
 * A group, or a probe, is given up sooner than the config says when its answer does not begin, or pauses, for longer than
 * others took: one member that hangs must not hold up the rest (R32). Measured in real time, as the network runs in no other.
 */
export function patienceOf({ slowMs }: Learned): number {
  return slowMs === 0 ? FIRST_PATIENCE_MS : Math.max(PATIENCE_MS_MIN, slowMs * PATIENCE_FACTOR);
}

/** While the clocks differ, windows are sealed later. */
function learnTime({ account, alarms, serviceClock }: PollContext, dateMs: number | undefined): void {
  serviceClock.learn(dateMs);
  const { offsetMs } = serviceClock;
  if (Math.abs(offsetMs) <= OFFSET_MS_MAX) {
    alarms.clear("wrong_service_time", account);
    return;
  }
  alarms.raise({
    kind: "wrong_service_time",
    subject: account,
    message: `The Date of the service's answers is ${formatDuration(Math.abs(offsetMs))} ${offsetMs > 0 ? "ahead of" : "behind"} this machine's clock. Events are read by the service's time. ${waitOf(offsetMs)}`,
    remedy:
      "Compare this machine's clock with the true time, and correct it. If it is right, the service's Date is wrong: ask the vendor.",
    severity: "warning",
  });
}

/** The consequence of the difference for the ledger, which trusts neither clock alone. */
function waitOf(offsetMs: number): string {
  return offsetMs > 0
    ? `Windows are compared and sealed ${formatDuration(offsetMs)} later, when this machine's clock too says that they are due.`
    : "Windows are compared and sealed by the service's time, which is the earlier one.";
}

/** Without Date a wrong local clock stays unnoticed, and windows are called complete too early. */
function warnWithoutDate({ account, alarms }: PollContext, dateMs: number | undefined): void {
  if (dateMs !== undefined) {
    alarms.clear("no_service_time", account);
    return;
  }
  alarms.raise({
    kind: "no_service_time",
    subject: account,
    message:
      "The service's answers have no Date header: only the local clock decides which time is complete, and a wrong clock cannot be noticed.",
    remedy:
      "Keep this machine's clock synchronized, and find out what removes the header, for instance a proxy.",
    severity: "warning",
  });
}
