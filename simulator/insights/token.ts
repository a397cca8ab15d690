import { createHash } from "node:crypto";
import { Problem } from "../http/problem.ts";

/**
 * A page's token: the last event's milliseconds and 20 characters that look like a document's id. They hold the
 * event's number, a digest of the query it belongs to and a counter, so that no token is like another and one for
 * another query is recognized.
 */
export interface TokenCodec {
  write(position: TokenPosition, queryDigest: Buffer): string;
  /** A 400 for anything that was not handed out for this query. */
  read(token: unknown, queryDigest: Buffer): TokenPosition;
}

export interface TokenPosition {
  /** Number of the last event; null before the first. */
  readonly event: number | null;
  readonly ms: number;
}

const none = 0xff_ffff_ffff;
const digestBytes = 4;

export function createTokenCodec(seed: number): TokenCodec {
  let counter = 0;
  const refused = () => new Problem(400, "Invalid search_after: it does not belong to this query");

  /** Mixes the bytes with a stream that depends on the counter, so that tokens share no visible parts. */
  function mask(bytes: Buffer): void {
    const stream = createHash("sha256")
      .update(`${seed}:${bytes.readUIntBE(0, 3)}`)
      .digest();
    for (let i = 3; i < bytes.length; i++) bytes[i] = bytes[i]! ^ stream[i]!;
  }

  return {
    write(position, queryDigest) {
      const bytes = Buffer.alloc(15);
      counter = (counter + 1) & 0xff_ffff;
      bytes.writeUIntBE((counter * 0x9e3779) & 0xff_ffff, 0, 3);
      bytes.writeUIntBE(position.event ?? none, 3, 5);
      queryDigest.copy(bytes, 8, 0, digestBytes);
      bytes.writeUIntBE(check(position.ms), 12, 3);
      mask(bytes);
      return JSON.stringify([position.ms, bytes.toString("base64url")]);
    },
    read(token, queryDigest) {
      if (!Array.isArray(token) || token.length !== 2) throw refused();
      const [ms, text] = token as unknown[];
      if (typeof ms !== "number" || typeof text !== "string") throw refused();
      const bytes = Buffer.from(text, "base64url");
      if (bytes.length !== 15) throw refused();
      mask(bytes);
      const sameQuery = bytes.subarray(8, 12).equals(queryDigest.subarray(0, digestBytes));
      if (!sameQuery || bytes.readUIntBE(12, 3) !== check(ms)) throw refused();
      const event = bytes.readUIntBE(3, 5);
      return { event: event === none ? null : event, ms };
    },
  };
}

function check(ms: number): number {
  return Math.abs(ms * 31 + 7) % 0xff_ffff;
}
