import { parentPort } from "node:worker_threads";
import zstd from "zstd-napi/binding.js";
import { type Attribution, COMPRESSION_LEVEL, type PreparedPage, preparePage } from "../core/page.ts";

/** The thread behind preparer.ts: scans a page, makes its identities and compresses it. */
export interface Order {
  readonly id: number;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly attribution: Attribution;
  readonly fetchedAtMs: number;
}

export type Answer =
  | {
      readonly id: number;
      readonly kind: "page";
      readonly body: Uint8Array<ArrayBuffer>;
      readonly count: number;
      readonly hasLineBreaks: boolean;
      readonly columns: Int32Array<ArrayBuffer>;
      readonly identities: Uint8Array<ArrayBuffer>;
      readonly digests: Uint32Array<ArrayBuffer>;
      readonly timesMs: Float64Array<ArrayBuffer>;
      readonly organizations: readonly (string | null)[];
      readonly organizationIndexes: Uint16Array<ArrayBuffer>;
      readonly compressed: Uint8Array<ArrayBuffer>;
    }
  | { readonly id: number; readonly kind: "failed"; readonly body: Uint8Array<ArrayBuffer> };

const context = new zstd.CCtx();
/** Kept from page to page: ten megabytes that nobody has to collect. */
let room = Buffer.alloc(0);

function compress(bytes: Buffer): Buffer {
  const bound = zstd.compressBound(bytes.length);
  if (room.length < bound) room = Buffer.allocUnsafeSlow(bound);
  return room.subarray(0, context.compress(room, bytes, COMPRESSION_LEVEL));
}

parentPort?.on("message", ({ id, body, attribution, fetchedAtMs }: Order) => {
  const answer = answerOf(id, body, attribution, fetchedAtMs);
  const memory = Object.values(answer)
    .filter((value) => ArrayBuffer.isView(value))
    .map((view) => view.buffer as ArrayBuffer);
  parentPort!.postMessage(answer, [...new Set(memory)]);
});

function answerOf(
  id: number,
  body: Uint8Array<ArrayBuffer>,
  attribution: Attribution,
  fetchedAtMs: number,
): Answer {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let page: PreparedPage;
  try {
    page = preparePage(bytes, attribution, fetchedAtMs);
  } catch {
    return { id, kind: "failed", body };
  }
  return {
    id,
    kind: "page",
    body,
    count: page.scanned.count,
    hasLineBreaks: page.scanned.hasLineBreaks,
    columns: owned(page.scanned.columns, Int32Array),
    identities: owned(page.identities, Uint8Array),
    digests: owned(page.digests, Uint32Array),
    timesMs: owned(page.timesMs, Float64Array),
    organizations: page.organizations,
    organizationIndexes: owned(page.organizationIndexes, Uint16Array),
    compressed: owned(compress(bytes), Uint8Array),
  };
}

/** A view that has its memory to itself can be handed over; others are copied first. */
function owned<
  View extends { readonly buffer: ArrayBufferLike; readonly byteOffset: number; readonly byteLength: number },
  Owned,
>(view: View, type: { new (view: View): Owned }): Owned {
  const whole = view.byteOffset === 0 && view.byteLength === view.buffer.byteLength;
  return whole ? (view as unknown as Owned) : new type(view);
}
