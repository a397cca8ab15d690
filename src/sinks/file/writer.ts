import { dirname } from "node:path";
import { RetryableError } from "../../core/errors.ts";
import { createPacker } from "../../core/packer.ts";
import { formatPosition, parsePosition } from "../../core/position.ts";
import type { Batch, Sink, SinkContext } from "../../core/sink.ts";
import { inParallel } from "../shared/in-parallel.ts";
import { type ActiveFile, createAppender } from "./batch.ts";
import { createCompressor } from "./compress.ts";
import type { FileSettings } from "./config.ts";
import type { Crew, SmallWrite } from "./crew.ts";
import { createHandles } from "./handles.ts";
import type { Ledger } from "./ledger.ts";
import { createPackedAppender } from "./packed.ts";
import { isPacked } from "./packing.ts";
import { createPlanner, type FilePlan } from "./plan.ts";
import { stateOf } from "./recover.ts";
import { errnoOf, type FileSystem, type OpenFile, sinkError } from "./system.ts";

/** A full page: a rest of it would need a write and a commit of its own. */
const LIMITS = { recordsMax: 10_000, bytesMax: 24 << 20, limitedBy: "Tidemark" } as const;
/**
 * Encoded events need memory beside their page. With half a page at a time, the peak of an export is 40 MB lower. Eight
 * sinks with whole batches of large events would hold 190 MB.
 */
const ENCODED_LIMITS = { ...LIMITS, recordsMax: 5000, bytesEnough: 4 << 20 };
/** Pages of many organizations that come together share a write. Those that come during a write share the next one. */
const AGE_MS_MAX = 3;
/** Each write makes one frame, and small frames compress badly. */
const PACKED_AGE_MS_MAX = 1000;
/**
 * Files and folders in work side by side. The system's pool runs four calls at a time, but each call that is waited for
 * costs a turn of the event loop, which takes many milliseconds during a backfill: a page may have a file for each day.
 */
const WIDTH_MAX = 32;
/** Files in work stay open beyond the limit of open files. */
const WIDTH_MIN = 8;
/** From so many files of one batch on, the crew writes them. It rests after some batches with fewer. */
const MANY_FILES = 256;
const FEW_BATCHES = 20;
/** Folders that are known to exist and to be durable. */
const FOLDERS_MAX = 20_000;

export interface Opened {
  readonly directory: string;
  readonly context: SinkContext<FileSettings>;
  readonly system: FileSystem;
  readonly ledger: Ledger;
  /** By path without number and extension; in the order of their making. */
  readonly active: Map<string, ActiveFile>;
  readonly extension: string;
  /** The sequence that the journal holds. */
  readonly committed: number;
}

