import { isDiskTrouble } from "../core/errors.ts";
import { PlaceTakenError } from "../core/page-gate.ts";
import type { Step } from "../core/step.ts";
import { createWake } from "../core/wake.ts";
import { StaleWindowError } from "../core/window.ts";
import { type PollContext, subjectOf } from "./context.ts";
import { createFailingAlarm } from "./failing-alarm.ts";
import { createPause } from "./pause.ts";
import { type AgendaOptions, createAgenda, type Work } from "./plan/agenda.ts";
import { createDiscovery, type DiscoveryOptions } from "./plan/discovery.ts";
import { addHistory, type HistoryRequest } from "./plan/missing-windows.ts";
import { planWindows } from "./plan/plan-windows.ts";
import { compareAgain, type ReconcileRequest, reopenRefused } from "./plan/reconcile-windows.ts";
import { createUpkeep } from "./plan/upkeep.ts";
import type { FaultConsequence } from "./read/isolate.ts";
import { meetFault } from "./read/meet-fault.ts";
import { recallOrder } from "./read/order.ts";
import { createCanaries, faultIn } from "./read/probe.ts";
import type { SourceFault } from "./read/source.ts";
import { doWork } from "./read/work.ts";
import { type SideBySide, workSideBySide } from "./side-by-side.ts";
import { turnOf } from "./turn.ts";

export interface PollerOptions extends DiscoveryOptions, AgendaOptions {
  readonly context: PollContext;
}

const IDLE_MS_MAX = 1000;
/** `run --once` gives a window up after so many failures in a row. */
const FAILURES_ONCE_MAX = 8;

/**
 * Polls one account. turn.ts decides what is next; agenda.ts chooses the window; meet-fault.ts decides what
 * follows from a failure; pause.ts holds the account's pause. Here these decisions are carried out:
 *
 * 1. plan and upkeep, when they are due;
 * 2. one piece of work: poll a live window, sweep one, or read a piece of history, to its end;
 * 3. success ends the pause and clears the window's alarm; a failure has its consequence.
 *
 * Several pieces may be under way at once; no two touch one window.
 */
