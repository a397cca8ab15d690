import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../core/clock.ts";
import { keepHeapFlags } from "../../core/heap-flags.ts";
import type { EncodedSlice, EncodeOrder, Encoder } from "../../core/page-slice.ts";
import type { WorkerOrder, WorkerResult } from "./worker.ts";

/** A thread that has had nothing to do for so long ends, with its memory. */
const IDLE_MS = 60_000;
/** With fewer cores, the main thread and the one that prepares pages keep all of them busy. */
const CORES_MIN = 4;
const THREADS = 2;

/** Encodes beside the main thread. Undefined where there are few cores, and for programs that run from sources. */
export function createEncoder(clock: Clock, cores = availableParallelism()): Encoder | undefined {
  if (import.meta.url.endsWith(".ts") || cores < CORES_MIN) return undefined;
  const threads = Array.from({ length: THREADS }, () => createThread(clock));
  let next = 0;
  return {
    encode: (order) => threads[next++ % THREADS]!.encode(order),
    async close() {
      await Promise.all(threads.map((thread) => thread.close()));
    },
  };
}

/** One thread, which starts with its first order. */
function createThread(clock: Clock): Encoder {
  const waiting = new Map<number, (encoded: EncodedSlice | undefined) => void>();
  const closed = new AbortController();
  let worker: Worker | undefined;
  let orders = 0;
  let isUsed = false;

  function started(): Worker {
    isUsed = true;
    if (worker !== undefined) return worker;
    const own = new Worker(new URL("./worker.js", import.meta.url));
    worker = own;
    keepHeapFlags(own);
    own.unref();
    own.on("message", ({ id, encoded }: WorkerResult) => {
      waiting.get(id)?.(encoded);
      waiting.delete(id);
    });
    own.on("error", giveUp);
    endWhenIdle(own).catch(() => {});
    return own;
  }

  /** The events of open orders are encoded by the main thread. The next order starts another thread. */
  function giveUp(): void {
    worker = undefined;
    for (const answer of waiting.values()) answer(undefined);
    waiting.clear();
  }

  async function endWhenIdle(own: Worker): Promise<void> {
    while (worker === own) {
      isUsed = false;
      await clock.sleep(IDLE_MS, closed.signal);
      if (isUsed || waiting.size > 0 || worker !== own) continue;
      worker = undefined;
      await own.terminate();
    }
  }

  return {
    encode: (order) =>
      new Promise((resolve) => {
        if (closed.signal.aborted) return resolve(undefined);
        const id = ++orders;
        waiting.set(id, resolve);
        const message: WorkerOrder = { id, order };
        started().postMessage(message, memoryOf(order));
      }),
    async close() {
      const closing = worker;
      closed.abort();
      giveUp();
      await closing?.terminate();
    },
  };
}

function memoryOf({ slice }: EncodeOrder): ArrayBuffer[] {
  const { bytes, columns, timesMs, runs, identities } = slice;
  return [bytes, columns, timesMs, runs, ...(identities === undefined ? [] : [identities])].map(
    ({ buffer }) => buffer,
  );
}
