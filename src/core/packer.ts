import { Worker } from "node:worker_threads";
import { gzipSync, constants as zlibConstants } from "node:zlib";
import { keepHeapFlags } from "./heap-flags.ts";
import { COMPRESSION } from "./prepare-page.ts";
import { type Compress, createCompressor } from "./zstd.ts";

/** `records`: zstd as Kafka's clients compress records, at its default level. */
export type PackKind = "zstd" | "gzip" | "records";

/** Compresses beside the main thread. Each result is a whole zstd frame or gzip member. */
export interface Packer {
  /**
   * The pieces must stay as they are until it settles: an order is copied when its turn comes. A failure of the thread
   * rejects, and the next call starts another.
   */
  pack(kind: PackKind, pieces: readonly Uint8Array[]): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** An order to the thread, and its answer. The input's memory comes back with the answer to be used again. */
export interface PackOrder {
  readonly id: number;
  readonly kind: PackKind;
  readonly memory: Uint8Array<ArrayBuffer>;
  readonly length: number;
}
export interface PackAnswer {
  readonly id: number;
  readonly memory: Uint8Array<ArrayBuffer>;
  readonly packed: Uint8Array<ArrayBuffer>;
}

/** Below this the way to the thread and back costs more than the work. */
const THREAD_BYTES_MIN = 32_000;
/** Orders at the thread: it works on one while the next one is copied. The others wait without memory of their own. */
const ORDERS_MAX = 2;
/** The size up to which input buffers are kept to be used again. */
const KEPT_BYTES_MAX = 20_000_000;
const STEP_BYTES = 4 << 20;

interface Waiting {
  resolve(packed: Uint8Array): void;
  reject(error: unknown): void;
}

/** In this thread; programs that run from sources, as tests do, have no other. */
export function createInlinePacker(): Packer {
  const compress = createCompressions();
  return {
    pack: async (kind, pieces) => compress[kind](joined(pieces)),
    close: async () => {},
  };
}

/** With one thread beside this one, which starts with the first large order. */
export function createPacker(): Packer {
  if (import.meta.url.endsWith(".ts")) return createInlinePacker();
  const inline = createInlinePacker();
  const waiting = new Map<number, Waiting>();
  /** Orders that wait for their turn. */
  const queued: (() => void)[] = [];
  const kept: Uint8Array<ArrayBuffer>[] = [];
  let worker: Worker | undefined;
  let orders = 0;
  let isClosed = false;

  function started(): Worker {
    if (worker !== undefined) return worker;
    worker = new Worker(new URL("./packer-worker.js", import.meta.url));
    keepHeapFlags(worker);
    worker.unref();
    worker.on("message", ({ id, memory, packed }: PackAnswer) => {
      if (kept.length < ORDERS_MAX && memory.length <= KEPT_BYTES_MAX) kept.push(memory);
      waiting.get(id)?.resolve(packed);
      waiting.delete(id);
      queued.shift()?.();
    });
    worker.on("error", fail);
    return worker;
  }

  function fail(error: unknown): void {
    for (const order of waiting.values()) order.reject(error);
    waiting.clear();
    worker = undefined;
    for (const send of queued.splice(0)) send();
  }

  function memoryOf(length: number): Uint8Array<ArrayBuffer> {
    const at = kept.findIndex((memory) => memory.length >= length);
    if (at >= 0) return kept.splice(at, 1)[0]!;
    kept.shift();
    return new Uint8Array(new ArrayBuffer(Math.ceil(length / STEP_BYTES) * STEP_BYTES));
  }

  function send(kind: PackKind, pieces: readonly Uint8Array[], length: number, order: Waiting): void {
    const memory = memoryOf(length);
    let at = 0;
    for (const piece of pieces) {
      memory.set(piece, at);
      at += piece.length;
    }
    const id = ++orders;
    waiting.set(id, order);
    const message: PackOrder = { id, kind, memory, length };
    started().postMessage(message, [memory.buffer]);
  }

  return {
    pack(kind, pieces) {
      const length = sizeOf(pieces);
      if (length < THREAD_BYTES_MIN) return inline.pack(kind, pieces);
      return new Promise((resolve, reject) => {
        const go = () => {
          if (isClosed) reject(new Error("The packer was closed."));
          else send(kind, pieces, length, { resolve, reject });
        };
        if (waiting.size < ORDERS_MAX) go();
        else queued.push(go);
      });
    },
    async close() {
      const closing = worker;
      isClosed = true;
      fail(new Error("The packer was closed."));
      await closing?.terminate();
    },
  };
}

/** Like stored pages in zstd; the speed of a disk matters more than the last tenth of its space. */
export function createCompressions(): Readonly<Record<PackKind, Compress>> {
  return {
    zstd: createCompressor(COMPRESSION),
    records: createCompressor(),
    gzip: (bytes) => gzipSync(bytes, { level: zlibConstants.Z_BEST_SPEED, chunkSize: 256 << 10 }),
  };
}

function sizeOf(pieces: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.length;
  return bytes;
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
}
