import { sinkConfigs } from "../app/sinks.ts";
import type { App } from "../app.ts";
import type { SinkConfig } from "../config/schema.ts";
import type { Alarm } from "../core/alarms.ts";
import { systemClock } from "../core/clock.ts";
import { explain } from "../core/errors.ts";
import type { GapTotals } from "../core/gap.ts";
import { formatDuration } from "../core/time.ts";
import { type SinkView, waitingText } from "../core/view/sinks.ts";
import { damaged } from "../journal/database.ts";
import { createGapQueries } from "../journal/gaps.ts";
import { createReadProgress, type ReadProgress } from "../journal/progress.ts";
import { createArchivesView } from "../journal/view/archives.ts";
import { createLedgerView } from "../journal/view/ledger.ts";
import type { Io } from "./io.ts";
import { showProgress } from "./progress.ts";

/**
 * Reads everything up to now, delivers it, and reports what was done and what is missing (R39). Exit code 0
 * only when everything was read and delivered: a signal, a refused account, a list of organizations that cannot be had,
 * a sink that cannot continue or a new gap gives 1. Gaps of earlier runs and organizations that the service refuses are
 * named every time. They do not fail a run: gaps are remembered for ever, and a refusal has its own alarm and may be
 * right.
 */
export async function runOnce(app: App, io: Io): Promise<void> {
  const startedMs = Date.now();
  const progress = createReadProgress(
    app.db,
    app.config.accounts.map(({ name }) => name),
  );
  const before = progress();
  const differing = createDiffering(app.db);
  const differingBefore = differing();
  const bar = io.interactive ? showProgress(io, app) : undefined;
  let failure: unknown;
  try {
    await app.once(io.signal);
  } catch (error) {
    failure = damaged(app.config.state, error);
  } finally {
    bar?.stop();
  }
  const { sinks } = await app.view.sinks();
  const after = progress();
  const { totals, alarms } = await app.view.status();
  const { gaps } = totals;
  const { short } = await createLedgerView(app.db, systemClock).survey();
  const report = reportOf(app, sinks, before, after, Date.now() - startedMs);
  // A loss may join an earlier gap, so their number tells nothing.
  const grown = createGapQueries(app.db).totals({ foundSinceMs: startedMs }).gaps;
  const lost = lostOf({ ...before, gaps: gaps.gaps - grown }, { ...after, gaps: gaps.gaps });
  const problems = [
    ...problemsOf(sinks, after, failure, io),
    ...unexplained(short - gaps.events),
    ...lost.now,
    ...messagesOf(alarms, "unordered_answers").map((message) => `Events may be missing. ${message}`),
    ...unlisted(alarms),
    ...differingText(differing() - differingBefore),
  ];
  const known = [...openOf(gaps), ...leftOf(after), ...lost.before, ...differingText(differingBefore)];
  // Which of the two clocks is wrong is not known, so this is no failure of the run.
  const clocks = messagesOf(alarms, "wrong_service_time");
  const isOutputFree = sinkConfigs(app.config).every(({ type }) => type !== "console");
  (isOutputFree ? io.stdout : io.stderr).write(
    `${[...report, ...clocks, ...missingText(problems, known, clocks.length > 0)].join("\n")}\n`,
  );
  if (problems.length > 0) io.setExitCode(1);
}

function reportOf(
  app: App,
  sinks: readonly SinkView[],
  before: ReadProgress,
  after: ReadProgress,
  tookMs: number,
): string[] {
  const configs = sinkConfigs(app.config);
  return [
    `Done in ${formatDuration(tookMs)}. Read ${count(after.events - before.events, "new event")}.`,
    ...sinks
      .filter(({ type }) => type !== null)
      .map(({ name, type, sentEvents }) => {
        const place = placeOf(configs.find((sink) => sink.name === name));
        return `  ${name} (${type}${place}): ${count(sentEvents ?? 0, "event")} delivered`;
      }),
  ];
}

/** Where a sink's events go, from the fields that destinations are named by. */
function placeOf(config: SinkConfig | undefined): string {
  const fields = (config ?? {}) as unknown as Record<string, unknown>;
  const place = ["directory", "bucket", "topic", "url", "endpoint", "host"].map((key) => fields[key]);
  const named = place.find((value) => typeof value === "string");
  return named === undefined ? "" : `, ${named as string}`;
}

