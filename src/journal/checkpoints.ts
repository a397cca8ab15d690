import { Worker } from "node:worker_threads";
import { explain } from "../core/errors.ts";
import { keepHeapFlags } from "../core/heap-flags.ts";
import type { Log } from "../core/log.ts";
import type { Connection } from "./database.ts";

/*
 * SQLite copies the log into the state file within a commit when the log has become long. That writes up to 30 MB and
 * waits for the disk: reading, delivering and the page stood still for half a second. Here a thread with a
 * connection of its own does it while this thread goes on. What is committed meanwhile is copied at the end by a short
 * checkpoint on this thread, because SQLite begins the log anew only after all of it was copied.
 */

export interface CheckpointLimits {
  /** The thread copies when so many frames wait. */
  readonly waiting: number;
  /** A log of this length is copied to its end, so that it begins anew. */
  readonly whole: number;
}

/** In frames of 16 KB. */
const LIMITS: CheckpointLimits = { waiting: 1000, whole: 2000 };
/** If the thread cannot do its work, SQLite does it within a commit, as without a thread. */
const OWN_FRAMES = 6000;
/** After a failure, for example of a full disk. */
const PAUSE_MS = 60_000;

export interface Checkpoints {
  /** Has the log copied if it has become long. To be called after commits. */
  look(): void;
  /** The state file may be closed then. */
  close(): Promise<void>;
}

/** As `PRAGMA wal_checkpoint` tells it: the frames of the log, and how many of them were copied. */
export interface LogLength {
  readonly log: number;
  readonly checkpointed: number;
}

/** What the thread has done, or why it could not. */
export type CheckpointAnswer = LogLength | { readonly failure: string };

/** The thread starts when the log first becomes long. Programs that run from sources, as tests do, have none. */
export function createCheckpoints(
  db: Connection,
  file: string,
  log: Log,
  limits: CheckpointLimits = LIMITS,
): Checkpoints {
  if (import.meta.url.endsWith(".ts")) return { look() {}, close: async () => {} };
  let worker: Worker | undefined;
  let isCopying = false;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;
  db.pragma(`wal_autocheckpoint = ${OWN_FRAMES}`);

  function start(): Worker {
    const thread = new Worker(new URL("./checkpoint-worker.js", import.meta.url), { workerData: file });
    keepHeapFlags(thread);
    thread.unref();
    thread.on("message", take);
    thread.on("error", (error) => take({ failure: explain(error) }));
    thread.on("exit", () => {
      if (worker === thread) worker = undefined;
    });
    return thread;
  }

  function take(answer: CheckpointAnswer): void {
    isCopying = false;
    try {
      if ("failure" in answer) throw new Error(answer.failure);
      if (answer.log >= limits.whole && db.open) lengthOf(db, "PASSIVE");
    } catch (error) {
      pausedUntilMs = performance.now() + PAUSE_MS;
      log.debug({ error }, "The log of the state file could not be copied into it. It is tried again.");
    }
  }

  return {
    look() {
      if (isCopying || performance.now() < pausedUntilMs) return;
      const { log: frames, checkpointed } = lengthOf(db, "NOOP");
      if (frames - Math.max(0, checkpointed) < limits.waiting) return;
      isCopying = true;
      worker ??= start();
      worker.postMessage("copy");
    },
    async close() {
      const thread = worker;
      if (thread === undefined) return;
      const ended = new Promise<void>((resolve) => void thread.once("exit", () => resolve()));
      thread.ref();
      thread.postMessage("close");
      await ended;
    },
  };
}

export function lengthOf(db: Connection, mode: "NOOP" | "PASSIVE"): LogLength {
  return (db.pragma(`wal_checkpoint(${mode})`) as [LogLength])[0];
}
