import { DAY_MS } from "../../core/time.ts";
import type { Stream, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";

export type WorkKind = "live" | "sweep" | "history";

export interface Work {
  readonly kind: WorkKind;
  readonly window: Window;
}

export interface AgendaOptions {
  /** When a live window is polled next, given that it was polled at that time. */
  nextPollMs(polledMs: number): number;
  /** Pieces of history at once; live windows and sweeps have workers beside them. */
  readonly workers: number;
}

const LATER_MS_MIN = 1000;
const LATER_MS_MAX = 300_000;
const IDLE_MS_MIN = 20;
const IDLE_MS_MAX = 1000;
/** Among so many of the next unread windows the one is chosen whose stream is least under way. */
const CHOICE = 64;

/**
 * Chooses the next piece of work: live windows whose poll is due, windows whose sweep is due, and history, in this
 * order. Windows under way, and those that wait after a failure, are left out. Looking for work when there
 * is none costs two short queries, however many windows there are.
 */
export function createAgenda(context: PollContext, options: AgendaOptions) {
  const { account, journal, clock, serviceClock, settings } = context;
  const running = new Map<number, Work>();
  const later = new Map<number, { stream: Stream; untilMs: number; failures: number }>();
  const polledMs = new Map<number, number>();
  /** Streams that were live when they were last looked up. */
  let listed = new Set<number>();
  /** Since when streams wait for their first poll. */
  const firstDueMs = new Map<number, number>();
  let lastPolledMs: number | null = null;
  /** Polls for new events have failed since then, and none has succeeded. */
  let failingSinceMs: number | null = null;
  /** Live windows whose pass began in this process: one that began before has not seen the events that came since. */
  const begun = new Set<number>();
  let live: readonly { readonly id: number; readonly stream: number }[] | undefined;

  async function liveWindows() {
    if (live === undefined) {
      const windows = await journal.windows({ account, live: true });
      live = windows.map(({ id, stream }) => ({ id, stream: stream.id }));
      noteListed(live.map(({ stream }) => stream));
    }
    return live;
  }

  /** A stream is due when it appears. The parts of a group have been due for as long as that one. */
  function noteListed(streams: readonly number[]): void {
    const nowMs = clock.now();
    const before = listed;
    listed = new Set(streams);
    let sinceMs = Math.min(nowMs, failingSinceMs ?? nowMs);
    for (const stream of before) {
      if (listed.has(stream)) continue;
      sinceMs = Math.min(sinceMs, dueSinceMs(stream, nowMs));
      firstDueMs.delete(stream);
    }
    for (const stream of listed) if (!before.has(stream)) firstDueMs.set(stream, sinceMs);
  }

  /** A poll in the future comes from a clock that was set back. */
  function dueSinceMs(stream: number, nowMs: number): number {
    const polled = polledMs.get(stream);
    const nextMs = polled === undefined || polled > nowMs ? 0 : options.nextPollMs(polled);
    return Math.max(nextMs, firstDueMs.get(stream) ?? (nextMs || nowMs));
  }

  function isFree(id: number): boolean {
    return !running.has(id) && !isWaiting(later.get(id)?.untilMs);
  }

  /** A clock that was set back must not make anything wait for as long. */
  function isWaiting(untilMs: number | undefined): boolean {
    const leftMs = (untilMs ?? 0) - clock.now();
    return leftMs > 0 && leftMs <= LATER_MS_MAX;
  }

  /** Forgets the failures of windows that a plan has replaced since. */
  async function forgetReplaced(isToForget: (untilMs: number) => boolean): Promise<void> {
    for (const [id, { untilMs }] of later)
      if (isToForget(untilMs) && !running.has(id) && (await journal.windows({ id })).length === 0)
        later.delete(id);
  }

  function nextPollMs(stream: number): number {
    const polled = polledMs.get(stream);
    return polled === undefined || polled > clock.now() ? 0 : options.nextPollMs(polled);
  }

  async function nextLive(onceOnly: boolean): Promise<Window | undefined> {
    let best: { id: number; stream: number; dueMs: number } | undefined;
    for (const { id, stream } of await liveWindows()) {
      const dueMs = nextPollMs(stream);
      const isDue = onceOnly ? !polledMs.has(stream) : dueMs <= clock.now();
      if (isDue && isFree(id) && (best === undefined || dueMs < best.dueMs)) best = { id, stream, dueMs };
    }
    if (best === undefined) return undefined;
    const [window] = await journal.windows({ id: best.id });
    if (window?.live && window.stream.id === best.stream) return window;
    // It was replaced, and another window may have its number: polls of that one would count for another stream.
    live = undefined;
    return undefined;
  }

  async function nextSweep(): Promise<Window | undefined> {
    const limit = running.size + later.size + 1;
    const dueMs = serviceClock.earlierNow();
    const due = await journal.windows({ account, states: ["read", "sealed"], dueMs, limit });
    return due.find(({ id }) => isFree(id));
  }

  /** The stream with the fewest windows under way comes first, so that no organization waits for another's history. */
  async function nextHistory(onceOnly: boolean): Promise<Window | undefined> {
    const underWay = new Map<number, number>();
    let count = 0;
    for (const { kind, window } of running.values()) {
      if (kind !== "history") continue;
      count++;
      underWay.set(window.stream.id, (underWay.get(window.stream.id) ?? 0) + 1);
    }
    if (count >= options.workers) return undefined;
    const limit = running.size + later.size + CHOICE;
    const newestFirst = settings.order === "newest_first";
    // `run --once` cannot wait until open days settle.
    const openMs = onceOnly ? undefined : settings.oldestOpenMs?.();
    let best: Window | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const window of await journal.windows({
      account,
      states: ["unread"],
      live: false,
      newestFirst,
      limit,
    })) {
      if (openMs !== undefined && isBeyond(window, openMs, newestFirst)) continue;
      const under = underWay.get(window.stream.id) ?? 0;
      if (isFree(window.id) && under < least) [best, least] = [window, under];
    }
    return best;
  }

  /** Polls that wait for their turn take no more pieces than this, or a slow service would never be asked for history. */
  function isFullOfNew(): boolean {
    let count = 0;
    for (const { kind } of running.values()) if (kind !== "history") count++;
    return count >= options.workers;
  }

  async function next(onceOnly = false): Promise<Work | undefined> {
    const finders = [
      ["live", () => nextLive(onceOnly)],
      ["sweep", nextSweep],
      ["history", () => nextHistory(onceOnly)],
    ] as const;
    for (const [kind, find] of finders) {
      if (kind !== "history" && isFullOfNew()) continue;
      const found = await find();
      // Another step may have taken it while this one was looking.
      if (found === undefined || running.has(found.id)) continue;
      running.set(found.id, { kind, window: found });
      // Upkeep merges windows that are not under way, and may have merged this one before it was marked.
      const [window] = await journal.windows({ id: found.id });
      if (window === undefined || !isSame(window, found)) {
        running.delete(found.id);
        return next(onceOnly);
      }
      const work = { kind, window };
      running.set(window.id, work);
      if (kind === "live" && window.pass === null) begun.add(window.id);
      return work;
    }
    await forgetReplaced((untilMs) => !isWaiting(untilMs));
    return undefined;
  }

  return {
    /** The most urgent piece of work, marked as under way. `onceOnly` leaves out live windows that were polled already. */
    next,

    finished({ window }: Work): void {
      running.delete(window.id);
    },

    succeeded({ window }: Work, startedMs: number): void {
      later.delete(window.id);
      if (!begun.delete(window.id)) return;
      polledMs.set(window.stream.id, startedMs);
      firstDueMs.delete(window.stream.id);
      lastPolledMs = startedMs;
      failingSinceMs = null;
    },

    /** A read has failed, whatever follows from it. */
    hasFailed({ kind }: Work): void {
      if (kind === "live") failingSinceMs ??= clock.now();
    },

    /** When a poll for new events last succeeded, and how long the most overdue one has been due. */
    polls(): { readonly polledMs: number | null; readonly overdueMs: number } {
      const nowMs = clock.now();
      // There is nothing to poll, as in a lane without organizations.
      if (live?.length === 0) return { polledMs: nowMs, overdueMs: 0 };
      let overdueMs = 0;
      for (const stream of listed) overdueMs = Math.max(overdueMs, nowMs - dueSinceMs(stream, nowMs));
      return { polledMs: lastPolledMs, overdueMs };
    },

    /** Failures of the window in a row so far. */
    failures: ({ window }: Work) => later.get(window.id)?.failures ?? 0,

    /** Counts a failure of the window; with `waits` it is left out for a while, longer each time. Gives the number in a row. */
    failed({ window }: Work, waits: boolean): number {
      const failures = (later.get(window.id)?.failures ?? 0) + 1;
      const waitMs = Math.min(LATER_MS_MAX, LATER_MS_MIN * 2 ** Math.min(failures - 1, 10));
      const untilMs = waits ? clock.now() + waitMs * (0.5 + Math.random() / 2) : 0;
      later.set(window.id, { stream: window.stream, untilMs, failures });
      return failures;
    },

    /** The window waits for its turn among troubled streams, which is no failure. */
    postponed({ window }: Work): void {
      const failures = later.get(window.id)?.failures ?? 0;
      const untilMs = clock.now() + LATER_MS_MIN * (0.5 + Math.random() / 2);
      later.set(window.id, { stream: window.stream, untilMs, failures });
    },

    /** Windows that have failed, and how often in a row. */
    failing: (): Iterable<{ readonly stream: Stream; readonly failures: number }> => later.values(),

    /** A plan may have replaced any window: what is known of them is looked up anew. */
    async planned(): Promise<void> {
      live = undefined;
      await forgetReplaced(() => true);
    },

    /** The window was replaced. */
    changed(replaced: Window): void {
      live = undefined;
      later.delete(replaced.id);
    },

    /** The window, or what replaced it, is tried again at once. Its failures still count: the next wait is not the shortest. */
    goesOn({ id }: Window): void {
      live = undefined;
      const known = later.get(id);
      if (known !== undefined) later.set(id, { ...known, untilMs: 0 });
    },

    isRunning: ({ id }: Window) => running.has(id),
    get running(): number {
      return running.size;
    },
    get waiting(): number {
      return later.size;
    },

    /** Until the next poll is due or a failed window has waited; sweeps can wait for a second. */
    idleMs(): number {
      const nowMs = clock.now();
      let nextMs = nowMs + IDLE_MS_MAX;
      // A live window that waits after a failure is not due, however long ago its last poll was.
      for (const { id, stream } of live ?? [])
        if (!running.has(id))
          nextMs = Math.min(nextMs, Math.max(nextPollMs(stream), later.get(id)?.untilMs ?? 0));
      for (const [id, { untilMs }] of later)
        if (!running.has(id) && untilMs > nowMs) nextMs = Math.min(nextMs, untilMs);
      return Math.max(IDLE_MS_MIN, nextMs - nowMs);
    },
  };
}

function isSame(left: Window, right: Window): boolean {
  const hasSameTime = left.fromMs === right.fromMs && left.toMs === right.toMs;
  return hasSameTime && left.stream.id === right.stream.id && left.state === right.state;
}

/**
 * With an archive, and a journal that is nearly full, no further stretch of history is begun: only windows that
 * the oldest open day and those read before it need (A4). Their days can then be closed, which frees the journal.
 */
function isBeyond({ fromMs, toMs }: Window, openMs: number, newestFirst: boolean): boolean {
  return newestFirst ? toMs <= openMs : fromMs >= openMs + DAY_MS;
}

export type Agenda = ReturnType<typeof createAgenda>;
