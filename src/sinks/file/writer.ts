import { dirname } from "node:path";
import { RetryableError } from "../../core/errors.ts";
import { createPacker } from "../../core/packer.ts";
import { formatPosition, parsePosition } from "../../core/position.ts";
import type { Batch, Sink, SinkContext } from "../../core/sink.ts";
import { inParallel } from "../shared/in-parallel.ts";
import { type ActiveFile, addTo, createAppender, type Part, partsOf } from "./batch.ts";
import { createCompressor } from "./compress.ts";
import type { FileSettings } from "./config.ts";
import { createHandles } from "./handles.ts";
import type { Ledger } from "./ledger.ts";
import { createPackedAppender } from "./packed.ts";
import { isPacked } from "./packing.ts";
import { fileName, isSharedByDay, pathsOf } from "./path.ts";
import { stateOf } from "./recover.ts";
import { errnoOf, type FileSystem, sinkError } from "./system.ts";

const LIMITS = { recordsMax: 10_000, bytesMax: 16 << 20, ageMsMax: 1000 };
/** Appends and syncs side by side; the system's pool runs four at a time. */
const WIDTH = 8;
/** Files in work. Beyond this those least recently written are finished, a tenth at a time. */
const ACTIVE_MAX = 10_000;
/** Folders that are known to be there and durable. */
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
  const { rotateSize, rotateAge, gzip, openFiles } = context.config;
  const compress = compressionOf(context);
  const pathOf = pathsOf(context.config.path);
  const byDay = isSharedByDay(context.config.path);
  const handles = createHandles(system, openFiles);
  const packer = compress && createPacker();
  const appender = packer ? createPackedAppender(compress, packer) : createAppender();
  const compressor = createCompressor(system, directory, ledger, context.log);
  const folders = new Set<string>();
  let committed = opened.committed;
  let next = ledger.model.next;
  let spent = false;
  const at = (name: string) => `${directory}/${name}`;

  compressor.push([...ledger.model.files.values()].filter((entry) => entry.finished));

  async function writeBatch(batch: Batch, signal: AbortSignal) {
    const plan = await planBatch(batch);
    if (plan.made.length > 0) {
      await ledger.append([
        { make: plan.made.map(({ number, name, createdMs }) => [number, name, createdMs]) },
      ]);
    }
    const unsynced = await makeFiles(plan.made);
    await inParallel(plan.touched, WIDTH, (target) =>
      handles.use(at(target.name), async (open) => {
        target.addedBytes = await appender.append(open, target, signal);
      }),
    );
    await inParallel(unsynced, WIDTH, (folder) => system.syncFolder(folder));
    signal.throwIfAborted();
    await commit(batch, plan);
    return stateOf(ledger.model);
  }

  /** Deals the records out to files; finishes those that are full, old or too many. */
  async function planBatch(batch: Batch): Promise<Plan> {
    const plan: Plan = { made: [], touched: new Set(), finished: [] };
    const nowMs = context.clock.now();
    const finish = (path: string, target: ActiveFile) => {
      active.delete(path);
      plan.finished.push(target);
    };
    for (const [path, target] of active) if (nowMs - target.createdMs >= rotateAge) finish(path, target);
    for (const part of partsOf(batch)) {
      for (let index = dealOut(part, part.from, plan); index < part.to; index = dealOut(part, index, plan)) {
        const path = pathOf(part.event(index));
        const full = active.get(path);
        if (full !== undefined) finish(path, full);
        const target = await newFile(path, nowMs);
        active.set(path, target);
        plan.made.push(target);
      }
    }
    if (active.size > ACTIVE_MAX) for (const [path, target] of leastUsed(plan)) finish(path, target);
    return plan;
  }

  /** From the index on, up to a record whose file is still to be made or is full; gives its index. */
  function dealOut(part: Part, from: number, plan: Plan): number {
    let index = from;
    let alike = from;
    while (index < part.to) {
      const target = active.get(pathOf(part.event(index)));
      if (target === undefined) break;
      const isEmpty = target.length + target.pendingBytes === 0;
      const fits = (end: number) => {
        const bytes = target.pendingBytes + part.size(index, end);
        return target.length + (compress ? packedBytesMax(bytes) : bytes) <= rotateSize;
      };
      // Neighbours mostly go to one file, and all fit; where they do not, one after the other.
      if (index === alike) alike = byDay ? part.alikeFrom(index) : index + 1;
      const end = fits(alike) ? alike : index + 1;
      if (!isEmpty && !fits(end)) break;
      if (target.pendingBytes === 0) plan.touched.add(target);
      addTo(target, part, index, end);
      index = end;
    }
    return index;
  }

  /** A name that is taken by a file which is not ours is passed over: nothing is replaced. */
  async function newFile(path: string, createdMs: number): Promise<ActiveFile> {
    for (;;) {
      const number = next++;
      const name = fileName(path, number, extension);
      if ((await system.size(at(name))) !== undefined) continue;
      return { number, name, createdMs, length: 0, pendingBytes: 0, pending: [], addedBytes: 0, usedAt: 0 };
    }
  }

  function leastUsed(plan: Plan): [string, ActiveFile][] {
    const idle = [...active].filter(([, target]) => !plan.touched.has(target));
    idle.sort(([, a], [, b]) => a.usedAt - b.usedAt);
    return idle.slice(0, active.size - ACTIVE_MAX * 0.9);
  }

  /** Returns the folders whose new entries are still to be synced. */
  async function makeFiles(made: readonly ActiveFile[]): Promise<Set<string>> {
    const unsynced = new Set<string>();
    for (const { name, number } of made) {
      const folder = dirname(at(name));
      await makeFolders(folder, unsynced);
      try {
        await handles.make(at(name));
      } catch (error) {
        // Another program's file: opening must not remove it as a leftover.
        if (errnoOf(error) === "EEXIST") await ledger.append([{ forget: [number] }]);
        throw error;
      }
      unsynced.add(folder);
    }
    return unsynced;
  }

  /** A folder that is there may be left from a crash, not yet durable: the first time it counts as new. */
  async function makeFolders(folder: string, unsynced: Set<string>): Promise<void> {
    if (folders.has(folder) || folder === directory) return;
    if (folders.size >= FOLDERS_MAX) folders.clear();
    const parent = dirname(folder);
    await makeFolders(parent, unsynced);
    await system.makeFolder(folder);
    unsynced.add(parent);
    folders.add(folder);
  }

  async function commit(batch: Batch, plan: Plan): Promise<void> {
    const sequence = ledger.model.sequence + 1;
    const lengths = [...plan.touched].map(
      ({ number, length, addedBytes }) => [number, length + addedBytes] as const,
    );
    const packed = plan.finished.filter(({ name }) => isPacked(name, gzip));
    const left = plan.finished.filter(({ name }) => !isPacked(name, gzip));
    await ledger.append([
      { commit: { sequence, base: committed, position: formatPosition(batch.to), lengths } },
      { finish: packed.map(({ number }) => number) },
      { forget: left.map(({ number }) => number) },
    ]);
    // The next batch comes only when the journal has taken this one over.
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
    limits: LIMITS,
    async write(batch, signal) {
      signal.throwIfAborted();
      if (spent) throw new RetryableError("A write failed before; the sink is to be opened again.");
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
      await packer?.close();
      // Whatever counts is synced already: a handle that fails to close changes nothing.
      await handles.close().catch(() => {});
      await ledger.close().catch(() => {});
    },
  };
}

/** Parquet compresses its own columns. */
export function compressionOf({ config, format }: Pick<SinkContext<FileSettings>, "config" | "format">) {
  return format.container === undefined ? config.compress : undefined;
}

/** The most that bytes can become by compression: both formats store what they cannot make smaller. */
function packedBytesMax(bytes: number): number {
  return bytes + (bytes >> 8) + 64;
}

interface Plan {
  readonly made: ActiveFile[];
  readonly touched: Set<ActiveFile>;
  /** Those that take no more after this batch. */
  readonly finished: ActiveFile[];
}