function problemsOf(
  sinks: readonly SinkView[],
  { windowsUnread, windowsDoubted }: ReadProgress,
  failure: unknown,
  io: Io,
): string[] {
  const problems: string[] = [];
  if (io.signal.aborted) problems.push(`The run was ended early (${explain(io.signal.reason)}).`);
  if (failure !== undefined && !io.signal.aborted) problems.push(explain(failure));
  for (const sink of sinks) {
    const { name, type, lagEvents, state, reason } = sink;
    if (type === null || lagEvents === 0) continue;
    const why = reason === null ? "" : `: ${reason}`;
    // A stopped sink waits for a decision: another run alone changes nothing.
    const when = state === "stopped" ? "once the sink goes on" : "by the next run";
    problems.push(
      `${name} lacks ${waitingText(sink)} (${state}${why}). They are kept and delivered ${when}.`,
    );
  }
  for (const { name, deadLetters } of sinks)
    if (deadLetters > 0)
      problems.push(
        `${name} refused ${count(deadLetters, "event")}: see "tidemark dead-letters list --sink ${name}".`,
      );
  if (windowsUnread > 0)
    problems.push(`${count(windowsUnread, "time range")} could not be read; the next run tries again.`);
  if (windowsDoubted > 0)
    problems.push(
      `${count(windowsDoubted, "time range")} may lack events, because the service listed some events twice there: "tidemark reconcile --since" compares again.`,
    );
  return problems;
}

/** Missing events of windows that no gap accounts for. */
function unexplained(events: number): string[] {
  if (events <= 0) return [];
  return [
    `The service counts ${count(events, "event")} more than are held: "tidemark coverage" shows where, and "tidemark reconcile --since" compares again.`,
  ];
}

/** Accounts whose new organizations are unknown: their list could not be had. */
function unlisted(alarms: readonly Alarm[]): string[] {
  return alarms
    .filter(({ kind }) => kind === "discovery_failed")
    .map(
      ({ subject, message }) =>
        `Events of new organizations of ${subject} may be missing; the next run asks again. ${message}`,
    );
}

function messagesOf(alarms: readonly Alarm[], kind: Alarm["kind"]): string[] {
  return alarms.filter((alarm) => alarm.kind === kind).map(({ message }) => message);
}

function leftOf({ windowsLeft }: ReadProgress): string[] {
  if (windowsLeft === 0) return [];
  return [
    `${count(windowsLeft, "time range")} of accounts that are not in the config any more: not read. Put the account back to read them.`,
  ];
}

function openOf({ open, aside }: Pick<GapTotals, "open" | "aside">): string[] {
  const refused = `The service refused ${count(open, "time range")} when it was last asked: see "tidemark coverage". They are tried again.`;
  const left = `${count(aside, "time range")} of organizations that are not in the config any more, or that the service no longer lists: not read. "tidemark coverage" says up to when each was read.`;
  return [...(open > 0 ? [refused] : []), ...(aside > 0 ? [left] : [])];
}

type Lost = Pick<ReadProgress, "unattributed"> & { readonly gaps: number };

/** Everything that is lost or kept apart: since this run began, and before. */
function lostOf(before: Lost, after: Lost): { readonly now: string[]; readonly before: string[] } {
  const gapText = (gaps: number) =>
    gaps > 0 ? [`${count(gaps, "gap")}: "tidemark coverage" names organization, time and reason.`] : [];
  const apartText = (events: number) =>
    events > 0
      ? [`${count(events, "event")} of organizations that were not asked for: kept apart in the state file.`]
      : [];
  const since = (key: keyof Lost) => Math.max(0, after[key] - before[key]);
  return {
    now: [...gapText(since("gaps")), ...apartText(since("unattributed"))],
    before: [
      ...gapText(after.gaps - since("gaps")),
      ...apartText(after.unattributed - since("unattributed")),
    ],
  };
}

/** How many closed days of organizations differ from what the service says. */
function createDiffering(db: App["db"]): () => number {
  const archives = createArchivesView(db);
  return () => archives().reduce((sum, archive) => sum + archive.differing, 0);
}

function differingText(days: number): string[] {
  if (days <= 0) return [];
  return [
    `For ${count(days, "archived day")} of organizations the service returned or counted another number of events than is held: "tidemark archive verify" names them, and "tidemark reconcile --since" compares again.`,
  ];
}

function missingText(problems: readonly string[], known: readonly string[], isDoubted: boolean): string[] {
  const list = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
  if (problems.length === 0 && known.length === 0)
    return [isDoubted ? "Nothing is missing, if the service's time is right." : "Nothing is missing."];
  return [
    ...list("Missing:", problems),
    ...list("Known to be missing:", known),
    ...(problems.length === 0 ? ["Nothing else is missing."] : []),
  ];
}

function count(value: number, noun: string): string {
  return `${value.toLocaleString("en")} ${noun}${value === 1 ? "" : "s"}`;
}
