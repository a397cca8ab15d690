import { basename, dirname } from "node:path";
import { explain } from "../../core/errors.ts";
import type { SinkContext } from "../../core/sink.ts";
import { type Ledger, type LedgerFile, ledgerPath } from "./ledger.ts";
import { packingOf } from "./packing.ts";
import { type FileSystem, renameWithoutReplacing } from "./system.ts";

/**
 * Compresses finished files, or turns them into Parquet, in the background, one at a time. A finished file never
 * changes, so each step may be repeated: exactly its committed bytes are packed under a temporary name beside it,
 * synced, get the final name without replacing anything, and only then is the plain file removed and the
 * file's line in the ledger dropped. A reader of the folder finds the whole content under at least one of the two
 * names at every moment. A failure is tried again after a while and at the next opening.
 */
export interface Compressor {
  push(files: Iterable<LedgerFile>): void;
  /** Finishes what is queued, or gives up at once if `abort` is set; what is left is taken up when opened. */
  close(abort: boolean): Promise<void>;
}

const AGAIN_MS = 30_000;

export function createCompressor(
  system: FileSystem,
  directory: string,
  ledger: Ledger,
  { clock, log }: Pick<SinkContext<unknown>, "clock" | "log">,
): Compressor {
  const queue = new Set<LedgerFile>();
  const stop = new AbortController();
  /** Ends the wait for another try. */
  const closing = new AbortController();
  let running: Promise<void> | undefined;

  async function run(): Promise<void> {
    for (const file of queue) {
      if (stop.signal.aborted) break;
      queue.delete(file);
      try {
        await compress(file);
        await ledger.append([{ forget: [file.number] }]);
      } catch (error) {
        // Behind the others, which may not have its fault.
        queue.add(file);
        if (stop.signal.aborted) break;
        log.warn({ path: file.path, reason: explain(error) }, "Compression failed; it is tried again later.");
        if (closing.signal.aborted) break;
        await clock.sleep(AGAIN_MS, closing.signal).catch(() => {});
      }
    }
    running = undefined;
  }

  async function compress({ path: name, length }: LedgerFile): Promise<void> {
    const { signal } = stop;
    const path = `${directory}/${name}`;
    const folder = dirname(path);
    const { target, packTo, sameContent } = packingOf(path);
    const temporary = `${folder}/.${basename(target)}.new`;
    // It may share its content with the target after a crash between link and unlink: never write into it.
    await system.unlink(temporary);
    const plainSize = await system.size(path);
    const targetSize = await system.size(target);
    if (plainSize === undefined && targetSize === undefined) {
      if ((await system.size(ledgerPath(directory))) === undefined)
        throw new Error(`The directory ${directory} is not there.`);
      log.error({ path, length }, "A finished file is gone.");
      return;
    }
    if (plainSize !== undefined && plainSize < length) {
      log.error(
        { path, size: plainSize, length },
        "A finished file is shorter than committed; it is not touched.",
      );
      return;
    }
    if (plainSize !== undefined && targetSize === undefined) {
      await packTo({ system, path, length, target: temporary, signal });
      await renameWithoutReplacing(system, temporary, target);
    } else if (plainSize !== undefined && !(await sameContent({ system, path, length, target, signal }))) {
      log.error(
        { path: target },
        "A compressed file of this name holds something else; the plain file stays.",
      );
      return;
    }
    await system.syncFolder(folder);
    await system.unlink(path);
    // Also where an earlier try had removed it: the ledger forgets only what a power cut cannot bring back.
    await system.syncFolder(folder);
  }

  return {
    push(files) {
      for (const file of files) queue.add(file);
      if (queue.size > 0) running ??= run();
    },
    async close(abort) {
      closing.abort();
      if (abort) stop.abort();
      await running;
    },
  };
}