export function createPoller(options: PollerOptions) {
  const { context } = options;
  const { account, clock, serviceClock, alarms, log } = context;
  const agenda = createAgenda(context, options);
  const discovery = createDiscovery(context, options);
  const upkeep = createUpkeep(context, agenda.isRunning);
  const canaries = createCanaries();
  const wake = createWake(clock);
  const piecesMax = options.workers + Math.ceil(options.workers / 4);
  const pause = createPause(context);
  const failing = createFailingAlarm(context, agenda.failing);
  let active: ReadonlySet<string> = new Set();
  let planDueMs = 0;
  let planning: Promise<void> | undefined;
  let hasPlan = false;
  let upkeptMs = Number.NEGATIVE_INFINITY;
  let givesUp = false;

  const turn = () =>
    turnOf({ pausedUntilMs: pause.untilMs, planDueMs, hasPlan, upkeptMs }, clock.now(), options.discoveryMs);

  const step: Step = async (signal) => {
    await prepare(signal);
    const work = pause.isOver ? await agenda.next() : undefined;
    if (work === undefined) return "idle";
    await perform(work, signal);
    return "again";
  };

  /** Plan and upkeep, where they are due. */
  async function prepare(signal: AbortSignal): Promise<void> {
    if (serviceClock.hasFallenBack()) planDueMs = 0;
    const isPlanDue = turn() === "plan";
    if (isPlanDue) await plan(signal);
    const next = turn();
    try {
      if (next === "upkeep") await keepUp(signal);
      // The plan was refused: the hours until events are lost are counted all the same.
      else if (next === "paused" && isPlanDue) await upkeep.warnings();
    } catch (error) {
      if (signal.aborted || !isDiskTrouble(error)) throw error;
      pause.forDisk(error);
    }
  }

  async function keepUp(signal: AbortSignal): Promise<void> {
    upkeptMs = clock.now();
    await upkeep.turn();
    pause.wrote();
    if (await discovery.refused.retryDue(signal, givesUp)) await plan(signal);
  }

  /** A person asks for a look: they may have repaired what the service refused, or have another plan. */
  function hurryRefused(): void {
    context.learned.historyAges.clear();
    discovery.refused.hurry();
    upkeptMs = Number.NEGATIVE_INFINITY;
  }

  function plan(signal: AbortSignal): Promise<void> {
    planning ??= planNow(signal).finally(() => {
      planning = undefined;
      wake.wake();
    });
    return planning;
  }

  async function planNow(signal: AbortSignal): Promise<void> {
    planDueMs = clock.now() + options.discoveryMs;
    try {
      if (!hasPlan) await recallOrder(context);
      const scope = await discovery.scope(signal);
      active = new Set(
        (scope.organizations ?? []).filter(({ state }) => state === "active").map(({ id }) => id),
      );
      await planWindows(context, scope);
      await agenda.planned();
      await failing.planned();
      hasPlan = true;
      pause.end("plan");
    } catch (error) {
      if (signal.aborted) throw error;
      // A window was finished while the plan was made of it.
      if (error instanceof StaleWindowError) planDueMs = 0;
      else if (isDiskTrouble(error)) {
        // Planned again when there is space, not at the next discovery.
        planDueMs = 0;
        pause.forDisk(error);
      } else {
        const fault = faultIn(context, error);
        if (fault.kind === "bug") throw error;
        pauseAccount(fault, "plan");
      }
    }
  }

  async function perform(work: Work, signal: AbortSignal): Promise<void> {
    const startedMs = clock.now();
    try {
      if (work.kind !== "live") await discovery.refreshTime(signal);
      await doWork(context, work, active, signal);
      if (work.kind === "sweep") upkeep.swept(work.window.stream.id);
      succeeded(work, startedMs);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      await failed(work, error, signal);
    } finally {
      agenda.finished(work);
      wake.wake();
    }
  }

  function succeeded(work: Work, startedMs: number): void {
    agenda.succeeded(work, startedMs);
    failing.worked(work.window.stream);
    canaries.worked(work.window.stream.organizations);
    pause.end("read");
    pause.wrote(work);
  }

  async function failed(work: Work, error: unknown, signal: AbortSignal): Promise<void> {
    if (error instanceof PlaceTakenError) return agenda.postponed(work);
    agenda.hasFailed(work);
    if (isDiskTrouble(error)) return pause.forDisk(error, work);
    const failures = agenda.failures(work) + 1;
    const consequence = await meetFault(context, work.window.id, error, failures, canaries, signal).catch(
      unmetFault,
    );
    log.debug(
      { window: work.window.id, consequence: consequence.next, err: error },
      "A window could not be read.",
    );
    switch (consequence.next) {
      case "disk":
        return pause.forDisk(consequence.error, work);
      case "replan":
        planDueMs = 0;
        return agenda.changed(work.window);
      case "again":
        return agenda.goesOn(work.window);
      case "account":
        return pauseAccount(consequence.fault, "read");
      case "soon":
      case "later":
        return warnOfFailures(
          work,
          agenda.failed(work, consequence.next === "later"),
          faultIn(context, error),
        );
    }
  }

  function warnOfFailures({ window }: Work, failures: number, fault: SourceFault): void {
    if (givesUp && failures >= FAILURES_ONCE_MAX)
      throw new AccountRefusedError(`${subjectOf(context, window.stream)} cannot be read: ${fault.message}`);
    failing.failed(window.stream, failures, fault);
  }

  /** The first thing after the pause is a new plan. */
  function pauseAccount(fault: SourceFault, cause: "plan" | "read"): void {
    pause.forAccount(fault, cause);
    planDueMs = 0;
  }

  function idleMs(underWay: number): number {
    if (underWay >= piecesMax) return IDLE_MS_MAX;
    return pause.isOver ? agenda.idleMs() : Math.min(IDLE_MS_MAX, pause.untilMs! - clock.now());
  }

  async function nextWork(signal: AbortSignal, fail: (error: unknown) => void): Promise<Work | "idle"> {
    if (!pause.isOver) return "idle";
    // Work of the old plan goes on while the next one is made.
    const preparing = prepare(signal);
    if (!hasPlan) await preparing;
    else preparing.catch(fail);
    return pause.isOver ? ((await agenda.next()) ?? "idle") : "idle";
  }

  async function nextOnce(signal: AbortSignal): Promise<Work | "idle" | "done"> {
    await prepare(signal);
    if (pause.untilMs !== null) throw new AccountRefusedError(refusalOf());
    const work = await agenda.next(true);
    if (work !== undefined) return work;
    const isPlanned = hasPlan && turn() !== "plan";
    return agenda.running === 0 && agenda.waiting === 0 && isPlanned ? "done" : "idle";
  }

  function refusalOf(): string {
    return alarms.list().find(({ subject }) => subject === account)?.message ?? "The account is refused.";
  }

  function sideBySide(signal: AbortSignal, next: SideBySide<Work>["next"]): Promise<void> {
    return workSideBySide(
      { next, perform: (work: Work) => perform(work, signal), idleMs, piecesMax, wake },
      signal,
    );
  }

  return {
    /** One piece of work, the most urgent first. */
    step,
    /** Works until the signal aborts: some workers for what is new, the rest for everything. */
    run: (signal: AbortSignal) => sideBySide(signal, (fail) => nextWork(signal, fail)),
    /** Reads everything up to now, once, and sweeps what is due. Rejects when the account is refused. */
    async once(signal: AbortSignal): Promise<void> {
      planDueMs = 0;
      hurryRefused();
      givesUp = true;
      await sideBySide(signal, () => nextOnce(signal));
      discovery.refused.requireAnswers();
    },
    /** Adds windows for a one-off stretch and reopens refused ones inside it; gives how many. */
    async addHistory(request: HistoryRequest, signal: AbortSignal): Promise<number> {
      const scope = await discovery.scope(signal);
      context.learned.historyAges.clear();
      const reopened = request.reader === null ? await reopenRefused(context, request) : 0;
      const count = reopened + (await addHistory(context, scope, request));
      wake.wake();
      return count;
    },
    /** Makes the windows of a stretch due to be compared with the service again; gives how many. */
    async reconcile(request: ReconcileRequest, signal: AbortSignal): Promise<number> {
      await discovery.scope(signal);
      hurryRefused();
      const count = await compareAgain(context, request, agenda.isRunning);
      wake.wake();
      return count;
    },
    planNow: () => {
      planDueMs = 0;
      hurryRefused();
      discovery.expire();
      wake.wake();
    },
    /** Ends the timers of its limiter. */
    stop: () => context.pace.stop(),
    status: () => ({
      pausedUntilMs: pause.untilMs,
      clockOffsetMs: serviceClock.offsetMs,
      ...agenda.polls(),
      pace: context.pace.statistics(),
    }),
  };
}

/** The consequence could not be written, or another step changed the window meanwhile: then the plan is made anew. */
function unmetFault(error: unknown): FaultConsequence | { readonly next: "disk"; readonly error: unknown } {
  if (error instanceof StaleWindowError) return { next: "replan" };
  if (isDiskTrouble(error)) return { next: "disk", error };
  throw error;
}

/** `run --once` cannot go on: the service refuses the account, or something cannot be read. */
class AccountRefusedError extends Error {
  override readonly name = "AccountRefusedError";
}

export type Poller = ReturnType<typeof createPoller>;
