import { parentPort } from "node:worker_threads";
import { allocateBehind } from "../../core/buffer-pool.ts";
import { encodeBody } from "../../core/page-body.ts";
import {
  type Attribution,
  COMPRESSION,
  type PreparedPage,
  preparePage,
  type Span,
} from "../../core/prepare-page.ts";
import { withEngine } from "../../core/wasm-engine.ts";
import { createPageCompressor } from "../../core/zstd.ts";

/** The thread behind preparer.ts: scans a page, makes its identities and compresses it. */
export interface Order {
  readonly id: number;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly attribution: Attribution;
}

export type WorkerAnswer =
  | {
      readonly id: number;
      readonly kind: "page";
      readonly body: Uint8Array<ArrayBuffer>;
      readonly count: number;
      readonly hasLineBreaks: boolean;
      readonly columns: Int32Array;
      readonly scannedTimesMs: Float64Array;
      readonly runs: Uint8Array;
      readonly identities: Uint8Array;
      readonly digests: Uint32Array;
      readonly timesMs: Float64Array;
      readonly undated: number;
      readonly organizations: readonly (string | null)[];
      readonly organizationIndexes: Uint16Array;
      readonly spans: readonly Span[];
      readonly stored: Uint8Array;
      readonly checksum: Uint8Array;
    }
  | { readonly id: number; readonly kind: "failed"; readonly body: Uint8Array<ArrayBuffer> };

const compress = createPageCompressor(COMPRESSION);

// The first page finds the engine compiled.
withEngine(() => {});
parentPort?.on("message", ({ id, body, attribution }: Order) => {
  const answer = answerOf(id, body, attribution);
  const memory = Object.values(answer)
    .filter((value) => ArrayBuffer.isView(value))
    .map((view) => view.buffer as ArrayBuffer);
  parentPort!.postMessage(answer, [...new Set(memory)]);
});

function answerOf(id: number, body: Uint8Array<ArrayBuffer>, attribution: Attribution): WorkerAnswer {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const allocate = allocateBehind(body);
  let page: PreparedPage;
  try {
    page = preparePage(bytes, attribution, allocate);
  } catch {
    return { id, kind: "failed", body };
  }
  const { bytes: packed, checksum } = encodeBody(page.scanned, compress);
  const stored = allocate(Uint8Array, packed.length);
  stored.set(packed);
  return {
    id,
    kind: "page",
    body,
    count: page.scanned.count,
    hasLineBreaks: page.scanned.hasLineBreaks,
    columns: page.scanned.columns,
    scannedTimesMs: page.scanned.timesMs,
    runs: page.scanned.runs,
    identities: page.identities,
    digests: page.digests,
    timesMs: page.timesMs,
    undated: page.undated,
    organizations: page.organizations,
    organizationIndexes: page.organizationIndexes,
    spans: page.spans,
    stored,
    checksum: new Uint8Array(checksum),
  };
}
