import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { ReadableStore } from "../store/store.ts";
import { checkFilesOf, type PartOrder, type PartResult } from "./check-part.ts";
import type { FromChecker, ToChecker } from "./checker-worker.ts";

/*
 * Checks several parts at a time, each in a thread. Threads have no store: they ask this thread to read.
 *
 *   1. to the thread     order    the files of a part
 *   2. from the thread   read     a path and a range, as often as it needs
 *   3. to the thread     bytes    the answer to a read
 *   4. from the thread   result   findings and totals
 *
 * A read that fails ends its order with the store's own error; the thread drops the order.
 */
export interface Checkers {
  /** So many orders at a time keep all threads busy. */
  readonly width: number;
  check(order: PartOrder): Promise<PartResult>;
  close(): Promise<void>;
}

const THREADS_MAX = 4;

/** Programs that run from sources, as tests do, have one thread. */
export function createCheckers(store: ReadableStore, threads: number = threadsOf()): Checkers {
  if (threads < 2) return { width: 1, check: (order) => checkFilesOf(store, order), close: async () => {} };
  const crew = Array.from({ length: threads }, () => createChecker(store));
  return {
    // One more than threads: the next order is there when one ends.
    width: threads + 1,
    check: (order) =>
      crew.reduce((best, checker) => (checker.open() < best.open() ? checker : best)).check(order),
    close: async () => void (await Promise.all(crew.map((checker) => checker.close()))),
  };
}

function threadsOf(): number {
  return import.meta.url.endsWith(".ts") ? 1 : Math.min(THREADS_MAX, availableParallelism());
}

function createChecker(store: ReadableStore) {
  const waiting = new Map<number, { resolve(result: PartResult): void; reject(error: unknown): void }>();
  let orders = 0;
  const worker = new Worker(new URL("./checker-worker.js", import.meta.url));
  const send = (message: ToChecker, moved: ArrayBuffer[] = []) => worker.postMessage(message, moved);

  function end(id: number): { resolve(result: PartResult): void; reject(error: unknown): void } | undefined {
    const order = waiting.get(id);
    waiting.delete(id);
    return order;
  }

  async function answer(message: FromChecker & { readonly kind: "read" | "stat" }): Promise<void> {
    const { id } = message;
    try {
      if (message.kind === "stat") return send({ kind: "found", id, found: await store.stat(message.path) });
      const bytes = ownMemory(await store.read(message.path, message.range));
      send({ kind: "bytes", id, bytes }, bytes === undefined ? [] : [bytes.buffer]);
    } catch (error) {
      end(id)?.reject(error);
      send({ kind: "drop", id });
    }
  }

  worker.on("message", (message: FromChecker) => {
    switch (message.kind) {
      case "result":
        return end(message.id)?.resolve(message.result);
      case "failed":
        return end(message.id)?.reject(message.error);
      case "read":
      case "stat":
        return void answer(message);
    }
  });
  worker.on("error", (error) => {
    for (const order of waiting.values()) order.reject(error);
    waiting.clear();
  });

  return {
    open: () => waiting.size,
    check(order: PartOrder): Promise<PartResult> {
      const id = ++orders;
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        send({ kind: "order", id, order });
      });
    },
    close: () => worker.terminate(),
  };
}

/** Memory is moved, not copied, unless it is a slice of Node's pool. */
function ownMemory(bytes: Buffer | undefined): Uint8Array<ArrayBuffer> | undefined {
  if (bytes === undefined) return undefined;
  const { buffer, byteOffset, byteLength } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength > Buffer.poolSize
    ? new Uint8Array(buffer, byteOffset, byteLength)
    : new Uint8Array(bytes);
}
