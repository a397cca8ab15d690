import type { Batch } from "../../core/sink.ts";
import { inParallel } from "../shared/in-parallel.ts";
import { type ActiveFile, addTo, type Part, partsOf } from "./batch.ts";
import { fileName, isSharedByDay, pathsOf } from "./path.ts";
import type { FileSystem } from "./system.ts";

/** Files in work. Beyond this those least recently written are finished, a tenth at a time. */
const ACTIVE_MAX = 10_000;
const LOOKS_AT_ONCE = 32;

/** The files of one batch. */
export interface FilePlan {
  readonly made: ActiveFile[];
  readonly touched: Set<ActiveFile>;
  /** Those that take no more after this batch. */
  readonly finished: ActiveFile[];
}

export interface PlannerOptions {
  readonly system: FileSystem;
  readonly directory: string;
  /** By path without number and extension; in the order of their making. */
  readonly active: Map<string, ActiveFile>;
  readonly extension: string;
  readonly pathTemplate: string;
  readonly rotateSize: number;
  readonly rotateAge: number;
  /** The number of the next new file. */
  readonly next: number;
  /** The most that so many bytes of records can add to a file. */
  bytesMax(bytes: number): number;
}

/** Deals the records of batches out to files. */
export function createPlanner(options: PlannerOptions) {
  const { system, directory, active, extension, rotateSize, rotateAge, bytesMax } = options;
  const pathOf = pathsOf(options.pathTemplate);
  const byDay = isSharedByDay(options.pathTemplate);
  let { next } = options;

  /** From the index on, up to a record whose file is still to be made or is full; gives its index. */
  function dealOut(part: Part, from: number, plan: FilePlan): number {
    let index = from;
    let alike = from;
    while (index < part.to) {
      const target = active.get(pathOf(part.event(index)));
      if (target === undefined) break;
      const isEmpty = target.length + target.pendingBytes === 0;
      const fits = (end: number) =>
        target.length + bytesMax(target.pendingBytes + part.size(index, end)) <= rotateSize;
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

  function newFile(path: string, createdMs: number): ActiveFile {
    const number = next++;
    const name = fileName(path, number, extension);
    return { number, name, createdMs, length: 0, pendingBytes: 0, pending: [], addedBytes: 0, usedAt: 0 };
  }

  /** A name that is taken by a file which is not ours is passed over: nothing is replaced. */
  async function passOverTaken(made: ActiveFile[]): Promise<void> {
    await inParallel(made, LOOKS_AT_ONCE, async (target) => {
      const path = target.name.slice(0, -fileName("", target.number, extension).length);
      while ((await system.size(`${directory}/${target.name}`)) !== undefined) {
        target.number = next++;
        target.name = fileName(path, target.number, extension);
      }
    });
    // The ledger keeps files in the order of their numbers.
    made.sort((a, b) => a.number - b.number);
  }

  function leastUsed(plan: FilePlan): [string, ActiveFile][] {
    const idle = [...active].filter(([, target]) => !plan.touched.has(target));
    idle.sort(([, a], [, b]) => a.usedAt - b.usedAt);
    return idle.slice(0, active.size - ACTIVE_MAX * 0.9);
  }

  return {
    /** Also finishes files that are full, old or too many. */
    async plan(batch: Batch, nowMs: number): Promise<FilePlan> {
      const plan: FilePlan = { made: [], touched: new Set(), finished: [] };
      const finish = (path: string, target: ActiveFile) => {
        active.delete(path);
        plan.finished.push(target);
      };
      for (const [path, target] of active) if (nowMs - target.createdMs >= rotateAge) finish(path, target);
      for (const part of partsOf(batch)) {
        for (let at = dealOut(part, part.from, plan); at < part.to; at = dealOut(part, at, plan)) {
          const path = pathOf(part.event(at));
          const full = active.get(path);
          if (full !== undefined) finish(path, full);
          const target = newFile(path, nowMs);
          active.set(path, target);
          plan.made.push(target);
        }
      }
      if (active.size > ACTIVE_MAX) for (const [path, target] of leastUsed(plan)) finish(path, target);
      await passOverTaken(plan.made);
      return plan;
    },
  };
}
