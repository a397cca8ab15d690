import { dirname, join } from "node:path";
import type { Archive } from "../archive/archive.ts";
import { differingOf } from "../archive/close/differing.ts";
import type { ArchiveConfig } from "../archive/config.ts";
import { createDeletions } from "../archive/deletion/deletion.ts";
import { openConfigured, openStore, signerOf } from "../archive/open.ts";
import type { ArchiveStore } from "../archive/store/store.ts";
import { verifyArchive } from "../archive/verify/verify.ts";
import type { Config, SinkConfig } from "../config/schema.ts";
import type { Alarms } from "../core/alarms.ts";
import type { ArchiveState } from "../core/archive.ts";
import type { PageMemory } from "../core/buffer-pool.ts";
import { type Clock, createSteadyTime } from "../core/clock.ts";
import { explain } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import { DAY_MS } from "../core/time.ts";
import type { LiveDelivery } from "../core/view.ts";
import { accountsSeeing, openArchiveState } from "../journal/archive/state.ts";
import type { State } from "../journal/database.ts";
import { createArchiveAlarms } from "./archive-alarms.ts";
import { createArchiveClock, refuseWrongTime } from "./archive-clock.ts";
import { type ArchiveOperation, carryOut } from "./archive-operations.ts";
import { guardedStore, stageInStore } from "./cluster/lane-archive.ts";
import type { LaneParts } from "./cluster/lane-parts.ts";
import { askTimeWith, type CountingAccount, countEventsWith } from "./count-events.ts";
import { eraseAccesses } from "./search-folder.ts";
import { createUnlockedRemoval } from "./unlocked-files.ts";

/*
 * An archive of the config at work. Its states:
 *
 *   closed     not opened yet, or closed after an error; the next turn opens it
 *   working    a turn of closing follows the other until one has nothing to do
 *   waiting    the store, the disk or a witness failed: an alarm says so, and it is opened again after a pause
 *   stopped    two histories, a wrong key, a foreign file: a person has to decide; tried again after ten minutes
 *
 * Nothing is lost in any of them: the journal keeps what is not closed.
 */
