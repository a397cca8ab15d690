import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ArchiveState } from "../../core/archive.ts";
import type { Clock } from "../../core/clock.ts";
import type { Archive } from "../archive.ts";
import type { Built } from "../close/build.ts";
import type { ArchiveConfig } from "../config.ts";
import { readEntries } from "../evidence/read.ts";
import { type CurrentPart, currentParts } from "../log/current-parts.ts";
import { filesNamedBy, type LeafBody, type PartFiles } from "../log/leaf.ts";
import type { LockedFile } from "../log/locked.ts";
import type { Line } from "../part/manifest.ts";
import { type ArchiveStore, LockedFileError } from "../store/store.ts";
import { addDue, dueOrders } from "./due.ts";
import { holdsOf, isHeld } from "./holds.ts";
import { type Fate, rewritePart } from "./rewrite.ts";

export interface DeletionParts {
  readonly archive: Archive;
  readonly store: ArchiveStore;
  readonly state: ArchiveState;
  readonly config: Pick<ArchiveConfig, "keep" | "classes">;
  /** The accounts that see each organization, as far as the state knows. */
  accountsSeeing?(): ReadonlyMap<string, readonly string[]>;
  readonly clock: Clock;
  readonly workFolder: string;
}

/** A wording beside the log, under the hash that the log has. */
export interface SaltedText {
  readonly digest: string;
  readonly path: string;
  readonly bytes: Buffer;
}

/** Says what the log entry of a removal is. */
export type RemovalBody = (
  part: CurrentPart,
  removed: { readonly lines: number; readonly events: number },
  replacement: PartFiles | null,
) => LeafBody;