export function createWriter(opened: Opened): Sink {
  const { directory, context, system, ledger, active, extension } = opened;
  const { rotateSize, rotateAge, gzip, openFiles, path: pathTemplate } = context.config;
  const compress = compressionOf(context);
  const handles = createHandles(system, openFiles);
  const packer = compress && createPacker();
  const appender = packer ? createPackedAppender(compress, packer) : createAppender();
  const compressor = createCompressor(system, directory, ledger, context);
  const planner = createPlanner({
    ...{ system, directory, active, extension, pathTemplate, rotateSize, rotateAge },
    next: ledger.model.next,
    bytesMax: compress ? packedBytesMax : (bytes) => bytes,
  });
  const crew = system.createCrew?.();
  const folders = new Set<string>();
  let committed = opened.committed;
  let spent = false;
  let fewBatches = 0;
  const width = Math.max(WIDTH_MIN, Math.min(WIDTH_MAX, openFiles >> 3));
  const at = (name: string) => `${directory}/${name}`;

  compressor.push([...ledger.model.files.values()].filter((entry) => entry.finished));

  async function writeBatch(batch: Batch, signal: AbortSignal) {
    const plan = await planner.plan(batch, context.clock.now());
    if (plan.made.length > 0) {
      await ledger.append([
        { make: plan.made.map(({ number, name, createdMs }) => [number, name, createdMs]) },
      ]);
    }
    const unsynced = await makeFoldersOf(plan.made);
    if (crew !== undefined && plan.touched.size >= MANY_FILES) {
      fewBatches = 0;
      await writeMany(crew, plan, signal);
      await crew.syncFolders([...unsynced], signal);
    } else {
      if (++fewBatches === FEW_BATCHES) await crew?.rest();
      await writeFew(plan, unsynced, signal);
    }
    signal.throwIfAborted();
    await commit(batch, plan);
    return stateOf(ledger.model);
  }

  async function writeFew(plan: FilePlan, unsynced: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    await inParallel(plan.made, width, ({ name, number }) =>
      handles.make(at(name)).catch((error) => failedToMake(error, number)),
    );
    const made = new Set(plan.made);
    const begun: { readonly open: OpenFile; readonly length: number }[] = [];
    const append = (target: ActiveFile) => {
      const path = at(target.name);
      return handles.use(path, async (open) => {
        if (!made.has(target)) refuseChanged(path, await open.size(), target.length);
        begun.push({ open, length: target.length });
        target.addedBytes = await appender.append(open, target, signal);
        const [size] = await Promise.all([open.size(), open.sync()]);
        refuseChanged(path, size, target.length + target.addedBytes);
      });
    };
    try {
      await inParallel(
        [
          ...[...plan.touched].map((target) => () => append(target)),
          ...[...unsynced].map((folder) => () => system.syncFolder(folder)),
        ],
        width,
        (work) => work(),
      );
    } catch (error) {
      // All of it is written again, perhaps to new files: one that another program moves now must not keep it.
      await inParallel(begun, width, ({ open, length }) => open.truncate(length).catch(() => {}));
      throw error;
    }
  }

  async function writeMany(threads: Crew, plan: FilePlan, signal: AbortSignal): Promise<void> {
    const made = new Set(plan.made);
    const writes: SmallWrite[] = [];
    await inParallel(plan.touched, width, async (target) => {
      const content = await appender.content(target);
      target.addedBytes = content.reduce((bytes, { length }) => bytes + length, 0);
      writes.push({ path: at(target.name), isNew: made.has(target), position: target.length, content });
    });
    try {
      await threads.write(writes, signal);
    } catch (error) {
      const { path } = error as NodeJS.ErrnoException;
      const failed = plan.made.find(({ name }) => at(name) === path);
      if (failed === undefined) throw error;
      await failedToMake(error, failed.number);
    }
  }

  /** Another program's file: opening must not remove it as a leftover. */
  async function failedToMake(error: unknown, number: number): Promise<never> {
    if (errnoOf(error) === "EEXIST") await ledger.append([{ forget: [number] }]);
    throw error;
  }

  /** Returns the folders whose new entries are still to be synced. */
  async function makeFoldersOf(made: readonly ActiveFile[]): Promise<Set<string>> {
    const unsynced = new Set(made.map(({ name }) => dirname(at(name))));
    for (const folder of [...unsynced]) await makeFolders(folder, unsynced);
    return unsynced;
  }

  /** A folder that exists may be left from a crash, not yet durable: the first time it counts as new. */
  async function makeFolders(folder: string, unsynced: Set<string>): Promise<void> {
    if (folders.has(folder) || folder === directory) return;
    if (folders.size >= FOLDERS_MAX) folders.clear();
    const parent = dirname(folder);
    await makeFolders(parent, unsynced);
    await system.makeFolder(folder);
    unsynced.add(parent);
    folders.add(folder);
  }

  async function commit(batch: Batch, plan: FilePlan): Promise<void> {
    const sequence = ledger.model.sequence + 1;
    const lengths = [...plan.touched].map(
      ({ number, length, addedBytes }) => [number, length + addedBytes] as const,
    );
    const gzipLater = gzip && compress === undefined;
    const packed = plan.finished.filter(({ name }) => isPacked(name, gzipLater));
    const left = plan.finished.filter(({ name }) => !isPacked(name, gzipLater));
    await ledger.append([
      { commit: { sequence, base: committed, position: formatPosition(batch.to), lengths } },
      { finish: packed.map(({ number }) => number) },
      { forget: left.map(({ number }) => number) },
    ]);
    // The next batch comes only when the journal has committed this one.
    committed = sequence;
    for (const target of plan.touched) {
      target.length += target.addedBytes;
      target.pendingBytes = 0;
      target.pending = [];
      target.usedAt = sequence;
    }
    if (plan.finished.length === 0) return;
    await handles.close(plan.finished.map(({ name }) => at(name)));
    compressor.push(packed.map(({ number }) => ledger.model.files.get(number)!));
  }

  return {
    position: parsePosition(ledger.model.position),
    limits: {
      ...(context.format.keepsBytes ? LIMITS : ENCODED_LIMITS),
      ageMsMax: compress ? PACKED_AGE_MS_MAX : AGE_MS_MAX,
    },
    async write(batch, signal) {
      signal.throwIfAborted();
      if (spent) throw new RetryableError("A write failed before; the sink must be opened again.");
      spent = true;
      try {
        const state = await writeBatch(batch, signal);
        spent = false;
        return state;
      } catch (error) {
        throw signal.aborted ? signal.reason : sinkError(error, directory);
      }
    },
    async close() {
      await compressor.close(spent || context.signal.aborted);
      await crew?.rest();
      await packer?.close();
      // All that counts is synced already: a handle that fails to close changes nothing.
      await handles.close().catch(() => {});
      await ledger.close().catch(() => {});
    },
  };
}

/** Another program changed the file. Opening the sink again finds out what can be done. */
function refuseChanged(path: string, size: number | undefined, length: number): void {
  if (size === undefined)
    throw new RetryableError(
      `The file ${path} was removed, moved or replaced while the sink wrote to it. The batch does not count as written: the sink opens its directory again and goes on with what it finds there.`,
    );
  if (size < length)
    throw new RetryableError(`The file ${path} was cut to ${size} of ${length} bytes by another program.`);
}

/** Parquet compresses its own columns. */
export function compressionOf({ config, format }: Pick<SinkContext<FileSettings>, "config" | "format">) {
  return format.container === undefined ? config.compress : undefined;
}

/** The most that bytes can become by compression: both formats store data that they cannot make smaller. */
function packedBytesMax(bytes: number): number {
  return bytes + (bytes >> 8) + 64;
}