export interface RunningArchive {
  readonly name: string;
  readonly state: ArchiveState;
  /** Closes days until the signal ends it. `verifies`: also verifies the archive once a day. */
  run(signal: AbortSignal, options: { readonly verifies: boolean }): Promise<void>;
  /** Closes all that can be closed now; false when it had to stop, with an alarm. */
  drain(signal: AbortSignal): Promise<boolean>;
  /** Between two turns of closing. */
  change(operation: ArchiveOperation, signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
  /** As the page shows it among the sinks. */
  status(): LiveDelivery;
}

export interface ArchiveParts {
  readonly db: State;
  readonly journal: string;
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly alarms: Alarms;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly accounts: readonly CountingAccount[];
  /** Of pages. */
  readonly memory?: PageMemory | undefined;
  /** The share of the journal's budget that is used. */
  usedShare(): number;
  /** A lane of a cluster. */
  readonly lane?: Pick<LaneParts, "beforeEffect" | "closeInTurn"> | undefined;
}

const IDLE_MS = 60_000;
const RETRY_MS = 30_000;
const STOPPED_MS = 600_000;
/** From this share on, pages that only archives hold move to files of their own (A4). */
const STAGE_SHARE = 0.4;
const STAGED_PAGES = 50;
const LOOK_MS = 1000;
/** A clock that is in doubt for longer raises an alarm. */
const DOUBT_MS_MAX = 900_000;
/** While the journal is beyond that share, looking for days to close takes at most one part in so many of the time. */
const LOOK_SHARE = 10;

export function archiveConfigs(config: Config): readonly (SinkConfig & ArchiveConfig)[] {
  return (config.sinks as unknown as readonly SinkConfig[]).filter(({ type }) => type === "archive") as never;
}

/** Beside the state file: staged pages, and parts for a store without a disk of its own. */
export function archiveFolder(stateFile: string, name: string): string {
  return join(dirname(stateFile), `${name}.archive`);
}

export async function openRunningArchive(
  config: Config,
  own: SinkConfig & ArchiveConfig,
  parts: ArchiveParts,
): Promise<RunningArchive> {
  const { clock, metrics, log } = parts;
  const { name } = own;
  const alarmed = createArchiveAlarms(parts.alarms, clock, name);
  const { db, journal, retentionMs, lane, memory } = parts;
  // The lanes of a machine share a directory.
  const folder = lane === undefined ? archiveFolder(config.state, name) : `${config.state}.${name}.archive`;
  const staging = lane && stageInStore(own, clock, lane.beforeEffect);
  const stagingFolder = join(folder, "pages");
  const state = await openArchiveState(db, { name, journal, retentionMs, stagingFolder, staging, memory });
  const workFolder = join(folder, "work");
  const archiveClock = createArchiveClock(clock, () => state.confirmedMs());
  const countEvents = countEventsWith(parts.accounts, clock);
  const removeUnlocked = createUnlockedRemoval(name, clock, log);
  const askTime = askTimeWith(parts.accounts, clock);
  let opened: { archive: Archive; store: ArchiveStore } | undefined;
  let last: Promise<unknown> = Promise.resolve();

  let shown: Pick<LiveDelivery, "state" | "sinceMs" | "reason"> = {
    state: "opening",
    sinceMs: clock.now(),
    reason: null,
  };
  let closedEvents = 0;
  let lastWriteMs: number | null = null;

  function enter(to: LiveDelivery["state"], reason: string | null): void {
    shown = { state: to, sinceMs: to === shown.state ? shown.sinceMs : clock.now(), reason };
  }

  async function open(signal: AbortSignal) {
    if (opened !== undefined) return opened;
    const opening = await openStore(own.store, clock);
    const store = lane === undefined ? opening : guardedStore(opening, lane.beforeEffect);
    const looks = [alarmed.witnesses, countEvents] as const;
    const archive = await openConfigured(own, state, store, clock, workFolder, ...looks, signal);
    await deletionsOf({ archive, store }).finish(signal);
    opened = { archive, store };
    return opened;
  }

  function deletionsOf({ archive, store }: { readonly archive: Archive; readonly store: ArchiveStore }) {
    const workFolder = join(folder, "deletions");
    const seeing = { accountsSeeing: () => accountsSeeing(db) };
    return createDeletions({ archive, store, state, config: own, clock, workFolder, ...seeing });
  }

  async function close(): Promise<void> {
    await opened?.store.close();
    opened = undefined;
  }

  /** Turns and other uses take place one after the other. */
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  }

