import { createHash } from "node:crypto";
import { QueryError } from "./errors.ts";
import type { EventPlace } from "./store.ts";

/**
 * The search_after token of a page: the milliseconds of its last event, and characters that look like a
 * document's id. They contain a counter, a digest of the query and the event's key, so that no two tokens
 * are equal and a token of another query is recognized.
 */
export interface TokenCodec {
  write(place: EventPlace, queryDigest: Uint8Array): string;
  /** Throws 400 for anything that was not issued for this query. */
  read(token: unknown, queryDigest: Uint8Array): EventPlace;
}

const COUNTER_BYTES = 3;
const DIGEST_BYTES = 4;
const CHECK_BYTES = 3;
const HEAD_BYTES = COUNTER_BYTES + DIGEST_BYTES + CHECK_BYTES;
const KEY_BYTES_MAX = 64;

export function createTokenCodec(secret: string | number): TokenCodec {
  let counter = 0;
  const refused = () => new QueryError(400, "Invalid search_after: it does not belong to this query");

  /** Mixes the bytes with a stream that depends on the counter, so that tokens share no visible parts. */
  function mask(bytes: Buffer): void {
    for (let at = COUNTER_BYTES, block = 0; at < bytes.length; block++) {
      const stream = createHash("sha256")
        .update(`${secret}:${bytes.readUIntBE(0, COUNTER_BYTES)}:${block}`)
        .digest();
      for (let i = 0; i < stream.length && at < bytes.length; i++, at++) bytes[at] = bytes[at]! ^ stream[i]!;
    }
  }

  return {
    write({ ms, key }, queryDigest) {
      const bytes = Buffer.alloc(HEAD_BYTES + (key?.length ?? 0));
      counter = (counter + 1) & 0xff_ffff;
      bytes.writeUIntBE(Math.imul(counter, 0x9e3779) & 0xff_ffff, 0, COUNTER_BYTES);
      bytes.set(queryDigest.subarray(0, DIGEST_BYTES), COUNTER_BYTES);
      bytes.set(key ?? [], HEAD_BYTES);
      bytes.set(check(ms, key), COUNTER_BYTES + DIGEST_BYTES);
      mask(bytes);
      return JSON.stringify([ms, bytes.toString("base64url")]);
    },
    read(token, queryDigest) {
      if (!Array.isArray(token) || token.length !== 2) throw refused();
      const [ms, text] = token as unknown[];
      if (typeof ms !== "number" || typeof text !== "string") throw refused();
      const bytes = Buffer.from(text, "base64url");
      if (bytes.length < HEAD_BYTES || bytes.length > HEAD_BYTES + KEY_BYTES_MAX) throw refused();
      mask(bytes);
      const digest = bytes.subarray(COUNTER_BYTES, COUNTER_BYTES + DIGEST_BYTES);
      const key = bytes.length === HEAD_BYTES ? null : Uint8Array.from(bytes.subarray(HEAD_BYTES));
      const isOurs = bytes.subarray(COUNTER_BYTES + DIGEST_BYTES, HEAD_BYTES).equals(check(ms, key));
      if (!isOurs || !digest.equals(queryDigest.subarray(0, DIGEST_BYTES))) throw refused();
      return { ms, key };
    },
  };
}

function check(ms: number, key: Uint8Array | null): Buffer {
  const hash = createHash("sha256").update(String(ms));
  return hash
    .update(key ?? "first")
    .digest()
    .subarray(0, CHECK_BYTES);
}
