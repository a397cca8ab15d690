import { Worker } from "node:worker_threads";
import { createGzipWriter, GZIP_PART_BYTES, type GzipWriter, gzipOf } from "./deflate.ts";
import { keepHeapFlags } from "./heap-flags.ts";
import { COMPRESSION } from "./prepare-page.ts";
import type { ResultMemory } from "./result-memory.ts";
import { createCompressor } from "./zstd.ts";

/** `records`: zstd as Kafka's clients compress records, at its default level. */
export type PackKind = "zstd" | "gzip" | "records";

/** Compresses beside the main thread. A result is one gzip member, or one or more zstd frames. */
export interface Packer {
  /**
   * The pieces must stay as they are until it settles: an order is copied when its turn comes, a large one part by
   * part. A failure of the thread rejects, and the next call starts another. A large result is in `memory`.
   */
  pack(kind: PackKind, pieces: readonly Uint8Array[], memory?: ResultMemory): Promise<Uint8Array>;
  close(): Promise<void>;
}

/**
 * A part of an order to the thread, and its answer. The answer's memory begins with what the part adds to the output;
 * it is the order's where that has room. So it is used again, and the thread makes no garbage.
 */
export interface PackMessage {
  readonly id: number;
  readonly kind: PackKind;
  readonly memory: Uint8Array<ArrayBuffer>;
  readonly length: number;
  readonly isLast: boolean;
}

/** Below this the way to the thread and back costs more than the work. */
const THREAD_BYTES_MIN = 32_000;
/** The thread works on one part while the next one is copied. It has more only while they are small. */
const PARTS_MAX = 2;
const SMALL_PARTS_BYTES = 4 << 20;
/** A copy of a whole page at the thread would be ten megabytes. Records have a single frame, as Kafka's clients expect. */
const PART_BYTES_MAX: Readonly<Record<PackKind, number>> = {
  zstd: 2 << 20,
  records: Number.POSITIVE_INFINITY,
  gzip: GZIP_PART_BYTES,
};
/** Input buffers that are kept to be used again: so many, each up to this size, and as many small ones as are at the thread. */
const KEPT_MAX = 4;
const KEPT_BYTES_MAX = 20_000_000;
/** Sizes are rounded up, so that a buffer fits other parts of about the same size. */
const STEP_BYTES = 1 << 20;
const SMALL_STEP_BYTES = 1 << 16;
/** The next output may need more than the last one. */
const SHARE_KEPT = 0.98;
const SHARE_SLACK = 1.05;

/** An order on its way: what the thread has not got yet, and what it has given. */
interface Order {
  readonly id: number;
  readonly kind: PackKind;
  readonly pieces: readonly Uint8Array[];
  readonly length: number;
  /** Bytes that were sent. */
  sent: number;
  /** The lengths of parts at the thread. */
  readonly parts: number[];
  readonly packed: Packed;
  resolve(packed: Uint8Array): void;
  reject(error: unknown): void;
}

/** In this thread; programs that run from sources, as tests do, have no other. */
export function createInlinePacker(): Packer {
  const { whole: compress } = createCompressions();
  return {
    pack: async (kind, pieces) => compress(kind, joined(pieces)),
    close: async () => {},
  };
}

