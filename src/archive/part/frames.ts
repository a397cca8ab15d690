import { NONCE_BYTES, SECRET_BYTES } from "./hashing.ts";

/*
 * The frames of a data file beside those with events. Both are skippable frames of the zstd format, which
 * every zstd reader passes over.
 *
 *   key frame   magic 0x184D2A51, length, then a label and either one secret, or (after single events were
 *               erased) the nonce of the line and a nonce for each event. The first frame of every range.
 *   seek table  magic 0x184D2A5E, as the zstd seekable format 0.1.0 describes it. The last frame of the file.
 */

const KEY_MAGIC = 0x184d2a51;
const SEEK_MAGIC = 0x184d2a5e;
const SEEK_FOOTER_MAGIC = 0x8f92eab1;
const SECRET_LABEL = Buffer.from("tidemark/secret/v1\n");
const NONCES_LABEL = Buffer.from("tidemark/nonces/v1\n");
const HEADER_BYTES = 8;
const FOOTER_BYTES = 9;

export type RangeKey =
  | { readonly kind: "secret"; readonly secret: Buffer }
  /** After an erasure: only what is left can be checked, and nothing that is gone can be guessed. */
  | { readonly kind: "nonces"; readonly line: Buffer; readonly events: Buffer };

export function keyFrame(key: RangeKey): Buffer {
  const content =
    key.kind === "secret"
      ? Buffer.concat([SECRET_LABEL, key.secret])
      : Buffer.concat([NONCES_LABEL, key.line, key.events]);
  return Buffer.concat([header(KEY_MAGIC, content.length), content]);
}

/** Undefined unless these bytes are exactly one key frame for so many events. */
export function parseKeyFrame(bytes: Buffer, events: number): RangeKey | undefined {
  if (bytes.length < HEADER_BYTES || bytes.readUInt32LE(0) !== KEY_MAGIC) return undefined;
  if (bytes.readUInt32LE(4) !== bytes.length - HEADER_BYTES) return undefined;
  const content = bytes.subarray(HEADER_BYTES);
  const has = (label: Buffer, size: number) =>
    content.length === label.length + size && content.subarray(0, label.length).equals(label);
  if (has(SECRET_LABEL, SECRET_BYTES))
    return { kind: "secret", secret: content.subarray(SECRET_LABEL.length) };
  if (!has(NONCES_LABEL, NONCE_BYTES * (events + 1))) return undefined;
  const line = content.subarray(NONCES_LABEL.length, NONCES_LABEL.length + NONCE_BYTES);
  return { kind: "nonces", line, events: content.subarray(NONCES_LABEL.length + NONCE_BYTES) };
}

export interface FrameSizes {
  readonly stored: number;
  /** 0 for a key frame. */
  readonly raw: number;
}

export function seekTable(frames: readonly FrameSizes[]): Buffer {
  const content = Buffer.alloc(frames.length * 8 + FOOTER_BYTES);
  for (const [index, { stored, raw }] of frames.entries()) {
    content.writeUInt32LE(stored, index * 8);
    content.writeUInt32LE(raw, index * 8 + 4);
  }
  content.writeUInt32LE(frames.length, frames.length * 8);
  content.writeUInt32LE(SEEK_FOOTER_MAGIC, frames.length * 8 + 5);
  return Buffer.concat([header(SEEK_MAGIC, content.length), content]);
}

function header(magic: number, length: number): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  bytes.writeUInt32LE(magic, 0);
  bytes.writeUInt32LE(length, 4);
  return bytes;
}
