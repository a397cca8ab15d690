import { formatDuration } from "./time.ts";
import { type SinkView, waitingText } from "./view/sinks.ts";
import type { StatusView } from "./view/status.ts";

/** The facts from which the program says how it is doing (R40). */
export interface Facts {
  /** null: no process is running, or none reports. */
  readonly startedMs: number | null;
  /** Set where a process is running that does not report: the age of its last report, or Infinity. */
  readonly silentMs?: number | undefined;
  /** Says that the work of this state goes on elsewhere, where it does. */
  readonly ended?: string | undefined;
  readonly alarms: StatusView["alarms"];
  readonly accounts: StatusView["accounts"];
  readonly sinks: readonly SinkView[];
  readonly gaps: StatusView["totals"]["gaps"];
  readonly unreadWindows: number;
  /** A sink whose oldest undelivered event is older than this is behind. */
  readonly sinkBehindMs: number;
  /** Says what the numbers are without, where they are a part. */
  readonly missing?: string | undefined;
}

export interface Statement {
  readonly health: StatusView["health"];
  readonly headline: string;
}

interface Point {
  readonly health: "degraded" | "bad";
  readonly text: string;
  /** Whether it says the same as this alarm. */
  says?(alarm: StatusView["alarms"][number]): boolean;
}

/** Reading that is further behind the service's clock than this is named. */
const LIVE_LAG_MS_MAX = 600_000;
/** A poll for new events that has been due for longer than this is named. */
const OVERDUE_MS_MAX = 60_000;
const POINTS_SHOWN = 3;

/** The headline of page and `status`, and the health of `/readyz`: problems first, by their weight. */
export function statementOf(facts: Facts): Statement {
  const points: Point[] = [
    ...facts.sinks.flatMap((sink) => sinkPoints(sink, facts.sinkBehindMs)),
    ...facts.accounts.flatMap((account) => accountPoints(account, facts.alarms)),
  ].sort((a, b) => weight(b) - weight(a));
  const critical = facts.alarms.filter(({ severity }) => severity === "critical");
  // Before the points, of which only some are shown.
  const unsaid = critical.filter((alarm) => !points.some((point) => point.says?.(alarm)));
  if (unsaid.length > 0) points.unshift({ health: "bad", text: criticalText(unsaid) });
  // First, because everything else is said of the rest only.
  if (facts.missing !== undefined) points.unshift({ health: "degraded", text: facts.missing });
  const named = points.length;
  const starting = startingText(facts);
  const isBad = critical.length > 0 || points.some(({ health }) => health === "bad");
  if (facts.startedMs === null) {
    const isSilent = facts.silentMs !== undefined;
    return {
      health: isBad || isSilent ? "bad" : "degraded",
      headline: sentences([
        isSilent ? silentText(facts.silentMs!) : (facts.ended ?? "Tidemark is not running"),
        ...texts(points),
      ]),
    };
  }
  const isDegraded = named > 0 || facts.alarms.length > 0 || starting !== undefined;
  const health = isBad ? "bad" : isDegraded ? "degraded" : "good";
  return { health, headline: headlineOf(facts, points, starting) };
}

/** Such a process may hold alarms that only its page and its log show. */
function silentText(ms: number): string {
  const last = Number.isFinite(ms) ? `its last report is ${formatDuration(ms)} old` : "it has never reported";
  return `Tidemark is running, but ${last}: it is just starting, it was stopped (SIGSTOP), or it cannot write its state file. Look at its log and at the free disk space`;
}

/** Nothing may be said about accounts that have not been read yet, and sinks that are not open yet. */
function startingText({ accounts, sinks }: Facts): string | undefined {
  const isUnread = accounts.some(({ liveLagMs, polledMs, state, organizations }) =>
    state === "reading"
      ? polledMs === null
      : liveLagMs === null && organizations.active > 0 && state !== "paused",
  );
  const opening = sinks.filter(({ state, type }) => type !== null && state === "opening");
  if (isUnread) return "Starting: the first events are being read";
  if (opening.length > 0) return `Connecting to ${opening.map(({ name }) => name).join(", ")}`;
  return undefined;
}

/** The kinds have their sections in docs/operations.md. */
function criticalText(alarms: Facts["alarms"]): string {
  const kinds = [...new Set(alarms.map(({ kind }) => kind))].join(", ");
  return `${countText(alarms.length, "critical alarm")} (${kinds})`;
}

