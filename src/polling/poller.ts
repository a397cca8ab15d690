import type { RosterEntry } from "../core/roster.ts";
import type { Step } from "../core/step.ts";
import { formatDuration } from "../core/time.ts";
import { createWake } from "../core/wake.ts";
import type { Window } from "../core/window.ts";
import { ask, type PollContext, timeText } from "./context.ts";
import { mergedRuns } from "./merge.ts";
import { BACKFILL, LIVE } from "./pace.ts";
import { readWindow } from "./pass.ts";
import { addHistory, type HistoryRequest, planWindows, type Scope } from "./planner.ts";
import { faultOf, meetFault, probe } from "./refusals.ts";
import type { Fault } from "./source.ts";
import { sweepWindow } from "./sweep.ts";

export interface PollerOptions {
  readonly context: PollContext;
  /** The organizations that exist now; null: the key's own. */
  discover(signal: AbortSignal): Promise<readonly { readonly id: string; readonly name: string }[] | null>;
  readonly provider: string | null;
  readonly discoveryMs: number;
  /** When the live windows are polled next, given that they were polled now. */
  nextPollMs(nowMs: number): number;
  readonly workers: number;
}

const LATER_MS_MIN = 1000;
const LATER_MS_MAX = 300_000;
const ACCOUNT_PAUSE_MS_MIN = 15_000;
const ACCOUNT_PAUSE_MS_MAX = 600_000;
const MAINTENANCE_MS = 60_000;
const SMOOTHING_MS = 3_600_000;
const ALARM_MS = 48 * 3_600_000;
const STUCK_MS = 600_000;

export type WorkKind = "live" | "sweep" | "history";

/**
 * Polls one account. A step does one piece of work to its end: it polls a live window, sweeps one, reads a
 * piece of history, or brings the plan up to date. Several steps may run at once; no two touch one window.
 */