/** With one thread beside this one, which starts with the first large order. */
export function createPacker(): Packer {
  if (import.meta.url.endsWith(".ts")) return createInlinePacker();
  const inline = createInlinePacker();
  /** Orders that were sent, whole or in part. */
  const open = new Map<number, Order>();
  /** Orders of which something is still to be sent. The parts of one go one behind the other. */
  const queued: Order[] = [];
  const kept: Uint8Array<ArrayBuffer>[] = [];
  /** How much of an order's length its output needs. */
  let packedShare = 0;
  let parts = 0;
  let partBytes = 0;
  let worker: Worker | undefined;
  let orders = 0;
  let isClosed = false;

  function started(): Worker {
    if (worker !== undefined) return worker;
    const thread = new Worker(new URL("./packer-worker.js", import.meta.url));
    worker = thread;
    keepHeapFlags(thread);
    thread.on("message", (answer: PackMessage) => {
      if (worker === thread) take(answer);
    });
    thread.on("error", fail);
    return thread;
  }

  function take({ id, memory, length, isLast }: PackMessage): void {
    const order = open.get(id)!;
    order.packed.add(memory.subarray(0, length), isLast);
    keep(memory);
    parts--;
    partBytes -= order.parts.shift()!;
    if (isLast) {
      open.delete(id);
      packedShare = Math.max(order.packed.length / order.length, packedShare * SHARE_KEPT);
      order.resolve(order.packed.bytes());
    }
    sendMore();
    // Only work keeps the process alive; the shared thread is never closed.
    if (open.size === 0) worker?.unref();
  }

  function fail(error: unknown): void {
    for (const order of new Set([...open.values(), ...queued.splice(0)])) order.reject(error);
    open.clear();
    parts = 0;
    partBytes = 0;
    worker = undefined;
  }

  function keep(memory: Uint8Array<ArrayBuffer>): void {
    const isFew = kept.length < KEPT_MAX && memory.length <= KEPT_BYTES_MAX;
    if (isFew || sizeOf(kept) + memory.length <= SMALL_PARTS_BYTES) kept.push(memory);
  }

  function memoryOf(length: number): Uint8Array<ArrayBuffer> {
    const at = kept.findIndex((memory) => memory.length >= length);
    if (at >= 0) return kept.splice(at, 1)[0]!;
    kept.shift();
    const step = length > STEP_BYTES / 2 ? STEP_BYTES : SMALL_STEP_BYTES;
    return new Uint8Array(new ArrayBuffer(Math.ceil(length / step) * step));
  }

  function sendMore(): void {
    while (queued.length > 0 && (parts < PARTS_MAX || partBytes < SMALL_PARTS_BYTES)) {
      const order = queued[0]!;
      send(order);
      if (order.sent === order.length) queued.shift();
    }
  }

  function send(order: Order): void {
    const { id, kind } = order;
    const length = Math.min(order.length - order.sent, PART_BYTES_MAX[kind]);
    const memory = memoryOf(length);
    copyPart(order.pieces, order.sent, memory.subarray(0, length));
    order.sent += length;
    open.set(id, order);
    parts++;
    partBytes += length;
    order.parts.push(length);
    const message: PackMessage = { id, kind, memory, length, isLast: order.sent === order.length };
    const thread = started();
    thread.ref();
    thread.postMessage(message, [memory.buffer]);
  }

  return {
    pack(kind, pieces, memory) {
      const length = sizeOf(pieces);
      if (length < THREAD_BYTES_MIN) return inline.pack(kind, pieces);
      return new Promise((resolve, reject) => {
        if (isClosed) return reject(new Error("The packer was closed."));
        const packed = createPacked(length * packedShare, memory);
        queued.push({ id: ++orders, kind, pieces, length, sent: 0, parts: [], packed, resolve, reject });
        sendMore();
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

/** The thread for bodies of requests, which all sinks share: one compresses more than a network takes. */
const shared: { packer?: Packer } = {};

export function sharedPacker(): Packer {
  shared.packer ??= createPacker();
  return shared.packer;
}

/** Like stored pages in zstd; the speed of a disk matters more than the last tenth of its space. */
export function createCompressions(create = createCompressor) {
  const zstd = create(COMPRESSION);
  const records = create();
  let gzip: GzipWriter | undefined;

  function whole(kind: PackKind, bytes: Uint8Array): Uint8Array {
    switch (kind) {
      case "zstd":
        return zstd(bytes);
      case "records":
        return records(bytes);
      case "gzip":
        gzip ??= createGzipWriter();
        return gzipOf(gzip, bytes);
    }
  }

  return {
    whole,
    /** What a part adds to the output, until the next call. */
    part(kind: PackKind, bytes: Uint8Array, isLast: boolean): readonly Uint8Array[] {
      if (kind !== "gzip") return [whole(kind, bytes)];
      gzip ??= createGzipWriter();
      return gzip.add(bytes, isLast);
    },
  };
}

interface Packed {
  readonly length: number;
  add(part: Uint8Array, isLast: boolean): void;
  bytes(): Uint8Array;
}

/**
 * The output of an order, in one piece of memory. An output lives until its request is answered. Pieces that are joined
 * at the end live nearly as long, and their garbage is as large.
 */
function createPacked(expectedBytes: number, results?: ResultMemory): Packed {
  let memory = results?.take() ?? Buffer.alloc(0);
  let filled = 0;
  return {
    get length() {
      return filled;
    },
    add(part, isLast) {
      const needed = filled + part.length;
      if (needed > memory.length) {
        const expected = Math.max(2 * memory.length, Math.ceil(expectedBytes * SHARE_SLACK));
        const larger = Buffer.allocUnsafeSlow(isLast ? needed : Math.max(needed, expected));
        larger.set(memory.subarray(0, filled));
        memory = larger;
      }
      memory.set(part, filled);
      filled = needed;
    },
    bytes() {
      results?.lend(memory);
      return memory.subarray(0, filled);
    },
  };
}

/** Copies what lies from `from` on in the pieces, as much as there is room for. */
function copyPart(pieces: readonly Uint8Array[], from: number, room: Uint8Array): void {
  let start = 0;
  let filled = 0;
  for (const piece of pieces) {
    const skipped = Math.max(0, from - start);
    start += piece.length;
    if (skipped >= piece.length) continue;
    const part = piece.subarray(skipped, skipped + room.length - filled);
    room.set(part, filled);
    filled += part.length;
    if (filled === room.length) return;
  }
}

function sizeOf(pieces: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.length;
  return bytes;
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
}