function headlineOf(facts: Facts, points: readonly Point[], starting: string | undefined): string {
  const lost = lostText(facts.gaps);
  if (points.length > 0) return sentences([...texts(points), ...lost]);
  const warnings = facts.alarms.length > 0 ? `, with ${countText(facts.alarms.length, "warning")}` : "";
  if (starting !== undefined) return sentences([`${starting}${warnings}`, ...lost]);
  if (warnings !== "") return sentences([`Events are arriving${warnings}`, ...lost]);
  if (facts.unreadWindows > 0)
    return sentences(["New events are arriving and being delivered; history is still being read", ...lost]);
  // Events of a refused stretch are not read, so this is not everything.
  const isEverything = facts.gaps.open === 0;
  return sentences([
    `${isEverything ? "Everything is" : "New events are"} arriving and being delivered`,
    ...lost,
  ]);
}

function sinkPoints(sink: SinkView, sinkBehindMs: number): Point[] {
  const { name, state, reason, lagEvents, lagMs, deadLetters, type } = sink;
  if (type === null) return [];
  const points: Point[] = [];
  const behind = lagEvents > 0 ? `, ${formatDuration(lagMs)} behind (${waitingText(sink)})` : "";
  if (state === "paused" || state === "stopped")
    points.push({
      health: "bad",
      text: `${name} is ${state}${behind}`,
      says: ({ kind, subject }) => subject === name && kind.endsWith(`_${state}`),
    });
  else if (lagEvents > 0 && lagMs >= sinkBehindMs)
    points.push({
      health: "degraded",
      text: `${name} is ${formatDuration(lagMs)} behind (${waitingText(sink)})`,
    });
  else if (state === "retrying")
    points.push({ health: "degraded", text: `${name} does not accept events at the moment` });
  else if (reason !== null) points.push({ health: "degraded", text: `${name} waits for its destination` });
  if (deadLetters > 0)
    points.push({
      health: "degraded",
      text: `${name} refused ${number(deadLetters)} ${events(deadLetters)}`,
    });
  return points;
}

function accountPoints(
  { name, state, liveLagMs, overdueMs }: StatusView["accounts"][number],
  alarms: Facts["alarms"],
): Point[] {
  if (state === "paused") return [pausePoint(name, alarms)];
  if (overdueMs !== null && overdueMs > OVERDUE_MS_MAX)
    return [
      {
        health: "degraded",
        text: `Some new events of ${name} have not been read for ${formatDuration(overdueMs)}`,
      },
    ];
  if (liveLagMs !== null && liveLagMs > LIVE_LAG_MS_MAX)
    return [{ health: "degraded", text: `Reading of ${name} is ${formatDuration(liveLagMs)} behind` }];
  return [];
}

function pausePoint(name: string, alarms: Facts["alarms"]): Point {
  const isOwn = ({ subject }: Facts["alarms"][number]) => subject === name;
  const isUnwritable = alarms.some((alarm) => isOwn(alarm) && alarm.kind === "state_unwritable");
  const isRefused = alarms.some((alarm) => isOwn(alarm) && alarm.kind === "account_refused");
  if (isUnwritable && !isRefused)
    return {
      health: "bad",
      text: `${name} is not read because the state file cannot be written`,
      says: ({ kind }) => kind === "state_unwritable",
    };
  return {
    health: "bad",
    text: `The service refuses the account ${name}`,
    says: (alarm) => isOwn(alarm) && alarm.kind === "account_refused",
  };
}

function lostText({ gaps, durationMs, organizations, open }: Facts["gaps"]): string[] {
  const lost = `${formatDuration(durationMs)} of ${countText(organizations, "organization")} cannot be read or compared any more`;
  const refused = `The service refused ${countText(open, "time range")} when it was last asked`;
  return [...(gaps > 0 ? [lost] : []), ...(open > 0 ? [refused] : [])];
}

function weight({ health }: Point): number {
  return health === "bad" ? 1 : 0;
}

function texts(points: readonly Point[]): string[] {
  const shown = points.slice(0, POINTS_SHOWN).map(({ text }) => text);
  const left = points.length - shown.length;
  return left > 0 ? [...shown, `${countText(left, "more problem")}`] : shown;
}

function sentences(parts: readonly string[]): string {
  return parts.map((part) => `${part}.`).join(" ");
}

function countText(value: number, noun: string): string {
  return `${number(value)} ${value === 1 ? noun : `${noun}s`}`;
}

function events(value: number): string {
  return value === 1 ? "event" : "events";
}

function number(value: number): string {
  return value.toLocaleString("en");
}
