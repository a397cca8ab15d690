import { hash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import type { ArchiveState, Claim, ClosableDay, NewPlan, Plan } from "../../core/archive.ts";
import type { Clock } from "../../core/clock.ts";
import type { Step } from "../../core/step.ts";
import { addDue, dueOrders } from "../deletion/due.ts";
import { textPath } from "../log/texts.ts";
import type { LogWriter, NewLeaf } from "../log/writer.ts";
import { type ArchiveStore, LockedFileError } from "../store/store.ts";
import { type Built, buildParts, type LeftOut, removeBuilt } from "./build.ts";
import { type CountEvents, createDayCounter } from "./count-days.ts";
import { noteDiffering } from "./differing.ts";

/*
 * Closes days. One turn does the first of these that there is to do, so that a crash at any line repeats a step
 * and never loses one:
 *
 *   recover   an append to the log that was proposed is published and confirmed
 *   publish   plans whose files are built: they are announced; data file, then manifest, go to the store; then their
 *             log entries
 *   build     plans without files: one pass over their pages writes data files and manifests to the local disk;
 *             also again, where another machine of a cluster has built them and this one continues
 *   note      new pages of the journal are noted: which organizations and days they hold
 *   plan      what is sealed is counted by the service (A10) and becomes plans, durable before anything is written
 *             for them (A12)
 *
 * A plan ends when a confirmed checkpoint covers its entry; only then are its pages released.
 */

export interface CloseSettings {
  readonly settleMs: number;
  /** The retention class of an organization (A22). */
  classOf(claim: Claim): string;
  /** A folder of this archive alone, on a disk with room for the parts that are built at once. */
  readonly workFolder: string;
  readonly eventsMax?: number;
  /** Count queries to the service, and how many of them a day may have. */
  readonly count?: CountEvents | undefined;
  readonly countsPerDay?: number | undefined;
}

/** At most so many events are sorted at once: 55 bytes of memory each, and as much again while their memory grows. */
const EVENTS_MAX = 500_000;
const DAYS_MAX = 31;
const PAGES_NOTED_MAX = 20;

export function createCloseStep(
  state: ArchiveState,
  store: ArchiveStore,
  log: LogWriter,
  clock: Clock,
  settings: CloseSettings,
): Step {
  const { count, countsPerDay = 0 } = settings;
  const withCounts = count && createDayCounter(count, countsPerDay, clock);

  return async (signal) => {
    await log.recover(signal);
    const plans: Plan[] = [];
    for (const plan of state.plans()) plans.push(await withoutLostFiles(await withoutOldRules(plan)));
    if (plans.some(({ built }) => built !== undefined)) {
      await publishPlans(plans, signal);
      return "again";
    }
    if (plans.length > 0) {
      const built = await buildParts(plans, state, settings.workFolder, signal);
      for (const [plan, files] of built) await state.setBuilt(plan, files);
      return "again";
    }
    if (await state.noteArrivals(PAGES_NOTED_MAX)) return "again";
    const { settleMs, eventsMax = EVENTS_MAX } = settings;
    const found = await state.closable({ nowMs: clock.now(), settleMs, eventsMax, daysMax: DAYS_MAX });
    if (found.length === 0) return "idle";
    const days = withCounts === undefined ? found : await withCounts(found, signal);
    await state.plan(days.flatMap((day) => plansOf(day, settings)));
    return "again";
  };

  async function publishPlans(plans: readonly Plan[], signal: AbortSignal): Promise<void> {
    const first = state.entries().length;
    const leaves: NewLeaf[] = [];
    const done: Built[] = [];
    const all = plans.flatMap(({ built }) => (built === undefined ? [] : [built as Built]));
    await log.announce([
      ...all.flatMap(({ files }) => [files.data, files.manifest]),
      ...all.flatMap(({ leftOut = [] }) => leftOut.map(({ reason }) => reasonPath(reason))),
    ]);
    for (const plan of plans) {
      if (plan.built === undefined) continue;
      signal.throwIfAborted();
      const built = plan.built as Built;
      await publishFiles(built);
      const leaf = first + leaves.length;
      leaves.push({ body: { kind: plan.kind, ...built.files, incomplete: built.incomplete }, plan: plan.id });
      if (built.gaps > 0) leaves.push({ body: gapOf(plan, built) });
      for (const left of built.leftOut ?? []) leaves.push({ body: erasedBefore(leaf, built, left) });
      done.push(built);
    }
    const texts = await publishReasons(done);
    await noteDiffering(state, done);
    await log.append(leaves, signal);
    if (texts.length > 0) await noteWritten(texts);
    for (const built of done) removeBuilt(built);
  }

  /** Writes the wordings that no entry has named yet: one that was named may have been erased (A18). */
  async function publishReasons(done: readonly Built[]): Promise<readonly string[]> {
    const reasons = new Set(done.flatMap(({ leftOut = [] }) => leftOut.map(({ reason }) => reason)));
    const known = state.entries();
    const fresh = [...reasons].filter((reason) => !known.some((entry) => entry.includes(digestOf(reason))));
    if (fresh.length === 0) return [];
    const paths = fresh.map(reasonPath);
    // Noted first, so that a crash leaves nothing for ever that the log cannot explain.
    await state.setFact("rewrite", JSON.stringify([...new Set([...leftovers(), ...paths])]));
    for (const reason of fresh) await store.create(reasonPath(reason), { bytes: Buffer.from(reason) });
    return paths;
  }

  /** Files that a deletion before has left behind stay noted. */
  async function noteWritten(paths: readonly string[]): Promise<void> {
    const left = leftovers().filter((path) => !paths.includes(path));
    await state.setFact("rewrite", left.length === 0 ? null : JSON.stringify(left));
  }

  function leftovers(): string[] {
    return JSON.parse(state.fact("rewrite") ?? "[]") as string[];
  }

  /** A hold or an erasure that came after the building counts: the part is built again, from the same pages. */
  async function withoutOldRules(plan: Plan): Promise<Plan> {
    const built = plan.built as Built | undefined;
    if (built === undefined || (built.rules ?? "") === state.erasureRules()) return plan;
    // No entry names these files yet.
    for (const path of [built.files.manifest, built.files.data])
      await store.remove(path).catch(async (error) => {
        if (!(error instanceof LockedFileError)) throw error;
        await addDue(state, path, error.untilMs);
        await log.sayLocked(dueOrders(state));
      });
    removeBuilt(built);
    return { ...plan, built: undefined };
  }

  /** Files that another machine of a cluster has built count only where they are in the store already. */
  async function withoutLostFiles(plan: Plan): Promise<Plan> {
    if (plan.built === undefined) return plan;
    const built = plan.built as Built;
    return isOnDisk(built) || (await isInStore(built)) ? plan : { ...plan, built: undefined };
  }

  async function isInStore({ files }: Built): Promise<boolean> {
    const data = await store.stat(files.data);
    const manifest = data && (await store.read(files.manifest));
    if (manifest === undefined || data?.bytes !== files.data_bytes) return false;
    return hash("sha256", manifest, "hex") === files.manifest_sha256;
  }

  async function publishFiles(built: Built): Promise<void> {
    // The manifest goes last: where it is in the store, so is the data file.
    if (!isOnDisk(built)) return;
    const { files, dataFile, manifestFile } = built;
    const { data_bytes: length, data_sha256: sha256 } = files;
    await store.create(files.data, { file: dataFile, length, sha256 });
    // After a crash the data file may have been moved already.
    await store.create(files.manifest, { bytes: readFileSync(manifestFile) });
  }
}

/** The manifest names the hash of the data file, so it speaks for both. */
function isOnDisk({ files, manifestFile }: Built): boolean {
  if (!existsSync(manifestFile)) return false;
  return hash("sha256", readFileSync(manifestFile), "hex") === files.manifest_sha256;
}

const digestOf = (text: string) => hash("sha256", text, "hex");
const reasonPath = (reason: string) => textPath(digestOf(reason));

/** An erasure took these events before the part was closed: its files are those of the part. */
function erasedBefore(leaf: number, { files }: Built, { reason, events }: LeftOut): NewLeaf["body"] {
  return {
    kind: "erase",
    leaf,
    reason_hash: digestOf(reason),
    removed_lines: 0,
    removed_events: events,
    replacement: files,
  };
}

function gapOf({ day, part }: Plan, { files, gaps }: Built) {
  return { kind: "gap", day, part, manifest: files.manifest, organizations: gaps } as const;
}

/** A file holds one retention class. */
function plansOf({ kind, day, organizations }: ClosableDay, { classOf }: CloseSettings): NewPlan[] {
  const byClass = new Map<string, Claim[]>();
  for (const claim of organizations) {
    const name = classOf(claim);
    byClass.set(name, [...(byClass.get(name) ?? []), claim]);
  }
  return [...byClass].map(([name, claims]) => ({ kind, day, class: name, organizations: claims }));
}
