import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { allocateBehind } from "../../core/buffer-pool.ts";
import { encodeBody } from "../../core/page-body.ts";
import { COMPRESSION } from "../../core/prepare-page.ts";
import { createPageCompressor } from "../../core/zstd.ts";
import { transferOf } from "./transfer.ts";
import type { FoundPage, PackedPage } from "./worker.ts";

/*
 * The thread behind worker.ts: compresses pages for the journal and makes their checksums. In one thread with the search
 * for events, this was the slowest part of a raw export: with a thread of its own, the export is 40% faster.
 */

export interface PackData {
  /** From the page thread. */
  readonly pages: MessagePort;
}

const compress = createPageCompressor(COMPRESSION);

(workerData as PackData).pages.on("message", (page: FoundPage) => {
  const answer = packed(page);
  parentPort!.postMessage(answer, transferOf(answer));
});

function packed(page: FoundPage): PackedPage {
  const { body, columns, count, hasLineBreaks, areLines, scannedTimesMs, runs, organizationIndexes } = page;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const scanned = { bytes, columns, count, hasLineBreaks, areLines, timesMs: scannedTimesMs, runs };
  const encoded = encodeBody(scanned, compress, organizationIndexes);
  const stored = allocateBehind(usedOf(page))(Uint8Array, encoded.bytes.length);
  stored.set(encoded.bytes);
  return { ...page, stored, checksum: new Uint8Array(encoded.checksum) };
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
