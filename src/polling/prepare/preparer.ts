import { availableParallelism } from "node:os";
import { MessageChannel, Worker } from "node:worker_threads";
import type { Clock } from "../../core/clock.ts";
import { keepHeapFlags } from "../../core/heap-flags.ts";
import type { PageBody } from "../../core/page-body.ts";
import { type DecodedBody, decodeHere, inlineDecoder, type PageDecoder } from "../../core/page-decoder.ts";
import type { LeasedBytes } from "../../core/page-lease.ts";
import { type Attribution, type PreparedPage, preparePage } from "../../core/prepare-page.ts";
import { PROCESS_SEED } from "../../core/process-seed.ts";
import type { PackData } from "./pack-worker.ts";
import type { Order, PrepareData, PrepareOptions, WorkerAnswer } from "./worker.ts";

/** Makes pages ready for the journal, and stored ones ready for slow readers: work for a thread of its own. */
export interface Preparer extends PageDecoder {
  /**
   * Rejects as `preparePage` throws. The lease stays the caller's. The bytes may have been sent to another
   * thread: afterwards they are found in the page, or in the error, alone.
   */
  prepare(body: LeasedBytes, attribution: Attribution): Promise<PreparedPage>;
  close(): Promise<void>;
}

/** Below this the way to the thread and back costs more than the work. */
const BODY_BYTES_MIN = 200_000;
/** Threads that have had nothing to do for so long end, with their memory. */
const IDLE_MS = 60_000;
/** From here on, conversion runs in other threads too. */
const PACKING_CORES_MIN = 4;

/** In this thread; what runs from sources, as tests do, has no other. */
export const inlinePreparer: Preparer = {
  prepare: async ({ bytes }, attribution) => preparePage(bytes, attribution),
  ...inlineDecoder,
  close: async () => {},
};

/**
 * With a thread beside this one for large pages, which finds their events and compresses them. With `reads` it also makes
 * records, which recipes use. It is started at once: the first pages after a start are large.
 *
 * That thread is the slowest part of an export without conversion, so compression gets a second thread there, which makes
 * such an export up to 40% faster. With recipes on few cores the main thread is the slowest, and the second thread would
 * only take 10 to 20 MB.
 */
export function createPreparer(
  clock: Clock,
  options: PrepareOptions = {},
  cores = availableParallelism(),
): Preparer {
  if (import.meta.url.endsWith(".ts")) return inlinePreparer;
  const waiting = new Map<number, { resolve(answer: Done): void; reject(error: unknown): void }>();
  let threads: Threads | undefined;
  let orders = 0;
  let isUsed = true;
  const closed = new AbortController();
  started();
  endWhenIdle().catch(() => {});

  function started(): Worker {
    isUsed = true;
    if (threads !== undefined) return threads.finding;
    const isPackedApart = options.reads === undefined || cores >= PACKING_CORES_MIN;
    const own = startThreads(options, isPackedApart, take, (error) => {
      if (threads !== own) return;
      for (const order of waiting.values()) order.reject(error);
      waiting.clear();
      end().catch(() => {});
    });
    threads = own;
    return own.finding;
  }

  function take(answer: WorkerAnswer): void {
    const order = waiting.get(answer.id);
    waiting.delete(answer.id);
    if (answer.kind === "failed") order?.reject(new PreparationFailedError(answer.body));
    else order?.resolve(answer);
  }

  async function end(): Promise<void> {
    const ended = threads;
    threads = undefined;
    await Promise.all([ended?.finding.terminate(), ended?.packing?.terminate()]);
  }

  function send(order: Order, memory: ArrayBuffer[]): Promise<Done> {
    return new Promise((resolve, reject) => {
      waiting.set(order.id, { resolve, reject });
      started().postMessage(order, memory);
    });
  }

  /** A copy of the stored bytes goes to the thread: this one needs them if the thread fails. */
  async function decode(stored: PageBody, { bytes, lease }: LeasedBytes): Promise<DecodedBody | undefined> {
    if (bytes.length < BODY_BYTES_MIN) return decodeHere(stored, bytes);
    const { length } = bytes;
    const room = ownMemory(bytes);
    const copy = new Uint8Array(stored.bytes);
    const checksum = new Uint8Array(stored.checksum);
    const order = { kind: "decode", id: ++orders, stored: copy, checksum, room } as const;
    let answer: Done;
    try {
      answer = await send(order, [room.buffer, copy.buffer]);
    } catch {
      const own = Buffer.allocUnsafeSlow(length);
      lease.moved(own);
      return decodeHere(stored, own);
    }
    if (answer.kind !== "decoded") throw new Error("The page thread answered another order.");
    const back = bufferOf(answer.room);
    lease.moved(back);
    // Decoded again on this thread, so that the error is the one that belongs to it.
    return decodedOf(answer, stored) ?? decodeHere(stored, back);
  }

  async function endWhenIdle(): Promise<void> {
    for (;;) {
      await clock.sleep(IDLE_MS, closed.signal);
      if (!isUsed && waiting.size === 0) await end();
      isUsed = false;
    }
  }

  return {
    async prepare({ bytes, lease }, attribution) {
      if (bytes.length < BODY_BYTES_MIN) return preparePage(bytes, attribution);
      const own = ownMemory(bytes);
      const order = { kind: "prepare", id: ++orders, body: own, attribution } as const;
      try {
        const answer = await send(order, [own.buffer]);
        if (answer.kind !== "page") throw new Error("The page thread answered another order.");
        const page = pageOf(answer);
        lease.moved(page.scanned.bytes);
        return page;
      } catch (error) {
        if (!(error instanceof PreparationFailedError)) throw error;
        lease.moved(error.body);
        // Retry on this thread: errors lose their class when they cross the worker boundary.
        return preparePage(error.body, attribution);
      }
    },
    decode,
    async close() {
      closed.abort();
      await end();
    },
  };
}

