import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { allocateBehind } from "../../core/buffer-pool.ts";
import { collectAfterHuge } from "../../core/collect-garbage.ts";
import { decodeBodyInto, makeLines } from "../../core/page-body.ts";
import { type Attribution, type PreparedPage, preparePage } from "../../core/prepare-page.ts";
import type { Reads } from "../../core/reads.ts";
import { createRecordEngine, recordEvents } from "../../core/record-engine.ts";
import { withEngine } from "../../core/wasm-engine.ts";
import { createPagePacking, type FoundPage, type PackedPage, transferOf } from "./pack.ts";

export interface PrepareOptions {
  /** How converters read events, where records are wanted for recipes. */
  readonly reads?: Reads | undefined;
}

export interface PrepareData extends PrepareOptions {
  /** To the thread that compresses pages. Undefined: this one does. */
  readonly pages: MessagePort | undefined;
}

/** The thread behind preparer.ts: scans a page, makes its identities and the records of its events. */
export interface PrepareOrder {
  readonly kind: "prepare";
  readonly id: number;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly attribution: Attribution;
}

/** Or it decompresses a stored page for a reader, and scans it. */
export interface DecodeOrder {
  readonly kind: "decode";
  readonly id: number;
  readonly stored: Uint8Array<ArrayBuffer>;
  readonly checksum: Uint8Array;
  readonly room: Uint8Array<ArrayBuffer>;
}

export type Order = PrepareOrder | DecodeOrder;

export type WorkerAnswer =
  | PackedPage
  | { readonly id: number; readonly kind: "failed"; readonly body: Uint8Array<ArrayBuffer> }
  | {
      readonly id: number;
      readonly kind: "decoded";
      readonly room: Uint8Array<ArrayBuffer>;
      /** Undefined: it is no page, or damaged. */
      readonly scanned?: { readonly length: number; readonly count: number; readonly hasLineBreaks: boolean };
      readonly columns?: Int32Array;
      readonly timesMs?: Float64Array;
      readonly shapes?: Int32Array;
      readonly runs?: Uint8Array;
    };

const { reads, pages } = workerData as PrepareData;
const recordEngine = reads && createRecordEngine(reads);
const packHere = pages === undefined ? createPagePacking() : undefined;

// The first page finds the engine compiled.
withEngine(() => {});
parentPort?.on("message", (order: Order) => {
  const bytes = (order.kind === "decode" ? order.room : order.body).length;
  const answer = order.kind === "decode" ? decoded(order) : answerOf(order);
  if (answer.kind !== "page") send(parentPort!, answer);
  else if (packHere === undefined) send(pages!, answer);
  else send(parentPort!, packHere(answer));
  collectAfterHuge(bytes);
});

function send(port: MessagePort, message: WorkerAnswer | FoundPage): void {
  port.postMessage(message, transferOf(message));
}

type Failed = Extract<WorkerAnswer, { kind: "failed" }>;

function answerOf({ id, body, attribution }: PrepareOrder): FoundPage | Failed {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const allocate = allocateBehind(body);
  let page: PreparedPage;
  try {
    page = preparePage(bytes, attribution, allocate);
  } catch {
    return { id, kind: "failed", body };
  }
  const records = recordEngine && recordEvents(recordEngine, page.scanned, allocate);
  return {
    ...(records && {
      recordBytes: records.bytes,
      recordPlaces: records.places,
      recordAnswers: records.answers,
    }),
    id,
    kind: "page",
    body,
    count: page.scanned.count,
    hasLineBreaks: page.scanned.hasLineBreaks,
    areLines: makeLines(page.scanned),
    columns: page.scanned.columns,
    scannedTimesMs: page.scanned.timesMs,
    shapes: page.scanned.shapes,
    runs: page.scanned.runs,
    identities: page.identities,
    digests: page.digests,
    timesMs: page.timesMs,
    undated: page.undated,
    organizations: page.organizations,
    organizationIndexes: page.organizationIndexes,
    spans: page.spans,
  };
}

function decoded({ id, stored, checksum, room }: DecodeOrder): WorkerAnswer {
  const nothing = { id, kind: "decoded", room } as const;
  const body = { bytes: bufferOf(stored), checksum: bufferOf(checksum) };
  try {
    const scanned = decodeBodyInto(body, room);
    if (scanned === undefined) return nothing;
    const { bytes, count, hasLineBreaks, columns, timesMs, shapes, runs } = scanned;
    return {
      ...nothing,
      scanned: { length: bytes.length, count, hasLineBreaks },
      columns,
      timesMs,
      shapes,
      runs,
    };
  } catch {
    return nothing;
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
