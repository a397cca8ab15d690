import { decodeBodyInto, type PageBody } from "./page-body.ts";
import type { LeasedBytes } from "./page-lease.ts";
import type { ScannedPage } from "./scanner.ts";

/** Decompresses and scans stored pages: pure work on bytes, which a thread of its own can do. */
export interface PageDecoder {
  /**
   * Undefined: the body does not give its checksum. Rejects where it is no page. `room` has the content size of the
   * body. Its lease stays the caller's. Both memories may have been sent to another thread: afterwards they are
   * found in the result alone.
   */
  decode(stored: PageBody, room: LeasedBytes): Promise<DecodedBody | undefined>;
}

export interface DecodedBody {
  readonly scanned: ScannedPage;
  /** As it is stored. */
  readonly body: Buffer;
}

/** In this thread. */
export const inlineDecoder: PageDecoder = {
  decode: async (stored, { bytes }) => decodeHere(stored, bytes),
};

export function decodeHere(stored: PageBody, room: Buffer): DecodedBody | undefined {
  const scanned = decodeBodyInto(stored, room as Buffer<ArrayBuffer>);
  return scanned && { scanned, body: stored.bytes };
}