interface Threads {
  readonly finding: Worker;
  readonly packing: Worker | undefined;
}

/** A second thread gets the pages of the first one. Both send their answers to this one. */
function startThreads(
  options: Omit<PrepareData, "pages">,
  isPackedApart: boolean,
  take: (answer: WorkerAnswer) => void,
  fail: (error: unknown) => void,
): Threads {
  const start = (file: string, workerData: PrepareData | PackData) => {
    const { pages } = workerData;
    const transferList = pages === undefined ? [] : [pages];
    const worker = new Worker(new URL(file, import.meta.url), { workerData, transferList });
    keepHeapFlags(worker);
    worker.unref();
    worker.on("message", take);
    worker.on("error", fail);
    return worker;
  };
  const between = isPackedApart ? new MessageChannel() : undefined;
  return {
    finding: start("./worker.js", { ...options, pages: between?.port1 }),
    packing: between && start("./pack-worker.js", { pages: between.port2 }),
  };
}

type Done = Exclude<WorkerAnswer, { kind: "failed" }>;

class PreparationFailedError extends Error {
  override readonly name = "PreparationFailedError";
  readonly body: Buffer;

  constructor(body: Uint8Array) {
    super("A page could not be prepared.");
    this.body = bufferOf(body);
  }
}

/** Memory is handed over, not copied; a slice of Node's pool, which is small, cannot be. */
function ownMemory(body: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = body;
  return buffer instanceof ArrayBuffer && byteOffset === 0 && buffer.byteLength > Buffer.poolSize
    ? new Uint8Array(buffer, 0, byteLength)
    : new Uint8Array(body);
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function pageOf({
  body,
  columns,
  scannedTimesMs,
  runs,
  count,
  hasLineBreaks,
  areLines,
  identities,
  digests,
  timesMs,
  undated,
  organizations,
  organizationIndexes,
  spans,
  stored,
  checksum,
  shapes,
  recordBytes,
  recordPlaces,
  recordAnswers,
}: WorkerAnswer & { kind: "page" }): PreparedPage {
  return {
    ...(recordBytes && {
      records: {
        seed: PROCESS_SEED,
        bytes: recordBytes,
        places: recordPlaces!,
        answers: recordAnswers!,
      },
    }),
    scanned: {
      bytes: bufferOf(body),
      count,
      hasLineBreaks,
      columns,
      timesMs: scannedTimesMs,
      shapes,
      runs,
      areLines,
    },
    identities: bufferOf(identities),
    digests,
    timesMs,
    undated,
    organizations,
    organizationIndexes,
    spans,
    body: { bytes: bufferOf(stored), checksum: bufferOf(checksum) },
  };
}

/** Undefined where the thread found no page. */
function decodedOf(
  { room, scanned, columns, timesMs, shapes, runs }: WorkerAnswer & { kind: "decoded" },
  stored: PageBody,
): DecodedBody | undefined {
  if (scanned === undefined || !columns || !timesMs || !shapes || !runs) return undefined;
  const { length, count, hasLineBreaks } = scanned;
  const bytes = bufferOf(room).subarray(0, length);
  return { scanned: { bytes, count, hasLineBreaks, columns, timesMs, shapes, runs }, body: stored.bytes };
}
