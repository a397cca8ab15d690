import { dirname } from "node:path/posix";
import { DAY_MS } from "../../core/time.ts";
import { CLOSING_FILE } from "../log/closing.ts";
import type { CurrentPart } from "../log/current-parts.ts";
import { filesNamedBy } from "../log/leaf.ts";
import { LOCKED_FILE, type LockedFile } from "../log/locked.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";
import type { CheckedLog } from "./log.ts";

/** Files that no entry of the log explains. */
export interface Strangers {
  /** All of them, for a further look. */
  readonly paths: readonly string[];
  /** Those that the archive itself has announced as being written. */
  readonly closing: readonly string[];
  /** Those that the archive itself has named as removed, but locked by the store. */
  readonly locked: readonly LockedFile[];
  /** Whether the log says of one that it was removed, so that its removal may be under way. */
  readonly isRemoving: boolean;
}

/** `zstdcat` would print what somebody put there. `before` are the strangers of an earlier look at the same files. */
export async function checkStrangers(
  store: ArchiveStore,
  log: CheckedLog,
  parts: readonly CurrentPart[],
  before: readonly string[] | undefined,
  nowMs: number,
  findings: Findings,
): Promise<Strangers> {
  const texts = log.leaves.flatMap(filesNamedBy).filter((path) => path.startsWith("texts/"));
  const known = new Set([
    ...log.files,
    ...(log.closing === undefined ? [] : [CLOSING_FILE]),
    ...(log.locked === undefined ? [] : [LOCKED_FILE]),
    "policy.json",
    // The texts of cases and reasons are beside the log and can be erased (A18).
    ...texts,
    ...parts.flatMap(({ files }) => (files ? [files.data, files.manifest] : [])),
  ]);
  const announced = new Set(log.closing?.isCurrent ? log.closing.paths : []);
  const removed = new Set(log.leaves.flatMap(filesNamedBy));
  const paths: string[] = [];
  for await (const path of before === undefined ? allOf(store) : stillThere(store, before))
    if (!known.has(path)) paths.push(path);
  const orders = new Map((log.locked ?? []).map((file) => [file.path, file]));
  const isLocked = (path: string) => (orders.get(path)?.untilMs ?? 0) + REMOVAL_MS_MAX > nowMs;
  const unexplained = paths.filter((path) => !announced.has(path) && !isLocked(path));
  for (const path of unexplained)
    findings.expect(
      "unexpected files",
      false,
      path,
      orders.has(path)
        ? `UNEXPECTED: its lock ended at ${new Date(orders.get(path)!.untilMs).toISOString()}, and it was not removed: run \`tidemark archive prune\``
        : removed.has(path)
          ? "UNEXPECTED: the log says that this file was removed"
          : "UNEXPECTED: nothing in the log explains this file",
    );
  return {
    paths,
    closing: paths.filter((path) => announced.has(path)),
    locked: paths.filter((path) => !announced.has(path) && isLocked(path)).map((path) => orders.get(path)!),
    isRemoving: unexplained.some((path) => removed.has(path)),
  };
}

/** How long the removal of a file may take after the end of its lock. */
const REMOVAL_MS_MAX = DAY_MS;

async function* allOf(store: ArchiveStore): AsyncIterable<string> {
  for await (const { path } of store.list("")) yield path;
}

async function* stillThere(store: ArchiveStore, paths: readonly string[]): AsyncIterable<string> {
  const wanted = new Set(paths);
  const folders = new Set(paths.map((path) => dirname(path)));
  for (const folder of folders)
    for await (const { path } of store.list(folder === "." ? "" : folder))
      if (wanted.delete(path)) yield path;
}
