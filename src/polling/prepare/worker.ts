import { parentPort } from "node:worker_threads";
import zstd from "zstd-napi/binding.js";
import { allocateBehind } from "../../core/buffer-pool.ts";
import {
  type Attribution,
  COMPRESSION,
  type PreparedPage,
  preparePage,
  type Span,
} from "../../core/prepare-page.ts";
import { withEngine } from "../../core/wasm-engine.ts";

/** The thread behind preparer.ts: scans a page, makes its identities and compresses it. */
export interface Order {
  readonly id: number;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly attribution: Attribution;
}

export type Answer =
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
      readonly compressed: Uint8Array;
    }
  | { readonly id: number; readonly kind: "failed"; readonly body: Uint8Array<ArrayBuffer> };

const compress = createCompressor();

// The first page finds the engine compiled.
withEngine(() => {});
parentPort?.on("message", ({ id, body, attribution }: Order) => {
  const answer = answerOf(id, body, attribution);
  const memory = Object.values(answer)
    .filter((value) => ArrayBuffer.isView(value))
    .map((view) => view.buffer as ArrayBuffer);
  parentPort!.postMessage(answer, [...new Set(memory)]);
});

function answerOf(id: number, body: Uint8Array<ArrayBuffer>, attribution: Attribution): Answer {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const allocate = allocateBehind(body);
  let page: PreparedPage;
  try {
    page = preparePage(bytes, attribution, allocate);
  } catch {
    return { id, kind: "failed", body };
  }
  const packed = compress(bytes);
  const compressed = allocate(Uint8Array, packed.length);
  compressed.set(packed);
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
    compressed,
  };
}

/** Its buffer is reused for every page: ten megabytes that need not be collected. */
function createCompressor(): (bytes: Buffer) => Buffer {
  const context = new zstd.CCtx();
  for (const [name, value] of Object.entries(COMPRESSION))
    context.setParameter(zstd.CParameter[name as keyof typeof COMPRESSION], value);
  // Searches fewer places, which on large pages costs hardly any size while literals stay compressed. The
  // binding has no name for that parameter, ZSTD_c_literalCompressionMode.
  context.setParameter(zstd.CParameter.targetLength, 4);
  context.setParameter(1002 as never, 1);
  let buffer = Buffer.alloc(0);
  return (bytes) => {
    const bound = zstd.compressBound(bytes.length);
    if (buffer.length < bound) buffer = Buffer.allocUnsafeSlow(bound);
    return buffer.subarray(0, context.compress2(buffer, bytes));
  };
}
