import { Worker } from "node:worker_threads";
import { gzipSync, constants as zlibConstants } from "node:zlib";
import { COMPRESSION } from "./prepare-page.ts";
import { type Compress, createCompressor } from "./zstd.ts";

export type PackKind = "zstd" | "gzip";

/** Compresses beside the main thread. Each result is a whole zstd frame or gzip member. */
export interface Packer {
  /** The pieces are copied before this returns. A failure of the thread rejects, and the next call starts another. */
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
/** Input buffers that wait to be used again, and the size up to which they are kept. */
const KEPT_MAX = 4;
const KEPT_BYTES_MAX = 20_000_000;
const STEP_BYTES = 1 << 20;

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
  const waiting = new Map<number, { resolve(packed: Uint8Array): void; reject(error: unknown): void }>();
  const kept: Uint8Array<ArrayBuffer>[] = [];
  let worker: Worker | undefined;
  let orders = 0;

  function started(): Worker {
    if (worker !== undefined) return worker;
    worker = new Worker(new URL("./packer-worker.js", import.meta.url));
    worker.unref();
    worker.on("message", ({ id, memory, packed }: PackAnswer) => {
      if (kept.length < KEPT_MAX && memory.length <= KEPT_BYTES_MAX) kept.push(memory);
      waiting.get(id)?.resolve(packed);
      waiting.delete(id);
    });
    worker.on("error", fail);
    return worker;
  }

  function fail(error: unknown): void {
    for (const order of waiting.values()) order.reject(error);
    waiting.clear();
    worker = undefined;
  }

  function memoryOf(length: number): Uint8Array<ArrayBuffer> {
    const at = kept.findIndex((memory) => memory.length >= length);
    if (at >= 0) return kept.splice(at, 1)[0]!;
    kept.shift();
    return new Uint8Array(new ArrayBuffer(Math.ceil(length / STEP_BYTES) * STEP_BYTES));
  }

  return {
    pack(kind, pieces) {
      const length = sizeOf(pieces);
      if (length < THREAD_BYTES_MIN) return inline.pack(kind, pieces);
      const memory = memoryOf(length);
      let at = 0;
      for (const piece of pieces) {
        memory.set(piece, at);
        at += piece.length;
      }
      const order: PackOrder = { id: ++orders, kind, memory, length };
      return new Promise((resolve, reject) => {
        waiting.set(order.id, { resolve, reject });
        started().postMessage(order, [memory.buffer]);
      });
    },
    async close() {
      const closing = worker;
      fail(new Error("The packer was closed."));
      await closing?.terminate();
    },
  };
}

/** Like stored pages in zstd; the speed of a disk matters more than the last tenth of its space. */
export function createCompressions(): Readonly<Record<PackKind, Compress>> {
  return {
    zstd: createCompressor(COMPRESSION),
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
