import { dirname, join } from "node:path";
import type { Archive } from "../archive/archive.ts";
import type { ArchiveConfig } from "../archive/config.ts";
import { createDeletions, type Deletions } from "../archive/deletion/deletion.ts";
import { openConfigured, openStore, signerOf } from "../archive/open.ts";
import type { ArchiveStore } from "../archive/store/store.ts";
import { verifyArchive } from "../archive/verify/verify.ts";
import type { Config, SinkConfig } from "../config/schema.ts";
import { type ActionBody, type Actions, UnknownNameError } from "../core/actions.ts";
import type { Alarms } from "../core/alarms.ts";
import type { ArchiveState } from "../core/archive.ts";
import type { Clock } from "../core/clock.ts";
import { DecisionNeededError, explain } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import { DAY_MS } from "../core/time.ts";
import { openArchiveState } from "../journal/archive/state.ts";
import type { State } from "../journal/database.ts";

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
  run(signal: AbortSignal): Promise<void>;
  /** Closes all that can be closed now; false when it had to stop, with an alarm. */
  drain(signal: AbortSignal): Promise<boolean>;
  /** Between two turns of closing. */
  change(operation: ArchiveOperation, signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

export interface ArchiveParts {
  readonly db: State;
  readonly journal: string;
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly alarms: Alarms;
  readonly metrics: Metrics;
  readonly log: Log;
  /** The share of the journal's budget that is used. */
  usedShare(): number;
}

export type ArchiveOperation = ActionBody<"archive">["operation"];

const IDLE_MS = 60_000;
const RETRY_MS = 30_000;
const STOPPED_MS = 600_000;
/** From this share on, pages that only archives hold move to files of their own (A4). */
const STAGE_SHARE = 0.4;
const STAGED_PAGES = 50;
/** A day that is open longer than this beyond `settle` raises an alarm. */
const BEHIND_DAYS = 5;

export function archiveConfigs(config: Config): readonly (SinkConfig & ArchiveConfig)[] {
  return (config.sinks as unknown as readonly SinkConfig[]).filter(({ type }) => type === "archive") as never;
}

/** Beside the state file: staged pages, and parts for a store without a disk of its own. */
export function archiveFolder(stateFile: string, name: string): string {
  return join(dirname(stateFile), `${name}.archive`);
}

export function archiveStateOf(
  config: Config,
  name: string,
  parts: Pick<ArchiveParts, "db" | "journal" | "retentionMs">,
): Promise<ArchiveState> {
  const { db, journal, retentionMs } = parts;
  return openArchiveState(db, {
    name,
    journal,
    retentionMs,
    stagingFolder: join(archiveFolder(config.state, name), "pages"),
  });
}

export async function openRunningArchive(
  config: Config,
  own: SinkConfig & ArchiveConfig,
  parts: ArchiveParts,
): Promise<RunningArchive> {
  const { clock, alarms, metrics, log } = parts;
  const { name } = own;
  const state = await archiveStateOf(config, name, parts);
  const workFolder = join(archiveFolder(config.state, name), "work");
  let opened: { archive: Archive; store: ArchiveStore } | undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function open(signal: AbortSignal) {
    if (opened !== undefined) return opened;
    const store = await openStore(own.store, clock);
    const archive = await openConfigured(own, state, store, clock, workFolder, reportWitnesses, signal);
    opened = { archive, store };
    return opened;
  }

  async function close(): Promise<void> {
    await opened?.store.close();
    opened = undefined;
  }

  function reportWitnesses(away: readonly { readonly name: string; readonly reason: string }[]): void {
    if (away.length === 0) {
      alarms.clear("witness_away", name);
      return;
    }
    alarms.raise({
      kind: "witness_away",
      subject: name,
      severity: "warning",
      message: `${away.map((one) => `${one.name}: ${one.reason}`).join("; ")}. The archive goes on; checkpoints lack this cosignature.`,
      remedy: "Check that the witness runs and knows this log. The next checkpoint is cosigned again.",
    });
  }

  /** Turns and other uses take place one after the other. */
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  }

  async function turn(signal: AbortSignal): Promise<"again" | "idle"> {
    if (parts.usedShare() > STAGE_SHARE) await state.stage(STAGED_PAGES);
    const { archive } = await open(signal);
    const before = state.head()?.size ?? 0;
    const result = await archive.closeStep(signal);
    count(archive, before);
    alarms.clear("archive_stopped", name);
    alarms.clear("archive_failing", name);
    return result;
  }

  function count(archive: Archive, before: number): void {
    if ((state.head()?.size ?? 0) === before) return;
    for (const leaf of archive.leaves().slice(before)) {
      if (!("events" in leaf)) continue;
      metrics.add("tidemark_archive_closed_events_total", leaf.events, { sink: name });
      metrics.add("tidemark_archive_closed_parts_total", 1, { sink: name });
      log.info(
        { archive: name, day: leaf.day, part: leaf.part, events: leaf.events, organizations: leaf.lines },
        "A part of a day was closed.",
      );
    }
  }

  function reportBacklog(): void {
    const { oldestDay, events } = state.backlog();
    const behindMs = oldestDay === null ? 0 : clock.now() - Date.parse(oldestDay) - DAY_MS - own.settle;
    if (behindMs < BEHIND_DAYS * DAY_MS) {
      alarms.clear("archive_behind", name);
      return;
    }
    alarms.raise({
      kind: "archive_behind",
      subject: name,
      severity: "warning",
      message: `The day ${oldestDay} is not closed: the windows of some of its organizations are not sealed. ${events} events wait in the journal.`,
      remedy:
        "See `tidemark coverage` for windows that are refused or unread, and the alarms of their accounts.",
    });
  }

  /** Once a day: log, manifests and the store's own hashes, without reading data files. */
  async function verifyDaily(signal: AbortSignal): Promise<void> {
    const before = Number(state.fact("verified_ms") ?? 0);
    if (clock.now() - before < DAY_MS || state.head() === undefined) return;
    const { store } = await open(signal);
    const { verifier } = signerOf(own, own.key.reveal());
    const result = await verifyArchive(store, { key: verifier, quick: true, nowMs: clock.now(), signal });
    await state.setFact("verified_ms", String(clock.now()));
    await state.setFact(
      "verified",
      JSON.stringify({ isValid: result.isValid, findings: result.findings.length }),
    );
    if (result.isValid) {
      alarms.clear("archive_invalid", name);
      return;
    }
    const [first] = result.findings;
    alarms.raise({
      kind: "archive_invalid",
      subject: name,
      severity: "critical",
      message: `${result.findings.length} findings in ${store.place}; the first: ${first!.subject}: ${first!.message}`,
      remedy:
        "Run `tidemark archive verify` to see all of them. Keep the archive as it is, and restore what is damaged from a copy.",
    });
  }

  /** How long to wait before the next try. */
  async function fail(error: unknown): Promise<number> {
    await close();
    const isDecision = error instanceof DecisionNeededError;
    alarms.raise({
      kind: isDecision ? "archive_stopped" : "archive_failing",
      subject: name,
      severity: isDecision ? "critical" : "warning",
      message: explain(error),
      remedy: isDecision
        ? `Choose one: ${(error as DecisionNeededError).choices.join("; ")}. Nothing is lost meanwhile: the journal keeps what is not closed.`
        : "Retrying automatically. If this persists, check the disk and that the store can be reached. The journal keeps what is not closed.",
    });
    return isDecision ? STOPPED_MS : RETRY_MS;
  }

  return {
    name,
    state,
    async run(signal) {
      while (!signal.aborted) {
        let waitMs = 0;
        try {
          const result = await inTurn(() => turn(signal));
          if (result === "idle") {
            reportBacklog();
            await inTurn(() => verifyDaily(signal));
            waitMs = IDLE_MS;
          }
        } catch (error) {
          if (signal.aborted) return;
          waitMs = await fail(error);
        }
        if (waitMs > 0) await clock.sleep(waitMs, signal).catch(() => {});
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
    change: (operation, signal) =>
      inTurn(async () => {
        const { archive, store } = await open(signal);
        if (operation.kind === "reconcile") return recordReconcile(archive, operation, signal);
        const folder = join(archiveFolder(config.state, name), "deletions");
        return carryOut(
          createDeletions({ archive, store, state, config: own, clock, workFolder: folder }),
          operation,
          signal,
        );
      }),
    close,
  };
}

type ReconcileOperation = Extract<ArchiveOperation, { readonly kind: "reconcile" }>;

async function recordReconcile(
  { log }: Archive,
  { from, to, askedMs, days, organizations, returned, held, erased, onlyHeld, missing }: ReconcileOperation,
  signal: AbortSignal,
): Promise<string> {
  const counts = { days, organizations, returned, held, erased, only_held: onlyHeld, missing };
  const asked = new Date(askedMs).toISOString();
  const body = { kind: "reconcile", from, to, asked, compared: "identities", ...counts } as const;
  await log.append([{ body }], signal);
  return "The result is in the log.";
}

function carryOut(
  deletions: Deletions,
  operation: Exclude<ArchiveOperation, ReconcileOperation>,
  signal: AbortSignal,
): Promise<string> {
  switch (operation.kind) {
    case "hold":
      return deletions.hold(operation, signal).then((id) => `The hold ${id} is in force and in the log.`);
    case "release":
      return deletions.release(operation.hold, signal);
    case "prune":
      return deletions.prune(operation.dryRun, signal);
    case "erase":
      return deletions.erase(operation, signal);
  }
}

export function archiveActions(archives: readonly RunningArchive[]): Pick<Actions, "archive"> {
  return {
    async archive({ archive: name, operation }, signal) {
      const found =
        name === undefined && archives.length === 1 ? archives[0] : archives.find((one) => one.name === name);
      if (found === undefined)
        throw new UnknownNameError(
          `There is no archive ${name === undefined ? "" : `"${name}" `}in the config.`,
        );
      return { message: await found.change(operation, signal), count: 1 };
    },
  };
}
