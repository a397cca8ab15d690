import { dirname } from "node:path";
import { DecisionNeededError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import { comparePositions, type Position, parsePosition } from "../../core/position.ts";
import type { SinkState } from "../../core/sink.ts";
import { inParallel } from "../shared/in-parallel.ts";
import type { LedgerFile, LedgerModel } from "./ledger.ts";
import { packingOf } from "./packing.ts";
import { errnoOf, type FileSystem } from "./system.ts";

/** The sink that opens the directory, with its position and state in the journal. */
export interface Owner {
  readonly name: string;
  readonly journal: string;
  readonly earlierJournals?: ReadonlySet<string> | undefined;
  readonly position: Position;
  readonly state: SinkState | undefined;
}

/** The state that goes to the journal with every position: it names the commit of the directory's ledger. */
export function stateOf(model: LedgerModel): SinkState {
  return { ledger: model.id, sequence: model.sequence, position: model.position };
}

/**
 * Whether the directory and the journal belong together (R20, R23). The ledger commits first and the
 * journal after it, so the ledger may be ahead by what was written since the journal's last commit, and by
 * no more: anything else is another sink's directory, or a lost or restored state. Then nothing is touched.
 * Returns the sequence that the journal has committed.
 */
export function reconcileFiles(model: LedgerModel, owner: Owner, directory: string): number {
  const state = owner.state;
  // A directory to which nothing was ever committed holds nothing that another journal could confuse.
  const isUnwritten = model.sequence === 0 && model.files.size === 0;
  // A sink that was renamed before its first batch: no two sinks of one config have the same directory.
  const isRenamed = isUnwritten && model.journal === owner.journal;
  if (state === undefined ? model.sink !== owner.name && !isRenamed : state.ledger !== model.id) {
    throw new DecisionNeededError(
      `The directory ${directory} belongs to the sink "${model.sink}" of journal ${model.journal}.`,
      [...renamedBack(model, owner), `give the sink "${owner.name}" a directory of its own`],
    );
  }
  // All that an earlier journal held was committed here before its state was split or merged.
  if (state === undefined && isOfEarlier(model, owner)) return model.sequence;
  if (model.journal !== owner.journal && !isUnwritten) {
    throw new DecisionNeededError(
      `The directory ${directory} was written from journal ${model.journal}, but the state file holds journal ${owner.journal}.`,
      ["restore the state file that belongs to the directory", anew(owner)],
    );
  }
  const committed = state === undefined ? firstSequence(model, owner) : Number(state.sequence);
  if (committed > model.sequence) {
    throw new DecisionNeededError(
      `The directory ${directory} is older than the state file: it holds commit ${model.sequence}, the state names ${committed}.`,
      ["restore the newer copy of the directory", anew(owner)],
    );
  }
  const fits = committed === model.sequence ? state === undefined || state.position === model.position : true;
  if (committed < model.base || !fits) {
    throw new DecisionNeededError(
      `The state file is older than the directory ${directory}: it names commit ${committed}, the directory holds ${model.sequence}. Going on would write events again.`,
      ["restore the newer copy of the state file", anew(owner)],
    );
  }
  return committed;
}

/** Until this journal's first commit the position is still the earlier journal's. */
function isOfEarlier({ journal, position }: LedgerModel, { earlierJournals }: Owner): boolean {
  if (earlierJournals === undefined) return false;
  return earlierJournals.has(journal) || earlierJournals.has(parsePosition(position)?.journal ?? "");
}

function anew(owner: Owner): string {
  return `go on in another directory and keep this one: give the sink a new name, an empty directory and "start: beginning" in the config, then run \`tidemark sinks forget ${owner.name}\` (some events will be in both)`;
}

/**
 * Without a state: before the first commit, or the journal is at least as far as the directory. Then no event is
 * written again, and delivery judges what the directory lacks.
 */
function firstSequence(model: LedgerModel, owner: Owner): number {
  const there = parsePosition(model.position);
  const isPast = there?.journal === owner.journal && comparePositions(there, owner.position) <= 0;
  return isPast ? model.sequence : 0;
}

/** Killed before the journal had its first commit, and renamed then: the journal does not know the directory yet. */
function renamedBack(model: LedgerModel, owner: Owner): string[] {
  if (model.journal !== owner.journal || owner.state !== undefined) return [];
  return [
    `if "${owner.name}" was "${model.sink}" before, give it that name back with \`tidemark sinks rename ${owner.name} ${model.sink}\` and in the config, let it deliver, and rename it then`,
  ];
}

/**
 * Brings the files back to the ledger's last commit: longer ones are cut to their length, those that no
 * commit reached are removed. Looks at all of them before it touches the first. Repeating it is harmless.
 */
export async function restoreFiles(
  system: FileSystem,
  directory: string,
  model: LedgerModel,
  log: Log,
): Promise<void> {
  const sizes = new Map<LedgerFile, number | undefined>();
  await inParallel(model.files.values(), 8, async (file) => {
    sizes.set(file, await system.size(`${directory}/${file.path}`));
  });
  refuseShortFiles(sizes, directory);
  const folders = new Set<string>();
  await inParallel(sizes, 8, async ([file, size]) => {
    const path = `${directory}/${file.path}`;
    if (file.length === 0) {
      await system.unlink(path);
      folders.add(dirname(path));
      model.files.delete(file.number);
    } else if (size !== undefined) {
      await cut(system, path, file.length, size);
      if (size > file.length)
        log.info({ path, size, length: file.length }, "Uncommitted bytes were cut off.");
    } else if (await isGone(system, path, file)) {
      log.error({ path, length: file.length }, "A file in work is gone; going on in a new one.");
      model.files.delete(file.number);
    }
  });
  // The ledger, whose snapshot comes next, forgets only what a power cut cannot bring back; the same goes
  // for a removal by an earlier opening that did not get to this line.
  await inParallel(folders, 8, (folder) => system.syncFolder(folder).catch(isNoFolder));
}

function isNoFolder(error: unknown): void {
  if (errnoOf(error) !== "ENOENT") throw error;
}

/** A file that waits for compression may be gone because its compressed form has taken its place. */
async function isGone(system: FileSystem, path: string, file: LedgerFile): Promise<boolean> {
  return !file.finished || (await system.size(packingOf(path).target)) === undefined;
}

function refuseShortFiles(sizes: ReadonlyMap<LedgerFile, number | undefined>, directory: string): void {
  const short = [...sizes].filter(([file, size]) => size !== undefined && size < file.length);
  if (short.length === 0) return;
  const named = short
    .slice(0, 5)
    .map(([file, size]) => `${file.path} has ${size} of ${file.length} bytes`)
    .join(", ");
  const what =
    short.length === 1
      ? `1 file in ${directory} is shorter than what was committed to it`
      : `${short.length} files in ${directory} are shorter than what was committed to them`;
  throw new DecisionNeededError(`${what}: ${named}.`, [
    "restore the files",
    "move them out of the directory: the sink goes on in new files, and `tidemark backfill --sink` fetches what was lost",
  ]);
}

/** Syncs in any case: an earlier opening may have cut it and ended before it was durable. */
async function cut(system: FileSystem, path: string, length: number, size: number): Promise<void> {
  const file = await system.open(path, "r+");
  try {
    if (size > length) await file.truncate(length);
    await file.sync();
  } finally {
    await file.close();
  }
}
