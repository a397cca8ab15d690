import type { App } from "../../app.ts";
import { createSelfFence, type FenceInstant, instantNow } from "../../cluster/self-fence.ts";
import { aroundCommits, type Changelog, FencedError, LostLogError } from "../../core/changelog.ts";
import { UsageError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import { pause } from "../../core/pause.ts";
import { DamagedStateError, damaged, type State } from "../../journal/database.ts";
import { type LaneOptions, NewerLaneError } from "../../journal/replication/bring-up.ts";
import { type OpenedLane, openLane } from "../../journal/replication/open.ts";
import { carryOutRequests } from "../requests.ts";
import { MisplacedSinksError } from "../sinks.ts";
import type { LaneParts, SharedLaneParts } from "./lane-parts.ts";

/*
 * One lane on one machine. States:
 *   opening   its log is taken and replayed into its file
 *   running   its app works
 *   waiting   it ended, and is opened again: after a fence only when the group has confirmed since that it is ours. Where
 *             its file was found damaged, that is built anew from the log
 *   stopped   a person has to decide, or another machine has to take it. Where the sinks of the config do not match the
 *             lane's positions (R14), it is open for requests to rename or forget a sink, and opened again after one
 */

export type LaneState = "opening" | "running" | "waiting" | "stopped";

export interface LaneStatus {
  readonly lane: number;
  readonly state: LaneState;
  readonly sinceMs: number;
  /** Records that were replayed so far, or at the last opening. */
  readonly records: number;
  readonly replay?: "continued" | "rebuilt" | undefined;
  readonly sequence?: number | undefined;
  readonly reason?: string | undefined;
  /** How often in a row it ran here and was lost within seconds, though no other machine took it. */
  readonly failures?: number | undefined;
  /** Also while it is stopped, where it is open for repairs. */
  readonly app?: App | undefined;
}

export interface LaneRunnerOptions {
  readonly lane: number;
  readonly file: string;
  readonly machine: string;
  readonly changelog: Changelog;
  readonly sessionTimeoutMs: number;
  readonly division?: LaneOptions["division"];
  /** The first wait before a lane that was lost is opened again. */
  readonly againMs?: number;
  readonly log: Log;
  readonly shared: SharedLaneParts;
  openApp(parts: LaneParts, repairing: boolean): Promise<App>;
  /** Sends the outcome of a request to the machine that asked (C3). */
  readonly answer: LaneParts["answer"];
  /** Called with every change of the status; `isNew` where the state has changed. */
  changed(status: LaneStatus, isNew: boolean): void;
  /** The lane is no longer this machine's. */
  closed?(): void;
  /** Another machine has taken the lane. */
  fenced(): void;
  /** A lane has this schema, which this program does not know. */
  tooNew(error: NewerLaneError): void;
}

export interface LaneRunner {
  readonly status: LaneStatus;
  /** The group confirms the assignment: a heartbeat of this time succeeded, or a new assignment came. */
  confirm(at: FenceInstant): void;
  close(): Promise<void>;
}

const DROP_BODIES_MS = 30_000;
const AGAIN_MS = 1000;
const STOPPED_MS = 60_000;
/** A lane that is lost sooner after it began to run is failing: it is opened again more and more slowly. */
const STEADY_MS = 30_000;
const FAILING_MS_MAX = 10_000;

export function runLane(options: LaneRunnerOptions): LaneRunner {
  const closing = new AbortController();
  const fence = createSelfFence(options.sessionTimeoutMs / 3);
  let status: LaneStatus = { lane: options.lane, state: "opening", sinceMs: Date.now(), records: 0 };
  /** After a fence: the moment after which the group has to confirm. */
  let fencedAt: FenceInstant | undefined;
  let failures = 0;
  /** The file was found damaged: the next life builds it anew. */
  let anew = false;
  let steady: NodeJS.Timeout | undefined;

  function set(next: Partial<LaneStatus>): void {
    const isNew = next.state !== undefined && next.state !== status.state;
    status = {
      ...{ ...status, reason: undefined, failures, ...next },
      sinceMs: isNew ? Date.now() : status.sinceMs,
    };
    if (isNew) watchSteady();
    options.changed(status, isNew);
  }

  /** A lane that has run for a while is no longer failing. */
  function watchSteady(): void {
    clearTimeout(steady);
    if (status.state !== "running" || failures === 0) return;
    steady = setTimeout(() => {
      failures = 0;
      set({});
    }, STEADY_MS);
    steady.unref();
  }

  async function live(): Promise<void> {
    while (!closing.signal.aborted) {
      const error = await oneLife({ ...options, anew }, fence, closing.signal, set).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      if (closing.signal.aborted) return;
      if (status.state === "running")
        failures = isFence(error) || Date.now() - status.sinceMs > STEADY_MS ? 0 : failures + 1;
      await wait(error);
    }
  }

  async function wait(error: unknown): Promise<void> {
    const damage = damaged(options.file, error);
    anew = damage instanceof DamagedStateError;
    if (damage instanceof DamagedStateError) logDamagedCopy(options.log, [damage.what]);
    const reason = reasonOf(damage);
    if (isFence(error)) {
      options.fenced();
      fencedAt = instantNow();
      set({ state: "waiting", reason, app: undefined });
      while (fencedAt !== undefined && !closing.signal.aborted) await pause(AGAIN_MS / 10, closing.signal);
      return;
    }
    if (error instanceof NewerLaneError) options.tooNew(error);
    const isFinal = !anew && (error instanceof LostLogError || error instanceof UsageError);
    set({ state: isFinal ? "stopped" : "waiting", reason, app: undefined });
    if (error instanceof MisplacedSinksError) return repair(reason);
    const { againMs: firstMs = AGAIN_MS } = options;
    const againMs = Math.min(FAILING_MS_MAX, firstMs * 2 ** Math.max(0, failures - 1));
    await pause(isFinal ? STOPPED_MS : againMs, closing.signal);
  }

  /** Opens the lane for requests alone, until one was carried out or it is time to try again. */
  async function repair(reason: string): Promise<void> {
    try {
      await oneLife(
        options,
        fence,
        closing.signal,
        (next) => set({ ...next, state: "stopped", reason }),
        true,
      );
    } catch (error) {
      if (isFence(error)) return wait(error);
      await pause(AGAIN_MS, closing.signal);
    }
  }

  const done = live();
  return {
    get status() {
      return status;
    },
    confirm(at) {
      fence.confirm(at);
      if (fencedAt !== undefined && at.monotonicMs > fencedAt.monotonicMs) fencedAt = undefined;
    },
    async close() {
      closing.abort(new Error("The lane goes to another machine."));
      await done;
      clearTimeout(steady);
      options.closed?.();
    },
  };
}

/** Opens the lane, runs it until it is lost or closed, and closes it. Rejects with the reason of a loss. */
async function oneLife(
  options: LaneRunnerOptions & Pick<LaneOptions, "anew">,
  fence: ReturnType<typeof createSelfFence>,
  closing: AbortSignal,
  set: (next: Partial<LaneStatus>) => void,
  repairing = false,
): Promise<void> {
  const lost = new AbortController();
  const ended = new AbortController();
  const stop = AbortSignal.any([closing, lost.signal, ended.signal]);
  const life: { lane?: OpenedLane; app?: App } = {};
  set({ state: "opening", records: 0, app: undefined });
  const openState = async (file: string): Promise<State> => {
    const changelog = confirming(options.changelog, fence);
    const { lane, machine, division, log, anew } = options;
    life.lane = await openLane({
      ...{ file, changelog, lane, machine, division, anew, signal: stop },
      lost: (error) => lost.abort(error),
      progress: (records) => set({ state: "opening", records }),
      keptAside: (kept) =>
        log.warn({ file: kept }, "The copy of another cluster was here; it is kept under another name."),
      damagedCopy: (problems) => logDamagedCopy(log, problems),
      repaired: (rows) =>
        log.error(
          listed("repaired", rows),
          "Rows of a lane were damaged in Kafka; those that are named here are repaired. Check the memory and the disks of the machines.",
        ),
    });
    return life.lane.state;
  };
  try {
    const { shared, answer } = options;
    // A page of a file that was just built anew is damaged in Kafka too: then a person decides.
    const damagedPage = (what: string) => {
      if (life.lane?.replay.kind === "continued") lost.abort(new DamagedStateError(options.file, what));
    };
    const parts = { ...shared, openState, damagedPage, answer, beforeEffect: fence.check };
    life.app = await options.openApp(parts, repairing);
    const { replay, replica } = life.lane!;
    set({
      state: "running",
      app: life.app,
      records: replay.records,
      replay: replay.kind,
      sequence: replica.tip.sequence,
    });
    if (repairing) await carryOutRepairs(life.app, options, stop);
    else await Promise.all([life.app.run(stop), dropBodies(life.lane!, stop)]);
  } catch (error) {
    throw lost.signal.aborted ? lost.signal.reason : error;
  } finally {
    ended.abort();
    // The log first: nothing of this life is committed from here on, however long the rest takes.
    await life.lane?.close().catch(() => {});
    await life.app?.close().catch(() => {});
  }
  if (lost.signal.aborted) throw lost.signal.reason;
}

async function carryOutRepairs(
  app: App,
  { answer, log }: LaneRunnerOptions,
  stop: AbortSignal,
): Promise<void> {
  const untilMs = Date.now() + STOPPED_MS;
  const extras = { routes: [], answer };
  while (!stop.aborted && Date.now() < untilMs) {
    const isAsked = app.requests.open().length > 0;
    await carryOutRequests(app.requests, app.actions, log, stop, extras);
    if (isAsked) return;
    await pause(AGAIN_MS / 5, stop);
  }
}

/** Every commit that succeeds shows that the lane was ours when it was begun. */
function confirming(changelog: Changelog, fence: ReturnType<typeof createSelfFence>): Changelog {
  return aroundCommits(changelog, async (commit) => {
    const askedAt = instantNow();
    const committed = await commit();
    fence.confirm(askedAt);
    return committed;
  });
}

async function dropBodies(lane: OpenedLane, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(DROP_BODIES_MS, signal);
    // It only frees room in Kafka: when it fails it is tried again.
    if (!signal.aborted) await lane.dropBodies().catch(() => {});
  }
}

function isFence(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof FencedError) return true;
  return false;
}

function logDamagedCopy(log: Log, problems: readonly string[]): void {
  log.error(
    listed("damage", problems),
    "The file of a lane was damaged; it is built anew from Kafka. Check the memory and the disk of this machine.",
  );
}

const LISTED_MAX = 20;

function listed(name: string, entries: readonly string[]): Record<string, unknown> {
  return { [name]: entries.slice(0, LISTED_MAX), count: entries.length };
}

function reasonOf(error: unknown): string {
  // Its own text is for a state file that is not a copy.
  if (error instanceof DamagedStateError)
    return `The file of the lane on this machine is damaged (${error.what}); it is built anew from Kafka.`;
  return error instanceof Error ? error.message : String(error);
}
