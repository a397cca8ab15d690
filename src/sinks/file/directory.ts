import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import { DecisionNeededError } from "../../core/errors.ts";
import type { SinkContext } from "../../core/sink.ts";
import type { ActiveFile } from "./batch.ts";
import type { FileSettings } from "./config.ts";
import type { LedgerModel } from "./ledger.ts";
import { isPacked } from "./packing.ts";
import { pathOfName } from "./path.ts";
import { errnoOf, type FileSystem } from "./system.ts";

/** A directory without a ledger is new, unless the journal says that it should have one. */
export function refuseWithoutLedger(directory: string, context: SinkContext<FileSettings>): void {
  if (context.state !== undefined) {
    throw new DecisionNeededError(
      `The directory ${directory} is not the one that this sink has written to so far: it holds no ledger.`,
      [
        "mount or restore the directory",
        "move the old directory, with its folder .tidemark, to the new place",
        `give the sink a new name, an empty directory and "start: beginning" in the config, then run \`tidemark sinks forget ${context.name}\``,
      ],
    );
  }
}

export async function newModel(
  directory: string,
  context: SinkContext<FileSettings>,
  system: FileSystem,
): Promise<LedgerModel> {
  refuseWithoutLedger(directory, context);
  await makeDirectory(directory, system);
  return {
    id: randomUUID(),
    sink: context.name,
    journal: context.journal,
    format: context.format.name,
    next: 1,
    sequence: 0,
    base: 0,
    position: "",
    files: new Map(),
  };
}

/** Each folder is durable before the next is made in it, so at most the last one found is not. */
async function makeDirectory(directory: string, system: FileSystem): Promise<void> {
  const parent = dirname(directory);
  if (parent === directory) return;
  const isThere = (await system.size(directory)) !== undefined;
  if (!isThere) {
    await makeDirectory(parent, system);
    await system.makeFolder(directory);
  }
  await system.syncFolder(parent).catch((error) => {
    // The parent may be entered but not read. The directory existed before, so its entry is durable.
    if (!isThere || errnoOf(error) !== "EACCES") throw error;
  });
}

/** The files that keep growing. Old ones and those of another format are finished. */
export function activeFilesOf(
  model: LedgerModel,
  extension: string,
  context: SinkContext<FileSettings>,
): Map<string, ActiveFile> {
  const active = new Map<string, ActiveFile>();
  const bornAfterMs = context.clock.now() - context.config.rotateAge;
  for (const entry of [...model.files.values()]) {
    if (entry.finished) continue;
    const path = pathOfName(entry.path, extension);
    const { number, createdMs, length } = entry;
    const goesOn = model.format === context.format.name && createdMs > bornAfterMs;
    if (path !== undefined && goesOn) {
      active.set(path, {
        number,
        name: entry.path,
        createdMs,
        length,
        pendingBytes: 0,
        pending: [],
        addedBytes: 0,
        usedAt: 0,
      });
    } else if (isPacked(entry.path, context.config.gzip)) entry.finished = true;
    else model.files.delete(number);
  }
  return active;
}