export function createPoller(options: PollerOptions) {
  const { context } = options;
  const { account, journal, roster, clock, serviceClock, alarms, log, settings } = context;
  const running = new Set<number>();
  const runningStreams = new Map<number, number>();
  const later = new Map<number, { untilMs: number; failures: number }>();
  const polledMs = new Map<number, number>();
  const swept = new Set<number>();
  let planDueMs = 0;
  let planning: Promise<void> | undefined;
  let discoveredMs = Number.NEGATIVE_INFINITY;
  let maintainedMs = 0;
  let smoothedMs = clock.now();
  let accountPause: { untilMs: number; waitMs: number } | undefined;
  let canary: string | undefined;
  let oldestUnread: { id: number; sinceMs: number } | undefined;
  const wake = createWake(clock);

  const stepOf =
    (kinds: readonly WorkKind[]): Step =>
    async (signal) => {
      if (accountPause !== undefined && clock.now() < accountPause.untilMs) return "idle";
      if (clock.now() >= planDueMs) await plan(signal);
      await maintain(signal);
      for (const kind of kinds) {
        const window = await pick(kind);
        if (window !== undefined) {
          await work(kind, window, signal);
          return "again";
        }
      }
      return "idle";
    };

  async function plan(signal: AbortSignal): Promise<void> {
    planning ??= planNow(signal).finally(() => {
      planning = undefined;
    });
    await planning;
  }

  async function planNow(signal: AbortSignal): Promise<void> {
    try {
      await learnTime(signal);
      const scope = await currentScope(signal);
      await planWindows(context, scope);
      planDueMs = clock.now() + options.discoveryMs;
      accountPause = undefined;
      alarms.clear("account_refused", account);
    } catch (error) {
      if (signal.aborted) throw error;
      const fault = faultOf(context, error);
      if (fault.kind === "bug") throw error;
      pauseAccount(fault);
    }
  }

  /** The service's time is known before anything is planned by it; a wrong local clock shows in the error's Date too. */
  async function learnTime(signal: AbortSignal): Promise<void> {
    if (serviceClock.known) return;
    const query = {
      service: settings.services,
      startTime: timeText(clock.now() - 86_400_000),
      limit: 1,
      sort: "ASC" as const,
    };
    const scope =
      options.provider !== null ? { provider: options.provider } : await firstOrganization(signal);
    try {
      (await ask(context, query, scope, undefined, LIVE, signal)).discard();
    } catch (error) {
      if (signal.aborted || !serviceClock.known) throw error;
    }
  }

  async function firstOrganization(signal: AbortSignal) {
    const known = roster.list(account).find((entry) => entry.state === "active");
    const first = known ?? (await options.discover(signal))?.[0];
    return first === undefined ? {} : { organizations: [first.id.toLowerCase()] };
  }

  async function currentScope(signal: AbortSignal): Promise<Scope> {
    if (clock.now() - discoveredMs < options.discoveryMs) return scopeFrom(roster.list(account));
    const found = await options.discover(signal);
    discoveredMs = clock.now();
    if (found === null) {
      noOrganizations = true;
      return { organizations: null, provider: options.provider };
    }
    noOrganizations = false;
    const known = new Map(roster.list(account).map((entry) => [entry.id, entry]));
    roster.seen(account, found, clock.now());
    const ids = new Set(found.map(({ id }) => id.toLowerCase()));
    const vanished = [...known.values()]
      .filter((entry) => !ids.has(entry.id) && entry.state !== "vanished")
      .map((entry) => entry.id);
    if (vanished.length > 0) {
      roster.setState(
        account,
        vanished,
        "vanished",
        "the service no longer lists it, or the config leaves it out",
        null,
      );
      log.warn(
        { account, organizations: vanished.slice(0, 20), count: vanished.length },
        "Organizations are gone from the list.",
      );
    }
    const fresh = [...ids].filter((id) => !known.has(id));
    if (fresh.length > 0) log.info({ account, count: fresh.length }, "Organizations joined.");
    return scopeFrom(roster.list(account));
  }

  let noOrganizations = false;
  function scopeFrom(entries: readonly RosterEntry[]): Scope {
    return { organizations: noOrganizations ? null : entries, provider: options.provider };
  }

  /** Chooses and marks in one go, so that no two steps choose the same window. */
  async function pick(kind: WorkKind): Promise<Window | undefined> {
    const window = choose(kind, await candidates(kind));
    if (window !== undefined) running.add(window.id);
    return window;
  }

  function candidates(kind: WorkKind): Promise<readonly Window[]> {
    if (kind === "live") return liveWindows();
    if (kind === "history") return journal.windows({ account, states: ["unread"], live: false });
    const limit = running.size + later.size + 1;
    return journal.windows({ account, states: ["read", "sealed"], dueMs: serviceClock.now(), limit });
  }

  function choose(kind: WorkKind, windows: readonly Window[]): Window | undefined {
    const free = windows.filter(
      (window) => !running.has(window.id) && (later.get(window.id)?.untilMs ?? 0) <= clock.now(),
    );
    if (kind === "sweep") return free[0];
    if (kind === "history") return fairest(settings.order === "newest_first" ? free.reverse() : free);
    return free
      .filter((window) => nextPollOf(window) <= clock.now())
      .sort((a, b) => nextPollOf(a) - nextPollOf(b))[0];
  }

  async function liveWindows(): Promise<readonly Window[]> {
    return journal.windows({ account, live: true });
  }

  function nextPollOf(window: Window): number {
    const polled = polledMs.get(window.stream.id);
    return polled === undefined ? 0 : options.nextPollMs(polled);
  }

  /** The stream with the fewest windows under way comes first, so that no organization waits for another's history. */
  function fairest(windows: readonly Window[]): Window | undefined {
    let best: Window | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const window of windows) {
      const under = runningStreams.get(window.stream.id) ?? 0;
      if (under < least) [best, least] = [window, under];
      if (least === 0) break;
    }
    return best;
  }

  async function work(kind: WorkKind, window: Window, signal: AbortSignal): Promise<void> {
    runningStreams.set(window.stream.id, (runningStreams.get(window.stream.id) ?? 0) + 1);
    const startedMs = clock.now();
    try {
      if (kind === "live") await readWindow(context, window, LIVE, signal);
      else if (kind === "sweep") await sweepWindow(context, window, signal);
      else await readHistory(window, signal);
      succeeded(window);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      await failed(window, error, signal);
    } finally {
      if (kind === "live") polledMs.set(window.stream.id, startedMs);
      if (kind === "sweep") swept.add(window.stream.id);
      running.delete(window.id);
      runningStreams.set(window.stream.id, runningStreams.get(window.stream.id)! - 1);
      wake.wake();
    }
  }

  /** What the service has forgotten before its first whole pass is a gap, never "0 of 0" (R5). */
  async function readHistory(window: Window, signal: AbortSignal): Promise<void> {
    const horizonMs = serviceClock.now() - settings.retentionMs;
    if (window.fromMs >= horizonMs || window.pass !== null)
      return readWindow(context, window, BACKFILL, signal);
    const toMs = Math.min(window.toMs, horizonMs);
    const reason = "the service had forgotten it before it was read";
    const expired: Window = { ...window, toMs, state: "expired", reason, nextMs: null };
    const { id: _, ...rest } = { ...window, fromMs: toMs };
    await journal.changeWindows({ put: [expired], add: toMs < window.toMs ? [rest] : [] });
    alarms.raise({
      kind: "expired",
      subject: account,
      message: `The service forgot events from ${timeText(window.fromMs)} to ${timeText(toMs)} before they were read.`,
      remedy:
        "This stretch is a gap. Shorten `since`, or find out from the log why it could not be read in time.",
      severity: "critical",
    });
  }

  function succeeded(window: Window): void {
    later.delete(window.id);
    alarms.clear("window_failing", subjectOf(window));
    if (window.stream.organizations.length === 1) canary = window.stream.organizations[0];
    else canary ??= window.stream.organizations[0];
    if (accountPause !== undefined) {
      accountPause = undefined;
      alarms.clear("account_refused", account);
    }
  }

  async function failed(window: Window, error: unknown, signal: AbortSignal): Promise<void> {
    if (isDiskTrouble(error)) return diskTrouble(error);
    const consequence = await meetFault(context, window.id, error, { organization: canary }, signal);
    log.debug(
      { account, window: window.id, consequence: consequence.next, err: error },
      "A window could not be read.",
    );
    switch (consequence.next) {
      case "again":
        return;
      case "replan":
        planDueMs = 0;
        return;
      case "account":
        return pauseAccount(consequence.fault);
      case "later":
        return wait(window, error);
    }
  }

  function wait(window: Window, error: unknown): void {
    const failures = (later.get(window.id)?.failures ?? 0) + 1;
    const waitMs =
      Math.min(LATER_MS_MAX, LATER_MS_MIN * 2 ** Math.min(failures - 1, 10)) * (0.5 + Math.random() / 2);
    later.set(window.id, { untilMs: clock.now() + waitMs, failures });
    const fault = faultOf(context, error);
    if (failures === 5) {
      alarms.raise({
        kind: "window_failing",
        subject: subjectOf(window),
        message: `Reading has failed ${failures} times in a row: ${fault.message}`,
        remedy:
          "Nothing is lost: it goes on from where it stopped. Run `tidemark check --online` to see what the service answers.",
        severity: "warning",
      });
    }
  }

  function pauseAccount(fault: Fault): void {
    const waitMs =
      fault.retryAfterMs ??
      Math.min(ACCOUNT_PAUSE_MS_MAX, (accountPause?.waitMs ?? ACCOUNT_PAUSE_MS_MIN / 2) * 2);
    accountPause = { untilMs: clock.now() + waitMs, waitMs };
    planDueMs = 0;
    alarms.raise({
      kind: "account_refused",
      subject: account,
      message: fault.message,
      remedy:
        "Run `tidemark check --online`: it tells a wrong key, role, region, organization and entitlement apart. Nothing is lost while the service still holds the events.",
      severity: "critical",
    });
  }

  function diskTrouble(error: unknown): void {
    accountPause = { untilMs: clock.now() + 5000, waitMs: ACCOUNT_PAUSE_MS_MIN };
    alarms.raise({
      kind: "state_unwritable",
      subject: account,
      message: `The state file cannot be written: ${(error as Error).message}.`,
      remedy:
        "Free disk space or mend the file system; polling goes on by itself and nothing is lost while the service holds the events.",
      severity: "critical",
    });
  }

  async function maintain(signal: AbortSignal): Promise<void> {
    if (clock.now() - maintainedMs < MAINTENANCE_MS) return;
    maintainedMs = clock.now();
    alarms.clear("state_unwritable", account);
    const smoothing = clock.now() - smoothedMs >= SMOOTHING_MS;
    roster.flush(account, smoothing ? (clock.now() - smoothedMs) / SMOOTHING_MS : undefined);
    if (smoothing) smoothedMs = clock.now();
    if (swept.size > 0) {
      for (const stream of swept) {
        const change = mergedRuns(await journal.windows({ stream, states: ["sealed"] }), settings);
        if ((change.put?.length ?? 0) > 0) await journal.changeWindows(change);
      }
      swept.clear();
    }
    await warnOfLoss();
    await retryRefused(signal);
  }

  /** An unread stretch that nears the service's retention is an alarm with a countdown. */
  async function warnOfLoss(): Promise<void> {
    const [oldest] = await journal.windows({ account, states: ["unread", "refused"], live: false, limit: 1 });
    const leftMs =
      oldest === undefined ? undefined : oldest.fromMs + settings.retentionMs - serviceClock.now();
    if (oldest?.id !== oldestUnread?.id) oldestUnread = oldest && { id: oldest.id, sinceMs: clock.now() };
    // A first read begins at the horizon: what is being read at a good pace is no cause for alarm.
    const stuck = oldestUnread !== undefined && clock.now() - oldestUnread.sinceMs > STUCK_MS;
    if (oldest === undefined || !stuck || leftMs! > ALARM_MS) return alarms.clear("loss_near", account);
    alarms.raise({
      kind: "loss_near",
      subject: account,
      message: `Events from ${timeText(oldest.fromMs)} on are unread, and the service forgets them in ${formatDuration(Math.max(0, leftMs!))}.`,
      remedy:
        oldest.reason === null
          ? "See the other alarms: something keeps this stretch from being read."
          : `Refused: ${oldest.reason}.`,
      severity: leftMs! < ALARM_MS / 4 ? "critical" : "warning",
    });
  }

  async function retryRefused(signal: AbortSignal): Promise<void> {
    const due = roster
      .list(account)
      .filter((entry) => entry.state === "refused" && (entry.nextMs ?? 0) <= clock.now());
    for (const entry of due.slice(0, 20)) {
      const stream = await journal.stream({
        account,
        provider: null,
        organizations: [entry.id],
        services: settings.services,
      });
      const nowMs = serviceClock.now();
      const fault = await probe(
        context,
        { stream, fromMs: nowMs - 3_600_000, toMs: nowMs },
        [entry.id],
        signal,
      );
      if (fault === undefined) {
        roster.setState(account, [entry.id], "active", null, null);
        alarms.clear("organization_refused", `${account}/${entry.id}`);
        planDueMs = 0;
      } else {
        roster.setState(account, [entry.id], "refused", fault.message, clock.now() + 3_600_000);
      }
    }
  }

  function subjectOf(window: Window): string {
    return `${account}/${window.stream.organizations[0] ?? window.stream.provider ?? ""}`;
  }

  async function loop(kinds: readonly WorkKind[], signal: AbortSignal): Promise<void> {
    const step = stepOf(kinds);
    while (!signal.aborted) {
      const mark = wake.mark();
      if ((await step(signal)) === "again") continue;
      await wake.waitSince(mark, idleMs(), signal);
    }
  }

  /** Until the next poll is due; sweeps and plans can wait as long. */
  function idleMs(): number {
    const nextMs = Math.min(
      ...[...polledMs.values()].map((polled) => options.nextPollMs(polled)),
      clock.now() + 1000,
    );
    return Math.max(20, Math.min(1000, nextMs - clock.now()));
  }

  return {
    /** One piece of work, the most urgent first. */
    step: stepOf(["live", "sweep", "history"]),
    /** Works until the signal aborts: some workers for what is new, the rest for everything. */
    async run(signal: AbortSignal): Promise<void> {
      const urgent = Math.max(1, Math.floor(options.workers / 4));
      const loops = Array.from({ length: Math.max(2, options.workers) }, (_, worker) =>
        loop(worker < urgent ? ["live", "sweep"] : ["live", "sweep", "history"], signal),
      );
      await settled(loops, signal);
    },
    /** Reads everything up to now, once, and sweeps what is due. Rejects when the account is refused. */
    async once(signal: AbortSignal): Promise<void> {
      await plan(signal);
      const loops = Array.from({ length: options.workers }, () => drain(signal));
      await settled(loops, signal);
      roster.flush(account);
    },
    /** Adds windows for a one-off stretch; gives how many. */
    async addHistory(request: HistoryRequest, signal: AbortSignal): Promise<number> {
      await learnTime(signal);
      const count = await addHistory(context, await currentScope(signal), request);
      wake.wake();
      return count;
    },
    planNow: () => {
      planDueMs = 0;
      discoveredMs = Number.NEGATIVE_INFINITY;
      wake.wake();
    },
    status: () => ({
      pausedUntilMs: accountPause?.untilMs ?? null,
      clockOffsetMs: serviceClock.offsetMs,
      pace: context.pace.statistics(),
    }),
  };

  async function drain(signal: AbortSignal): Promise<void> {
    const step = stepOf(["live", "history", "sweep"]);
    for (;;) {
      signal.throwIfAborted();
      const mark = wake.mark();
      if (accountPause !== undefined)
        throw new AccountRefusedError(
          alarms.list().find((alarm) => alarm.subject === account)?.message ?? "The account is refused.",
        );
      if (await allPolled()) {
        if ((await stepOf(["history", "sweep"])(signal)) === "again") continue;
        if (running.size === 0 && later.size === 0) return;
      } else if ((await step(signal)) === "again") {
        continue;
      }
      await wake.waitSince(mark, 200, signal);
    }
  }

  async function allPolled(): Promise<boolean> {
    return (await liveWindows()).every((window) => polledMs.has(window.stream.id));
  }
}

/** `run --once` cannot go on: the service refuses the account. */
export class AccountRefusedError extends Error {
  override readonly name = "AccountRefusedError";
}

/** Waits for all loops; the first failure stops the others. */
async function settled(loops: readonly Promise<void>[], signal: AbortSignal): Promise<void> {
  const results = await Promise.allSettled(loops);
  const failure = results.find((result) => result.status === "rejected" && result.reason !== signal.reason);
  if (failure?.status === "rejected") throw failure.reason;
}

function isDiskTrouble(error: unknown): boolean {
  return /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN)/.test((error as { code?: string } | null)?.code ?? "");
}

export type Poller = ReturnType<typeof createPoller>;