  /** Makes room in the journal; it needs no store, so a store that is away does not fill the journal. */
  async function stage(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && parts.usedShare() > STAGE_SHARE && (await state.stage(STAGED_PAGES)));
  }

  /**
   * New pages are noted and staged while there is nothing to close, or nothing can be closed. A pause of an idle
   * archive ends after `pressedMs` when the journal fills: a backfill goes on, and has sealed further days.
   */
  async function rest(waitMs: number, pressedMs: number, signal: AbortSignal): Promise<void> {
    const steadyMs = createSteadyTime(clock);
    const fromMs = steadyMs();
    const untilMs = fromMs + waitMs;
    while (!signal.aborted && steadyMs() < untilMs) {
      await clock.sleep(Math.min(LOOK_MS, untilMs - steadyMs()), signal).catch(() => {});
      if (signal.aborted || parts.usedShare() <= STAGE_SHARE) continue;
      if (steadyMs() - fromMs >= pressedMs) return;
      await inTurn(async () => {
        while (!signal.aborted && (await state.noteArrivals(STAGED_PAGES)));
        await stage(signal);
      });
    }
  }

  function turn(signal: AbortSignal): Promise<"again" | "idle"> {
    return lane === undefined ? closeOnce(signal) : lane.closeInTurn(() => closeOnce(signal), signal);
  }

  async function closeOnce(signal: AbortSignal): Promise<"again" | "idle"> {
    await stage(signal);
    const doubt = archiveClock.doubt();
    if (doubt !== undefined) {
      // After a start the first answer of the service ends it.
      if (doubt.lastsMs >= DOUBT_MS_MAX) throw doubt.error;
      return "idle";
    }
    const { archive, store } = await open(signal);
    const before = state.head()?.size ?? 0;
    const result = await archive.closeStep(signal);
    if (result === "idle") await removeUnlocked(deletionsOf({ archive, store }));
    count(archive, before);
    alarmed.worked();
    enter("running", null);
    return result;
  }

  function count(archive: Archive, before: number): void {
    alarmed.differing(differingOf(state), retentionMs);
    if ((state.head()?.size ?? 0) === before) return;
    lastWriteMs = clock.now();
    for (const leaf of archive.leaves().slice(before)) {
      if (!("events" in leaf)) continue;
      closedEvents += leaf.events;
      metrics.add("tidemark_archive_closed_events_total", leaf.events, { sink: name });
      metrics.add("tidemark_archive_closed_parts_total", 1, { sink: name });
      log.info(
        { archive: name, day: leaf.day, part: leaf.part, events: leaf.events, organizations: leaf.lines },
        "A part of a day was closed.",
      );
    }
  }

  /** Once a day: log, manifests and the store's own hashes, without reading data files. */
  async function verifyDaily(signal: AbortSignal): Promise<void> {
    const before = Number(state.fact("verified_ms") ?? 0);
    const agoMs = clock.now() - before;
    // A verification in the future was noted by a clock that was wrong.
    const isRecent = agoMs >= 0 && agoMs < DAY_MS;
    if (isRecent || state.head() === undefined || archiveClock.doubt() !== undefined) return;
    const { store } = await open(signal);
    const { verifier } = signerOf(own, own.key.reveal());
    const result = await verifyArchive(store, { key: verifier, quick: true, nowMs: clock.now(), signal });
    await state.setFact("verified_ms", String(clock.now()));
    await state.setFact(
      "verified",
      JSON.stringify({ isValid: result.isValid, findings: result.findings.length }),
    );
    alarmed.verified(result, store.place);
  }

  /** How long to wait before the next try. */
  async function fail(error: unknown): Promise<number> {
    await close();
    const places = ["directory" in own.store ? own.store.directory : folder, config.state];
    const isStopped = alarmed.failed(error, places) === "stopped";
    enter(isStopped ? "stopped" : "retrying", explain(error));
    return isStopped ? STOPPED_MS : RETRY_MS;
  }

  return {
    name,
    state,
    async run(signal, { verifies }) {
      while (!signal.aborted) {
        let [waitMs, pressedMs] = [0, Number.POSITIVE_INFINITY];
        const startedMs = clock.now();
        try {
          const result = await inTurn(() => turn(signal));
          if (result === "idle") {
            pressedMs = LOOK_MS + LOOK_SHARE * (clock.now() - startedMs);
            alarmed.backlog(state.backlog(), own.settle);
            if (verifies) await inTurn(() => verifyDaily(signal));
            waitMs = IDLE_MS;
          }
        } catch (error) {
          if (signal.aborted) return;
          waitMs = await fail(error);
        }
        if (waitMs > 0)
          await rest(waitMs, pressedMs, signal).catch((error) =>
            log.warn(
              { err: error, archive: name },
              "Pages of the journal could not be staged; trying again.",
            ),
          );
        else await new Promise((resolve) => setImmediate(resolve));
      }
    },
    async drain(signal) {
      try {
        while (!signal.aborted && (await inTurn(() => turn(signal))) === "again");
        return true;
      } catch (error) {
        if (signal.aborted) throw error;
        await fail(error);
        return false;
      }
    },
    change: (asked, signal) =>
      inTurn(async () => {
        const operation = await refuseWrongTime(asked, archiveClock, clock, askTime, signal);
        const now = await open(signal);
        const done = await carryOut(now.archive, () => deletionsOf(now), operation, signal);
        return operation.kind === "erase" ? `${done} ${eraseAccesses(config, operation, clock)}` : done;
      }),
    async close() {
      await close();
      await staging?.close();
    },
    status: () => ({ name, ...shown, remedy: null, sentEvents: closedEvents, lastWriteMs }),
  };
}