/** Removes lines of parts and their files, with the steps of deletion.ts. */
export function createPartRemoval({ archive, store, state, clock, workFolder }: DeletionParts) {
  mkdirSync(workFolder, { recursive: true, mode: 0o700 });

  /** Local copies of rewritten parts, also those of a deletion that failed or was killed: they hold events and secrets. */
  function removeCopies(): void {
    for (const file of readdirSync(workFolder)) rmSync(join(workFolder, file), { force: true });
  }

  async function removeParts(
    parts: readonly CurrentPart[],
    fateOf: (line: Line, part: CurrentPart) => Promise<Fate>,
    bodyOf: RemovalBody,
    signal: AbortSignal,
    text?: SaltedText,
  ): Promise<{ parts: number; lines: number; events: number; kept: number }> {
    await removeLeftovers();
    const total = { parts: 0, lines: 0, events: 0, kept: 0 };
    for (const part of parts) {
      signal.throwIfAborted();
      const files = part.files!;
      const fates = new Map<string, Fate>();
      // Read again for every part: a hold that was added meanwhile counts (A22).
      const inForce = holdsOf(state);
      for (const entry of await readEntries(store, files)) {
        if ("gone" in entry) continue;
        const wanted = await fateOf(entry.line, part);
        const held = wanted !== "keep" && isHeld(entry.line, part.leaf.kind, inForce);
        if (held) total.kept++;
        fates.set(entry.line.organization, held ? "keep" : wanted);
      }
      if ([...fates.values()].every((fate) => fate === "keep")) continue;
      const removed = await replacePart(part, files, fates, bodyOf, signal, text);
      total.parts++;
      total.lines += removed.lines;
      total.events += removed.events;
    }
    return total;
  }

  async function replacePart(
    part: CurrentPart,
    files: PartFiles,
    fates: ReadonlyMap<string, Fate>,
    bodyOf: RemovalBody,
    signal: AbortSignal,
    text: SaltedText | undefined,
  ) {
    const entryIndex = archive.leaves().length;
    removeCopies();
    const rewritten = await rewritePart(
      store,
      files,
      (line) => fates.get(line.organization) ?? "keep",
      entryIndex,
      workFolder,
    );
    const removed = { lines: rewritten.removedLines, events: rewritten.removedEvents };
    const { files: now } = rewritten;
    const made = [...(text ? [text.path] : []), ...(now ? [now.data, now.manifest] : [])];
    // Noted first, so that a crash leaves nothing for ever that the log cannot explain. The old files go once the log
    // has the entry; until then `neededFiles` keeps them.
    await state.setFact("rewrite", JSON.stringify([...made, files.data, files.manifest]));
    await archive.log.announce(made);
    if (text !== undefined) await store.create(text.path, { bytes: text.bytes });
    if (rewritten.files !== undefined) {
      const { data, data_bytes: length, data_sha256: sha256 } = rewritten.files;
      await store.create(data, { file: rewritten.dataFile, length, sha256 });
      await store.create(rewritten.files.manifest, { bytes: rewritten.manifest });
    }
    removeCopies();
    await archive.log.append([{ body: bodyOf(part, removed, rewritten.files ?? null) }], signal);
    await removeFiles([files.data, files.manifest]);
    await state.setFact("rewrite", null);
    return removed;
  }

  /** Gives back the paths that are locked; their orders are recorded. */
  async function removeFiles(paths: readonly string[]): Promise<ReadonlySet<string>> {
    const needed = neededFiles();
    const locked = new Set<string>();
    for (const path of paths) {
      if (needed.has(path)) continue;
      try {
        await store.remove(path);
      } catch (error) {
        if (!(error instanceof LockedFileError)) throw error;
        await addDue(state, path, error.untilMs);
        locked.add(path);
      }
    }
    if (locked.size > 0) await archive.log.sayLocked(dueOrders(state));
    return locked;
  }

  /** What the log has now, and what a closing is about to name: it may have the name of a file that was to go. */
  function neededFiles(): ReadonlySet<string> {
    const leaves = archive.leaves();
    return new Set([
      ...currentParts(leaves).flatMap(({ files }) => (files ? [files.data, files.manifest] : [])),
      ...leaves.flatMap(filesNamedBy).filter((path) => path.startsWith("texts/")),
      ...state.plans().flatMap(({ built }) => filesOfBuilt(built)),
    ]);
  }

  /** Files of deletions that a crash interrupted, files whose lock has ended, and files that somebody put back. */
  async function removeLeftovers(): Promise<void> {
    removeCopies();
    const noted = JSON.parse(state.fact("rewrite") ?? "[]") as string[];
    const { over, waiting } = ordersNow();
    const paths = new Set([...(await removedFilesThere()), ...noted, ...over]);
    for (const path of waiting) paths.delete(path);
    await removeDue(paths);
    await state.setFact("rewrite", null);
  }

  /** The store is listed once: to ask for each file that the log has ever named would take more requests every year. */
  async function removedFilesThere(): Promise<string[]> {
    const needed = neededFiles();
    const gone = new Set(
      archive
        .leaves()
        .flatMap(filesNamedBy)
        .filter((path) => !needed.has(path)),
    );
    const there: string[] = [];
    for (const folder of new Set([...gone].map((path) => path.split("/")[0]!)))
      for await (const { path } of store.list(folder)) if (gone.has(path)) there.push(path);
    return there;
  }

  function ordersNow() {
    const due = dueOrders(state);
    const isOver = ({ untilMs }: LockedFile) => untilMs <= clock.now();
    const pathsOf = (orders: readonly LockedFile[]) => orders.map(({ path }) => path);
    return { over: pathsOf(due.filter(isOver)), waiting: pathsOf(due.filter((order) => !isOver(order))) };
  }

  async function removeDue(paths: ReadonlySet<string>): Promise<void> {
    const locked = await removeFiles([...paths]);
    // A file that turned out to be locked has a new order, which stays.
    const left = dueOrders(state).filter(({ path }) => locked.has(path) || !paths.has(path));
    await state.setFact("due", JSON.stringify(left));
    await archive.log.sayLocked(left);
  }

  /** The same between deletions, without a look at the files in the store; gives their number. */
  async function removeUnlocked(): Promise<number> {
    removeCopies();
    const { over } = ordersNow();
    if (state.fact("rewrite") !== undefined) await removeLeftovers();
    else if (over.length > 0) await removeDue(new Set(over));
    const left = new Set(dueOrders(state).map(({ path }) => path));
    return over.filter((path) => !left.has(path)).length;
  }

  function lockedUntil(): string {
    const needed = neededFiles();
    const due = dueOrders(state).filter(({ path }) => !needed.has(path));
    if (due.length === 0) return "";
    const last = Math.max(...due.map(({ untilMs }) => untilMs));
    return ` ${due.length} files are locked by the store until ${new Date(last).toISOString()} at the latest; the order to remove them is recorded. \`tidemark run\` carries it out then, as does \`archive prune\`.`;
  }

  return { removeParts, removeCopies, removeLeftovers, removeUnlocked, lockedUntil };
}

function filesOfBuilt(built: object | undefined): string[] {
  if (built === undefined) return [];
  const { files } = built as Built;
  return [files.data, files.manifest];
}
