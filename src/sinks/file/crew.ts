import { Worker } from "node:worker_threads";
import { keepHeapFlags } from "../../core/heap-flags.ts";

/**
 * Writes very many small files side by side, each durable when its order is done. A journalling file system commits
 * syncs that come together at once, and Node's own pool runs only four at a time. The threads start with the first
 * order and end with `rest`.
 */
export interface Crew {
  /** After an abort it resolves early, with writes left out. */
  write(writes: readonly SmallWrite[], signal: AbortSignal): Promise<void>;
  syncFolders(paths: readonly string[], signal: AbortSignal): Promise<void>;
  /** Ends the threads; they come again when needed. */
  rest(): Promise<void>;
}

export interface SmallWrite {
  readonly path: string;
  /** The file must not be there yet; otherwise it must. */
  readonly isNew: boolean;
  readonly position: number;
  readonly content: readonly Uint8Array[];
}

/** One message to a thread: writes with their bytes one behind the other, or folders to sync. */
export interface CrewOrder {
  readonly id: number;
  readonly writes: readonly {
    readonly path: string;
    readonly isNew: boolean;
    readonly position: number;
    readonly length: number;
  }[];
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly folders: readonly string[];
}

/** The first failure; the order's other files may or may not be written. */
export interface CrewAnswer {
  readonly id: number;
  readonly failure?: { readonly message: string; readonly code: string | undefined; readonly path: string };
}

/** Each takes 8 MB of memory. */
const THREADS = 6;
/** Few enough that all threads have work, many enough that messages cost little. */
const FILES_PER_ORDER = 24;

/** Undefined where a program runs from sources, which threads cannot load. */
export function createCrew(): Crew | undefined {
  if (import.meta.url.endsWith(".ts")) return undefined;
  let threads: Thread[] = [];

  /** Each thread takes the next order when it has finished one. All that began have ended when this settles. */
  async function run<Item>(
    items: readonly Item[],
    orderOf: (slice: readonly Item[]) => Omit<CrewOrder, "id">,
    signal: AbortSignal,
  ): Promise<void> {
    const parts = slices(items);
    while (threads.length < Math.min(THREADS, parts.length)) threads.push(startThread());
    const queue = parts.values();
    let failed = false;
    const work = async (thread: Thread) => {
      for (const part of queue) {
        if (failed || signal.aborted) return;
        try {
          await thread.run(orderOf(part));
        } catch (error) {
          failed = true;
          throw error;
        }
      }
    };
    const results = await Promise.allSettled(threads.map(work));
    const rejected = results.find((result) => result.status === "rejected");
    if (rejected !== undefined) throw rejected.reason;
  }

  return {
    write: (writes, signal) => run(writes, orderOf, signal),
    syncFolders: (paths, signal) =>
      run(paths, (folders) => ({ writes: [], bytes: new Uint8Array(0), folders }), signal),
    async rest() {
      const ending = threads;
      threads = [];
      await Promise.all(ending.map((thread) => thread.end()));
    },
  };
}

function orderOf(writes: readonly SmallWrite[]): Omit<CrewOrder, "id"> {
  const content = writes.flatMap((write) => write.content);
  const bytes = new Uint8Array(content.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const piece of content) {
    bytes.set(piece, at);
    at += piece.length;
  }
  const lengthOf = (write: SmallWrite) => write.content.reduce((total, { length }) => total + length, 0);
  return {
    writes: writes.map((write) => ({
      path: write.path,
      isNew: write.isNew,
      position: write.position,
      length: lengthOf(write),
    })),
    bytes,
    folders: [],
  };
}

function slices<Item>(items: readonly Item[]): Item[][] {
  const result: Item[][] = [];
  for (let at = 0; at < items.length; at += FILES_PER_ORDER)
    result.push(items.slice(at, at + FILES_PER_ORDER));
  return result;
}

type Thread = ReturnType<typeof startThread>;

function startThread() {
  const worker = new Worker(new URL("./crew-worker.js", import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 },
  });
  keepHeapFlags(worker);
  worker.unref();
  let settle: { resolve(): void; reject(error: unknown): void } | undefined;
  let orders = 0;
  worker.on("message", ({ failure }: CrewAnswer) => {
    if (failure === undefined) settle?.resolve();
    else
      settle?.reject(Object.assign(new Error(failure.message), { code: failure.code, path: failure.path }));
  });
  worker.on("error", (error) => settle?.reject(error));
  worker.on("exit", () => settle?.reject(new Error("A thread that writes files has ended.")));
  return {
    run(order: Omit<CrewOrder, "id">): Promise<void> {
      return new Promise((resolve, reject) => {
        settle = { resolve, reject };
        worker.postMessage({ id: ++orders, ...order }, [order.bytes.buffer]);
      });
    },
    end: async () => void (await worker.terminate()),
  };
}
