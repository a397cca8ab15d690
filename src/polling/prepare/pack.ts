import { allocateBehind } from "../../core/buffer-pool.ts";
import { encodeBody } from "../../core/page-body.ts";
import { COMPRESSION, type Span } from "../../core/prepare-page.ts";
import { createPageCompressor, PAGE_BYTES } from "../../core/zstd.ts";

/** A page that is not compressed yet. */
export interface FoundPage {
  readonly id: number;
  readonly kind: "page";
  readonly body: Uint8Array<ArrayBuffer>;
  readonly count: number;
  readonly hasLineBreaks: boolean;
  readonly areLines: boolean;
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
  readonly shapes: Int32Array;
  readonly recordBytes?: Uint8Array;
  readonly recordPlaces?: Uint32Array;
  readonly recordAnswers?: Int32Array;
}

export interface PackedPage extends FoundPage {
  readonly stored: Uint8Array;
  readonly checksum: Uint8Array;
}

/** Compresses pages for the journal and makes their checksums, in whatever thread it is called. */
export function createPagePacking(): (page: FoundPage) => PackedPage {
  const compress = createPageCompressor(COMPRESSION);
  return (page) => {
    const { body, columns, count, hasLineBreaks, areLines, scannedTimesMs, shapes, runs } = page;
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    const scanned = { bytes, columns, count, hasLineBreaks, areLines, timesMs: scannedTimesMs, shapes, runs };
    const encoded = encodeBody(scanned, compress, page.organizationIndexes);
    const stored =
      encoded.bytes.length > PAGE_BYTES ? viewOf(encoded.bytes) : copyBehind(page, encoded.bytes);
    return { ...page, stored, checksum: new Uint8Array(encoded.checksum) };
  };
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function copyBehind(page: FoundPage, bytes: Buffer): Uint8Array {
  const copy = allocateBehind(usedOf(page))(Uint8Array, bytes.length);
  copy.set(bytes);
  return copy;
}

/** The part of the body's memory that is in use. */
function usedOf(page: FoundPage): Uint8Array<ArrayBuffer> {
  const { buffer } = page.body;
  let end = 0;
  for (const view of Object.values(page))
    if (ArrayBuffer.isView(view) && view.buffer === buffer)
      end = Math.max(end, view.byteOffset + view.byteLength);
  return new Uint8Array(buffer, 0, end);
}

/** The memory of all arrays in a message, each once. */
export function transferOf(message: object): ArrayBuffer[] {
  const views = Object.values(message).filter((value) => ArrayBuffer.isView(value));
  return [...new Set(views.map((view) => view.buffer as ArrayBuffer))];
}
