import { hash } from "node:crypto";
import { HASH_BYTES, type HashText } from "../log/tree.ts";

/*
 * How events and manifest lines become leaves of their trees (A15, A16, A17).
 *
 *   nonce of event i = SHA-256("tidemark/event-nonce/v1\n" || secret || i as 8 bytes, big-endian)
 *   leaf of event i  = SHA-256(0x00 || "tidemark/event/v1\n" || nonce || the event's bytes)
 *   nonce of a line  = SHA-256("tidemark/line-nonce/v1\n" || secret)
 *   leaf of a line   = SHA-256(0x00 || "tidemark/line/v1\n" || nonce || the line's bytes)
 *
 * The secret is 32 random bytes for each organization and part. It is stored in the organization's own range
 * and erased with it. A proof shows one nonce, which says nothing about the secret or about other nonces.
 */

export const SECRET_BYTES = 32;
export const NONCE_BYTES = HASH_BYTES;

const EVENT_NONCE = Buffer.from("tidemark/event-nonce/v1\n");
const LINE_NONCE = Buffer.from("tidemark/line-nonce/v1\n");
const EVENT_LEAF = Buffer.from("\0tidemark/event/v1\n");
const LINE_LEAF = Buffer.from("\0tidemark/line/v1\n");

export interface EventHasher {
  nonce(index: number): Buffer;
  leaf(index: number, slice: Uint8Array): HashText;
}

/** Gives the nonce of an event. */
export type NonceSource = (index: number) => HashText;

/** With one scratch buffer for all events, because an allocation for each would cost as much as the hash. */
export function createEventHasher(nonceOf: NonceSource): EventHasher {
  const start = EVENT_LEAF.length + NONCE_BYTES;
  // Small, so that it comes from the pool: there is one for each line.
  let scratch = Buffer.allocUnsafe(2048);
  EVENT_LEAF.copy(scratch);
  return {
    nonce: (index) => Buffer.from(nonceOf(index), "latin1"),
    leaf(index, slice) {
      const length = start + slice.length;
      if (scratch.length < length) {
        scratch = Buffer.allocUnsafe(length * 2);
        EVENT_LEAF.copy(scratch);
      }
      scratch.write(nonceOf(index), EVENT_LEAF.length, "latin1");
      scratch.set(slice, start);
      return hash("sha256", scratch.subarray(0, length), "binary");
    },
  };
}

export function noncesOf(secret: Uint8Array): NonceSource {
  const input = Buffer.concat([EVENT_NONCE, secret, Buffer.alloc(8)]);
  return (index) => {
    // Two halves: a BigInt for each event would cost as much as the hash.
    input.writeUInt32BE(Math.floor(index / 2 ** 32), input.length - 8);
    input.writeUInt32BE(index % 2 ** 32, input.length - 4);
    return hash("sha256", input, "binary");
  };
}

export function eventLeaf(nonce: Uint8Array, slice: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([EVENT_LEAF, nonce, slice]), "buffer");
}

export function lineNonceOf(secret: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([LINE_NONCE, secret]), "buffer");
}

export function lineLeaf(nonce: Uint8Array, line: Uint8Array): Buffer {
  return hash("sha256", Buffer.concat([LINE_LEAF, nonce, line]), "buffer");
}
