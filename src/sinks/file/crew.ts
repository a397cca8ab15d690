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
  /** Of any length: the writes say how much of it they use. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly folders: readonly string[];
}

/** The first failure; the order's other files may or may not be written. The order's memory comes back. */
export interface CrewAnswer {
  readonly id: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly failure?: { readonly message: string; readonly code: string | undefined; readonly path: string };
}

/** Each takes 8 MB of memory, so there are more of them only for very many files. Two more made nothing faster. */
const THREADS = 3;
const THREADS_MAX = 4;
const VERY_MANY = 500;
/** Few enough that all threads have work, many enough that messages cost little. */
const FILES_PER_ORDER = 24;
/** Orders of large files have fewer: each thread holds one order, and as many wait to be used again. */
const ORDER_BYTES = 1_048_576;
/** Sizes are rounded up, so that memory fits other orders of about the same size. */
const STEP_BYTES = 262_144;

/** Undefined where a program runs from sources, which threads cannot load. */
export function createCrew(): Crew | undefined {
  if (import.meta.url.endsWith(".ts")) return undefined;
  let threads: Thread[] = [];
  const memory = createOrderMemory();

  /** Each thread takes the next order when it has finished one. All that began have ended when this settles. */
  async function run<Item>(
    items: readonly Item[],
    sizeOf: (item: Item) => number,
    orderOf: (slice: readonly Item[]) => Omit<CrewOrder, "id">,
    signal: AbortSignal,
  ): Promise<void> {
    const parts = ordersOfFiles(items, sizeOf);
    const wanted = items.length < VERY_MANY ? THREADS : THREADS_MAX;
    while (threads.length < Math.min(wanted, parts.length)) threads.push(startThread());
    const queue = parts.values();
    let failed = false;
    const work = async (thread: Thread) => {
      for (const part of queue) {
        if (failed || signal.aborted) return;
        try {
          memory.free(await thread.run(orderOf(part)));
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
    write: (writes, signal) => run(writes, lengthOf, (slice) => orderOf(slice, memory.take), signal),
    syncFolders: (paths, signal) =>
      run(
        paths,
        () => 0,
        (folders) => ({ writes: [], bytes: new Uint8Array(0), folders }),
        signal,
      ),
    async rest() {
      const ending = threads;
      threads = [];
      memory.drop();
      await Promise.all(ending.map((thread) => thread.end()));
    },
  };
}

/**
 * Memory for orders, used again. A thread frees what it received only when it next collects garbage: that kept 20 MB
 * in an export of 50 organizations.
 */
function createOrderMemory() {
  let spare: Uint8Array<ArrayBuffer>[] = [];
  return {
    take(length: number): Uint8Array<ArrayBuffer> {
      const fitting = spare.findIndex((bytes) => bytes.length >= length && bytes.length <= 4 * length);
      if (fitting >= 0) return spare.splice(fitting, 1)[0]!;
      const bytes = Buffer.allocUnsafeSlow(Math.ceil(length / STEP_BYTES) * STEP_BYTES);
      return new Uint8Array(bytes.buffer);
    },
    free(bytes: Uint8Array<ArrayBuffer>): void {
      if (bytes.length === 0) return;
      spare.push(bytes);
      if (spare.length > THREADS_MAX) spare.shift();
    },
    drop(): void {
      spare = [];
    },
  };
}

function orderOf(
  writes: readonly SmallWrite[],
  memoryFor: (length: number) => Uint8Array<ArrayBuffer>,
): Omit<CrewOrder, "id"> {
  const content = writes.flatMap((write) => write.content);
  const bytes = memoryFor(content.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const piece of content) {
    bytes.set(piece, at);
    at += piece.length;
  }
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

function lengthOf({ content }: SmallWrite): number {
  return content.reduce((total, { length }) => total + length, 0);
}

/** In their order: few files, and few bytes unless a file has more alone. */
export function ordersOfFiles<Item>(items: readonly Item[], sizeOf: (item: Item) => number): Item[][] {
  const result: Item[][] = [];
  let bytes = 0;
  for (const item of items) {
    const last = result.at(-1);
    bytes += sizeOf(item);
    if (last !== undefined && last.length < FILES_PER_ORDER && bytes <= ORDER_BYTES) last.push(item);
    else {
      result.push([item]);
      bytes = sizeOf(item);
    }
  }
  return result;
}

type Thread = ReturnType<typeof startThread>;

function startThread() {
  const worker = new Worker(new URL("./crew-worker.js", import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 },
  });
  keepHeapFlags(worker);
  worker.unref();
  let settle: { resolve(bytes: CrewAnswer["bytes"]): void; reject(error: unknown): void } | undefined;
  let orders = 0;
  worker.on("message", ({ failure, bytes }: CrewAnswer) => {
    if (failure === undefined) settle?.resolve(bytes);
    else
      settle?.reject(Object.assign(new Error(failure.message), { code: failure.code, path: failure.path }));
  });
  worker.on("error", (error) => settle?.reject(error));
  worker.on("exit", () => settle?.reject(new Error("A thread that writes files has ended.")));
  return {
    /** Gives the order's memory back. */
    run(order: Omit<CrewOrder, "id">): Promise<CrewAnswer["bytes"]> {
      return new Promise((resolve, reject) => {
        settle = { resolve, reject };
        worker.postMessage({ id: ++orders, ...order }, [order.bytes.buffer]);
      });
    },
    end: async () => void (await worker.terminate()),
  };
}
