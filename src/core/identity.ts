import { hash } from "node:crypto";
import { IDENTITY_BYTES, STRIDE } from "./page-scratch.ts";
import { eventBytes, eventSize, FIELD, fieldText, type ScannedPage } from "./scanner.ts";

type Slices = Pick<ScannedPage, "bytes" | "columns">;

/** The identity of a second event that shares another's identity fields but not its bytes. */
export function twinIdentity(identity: Uint8Array, digest: number): Buffer {
  const salted = Buffer.alloc(IDENTITY_BYTES + 4);
  salted.set(identity);
  salted.writeUInt32BE(digest, IDENTITY_BYTES);
  return Buffer.from(hash("sha256", salted, "hex"), "hex").subarray(0, IDENTITY_BYTES);
}

/** The identity of one event as 32 hexadecimal digits, given its organization or else its provider. */
export function identityAt(
  scanned: Slices,
  index: number,
  organization: string | null,
  provider: string | null,
): string {
  const digest = identityDigest(scanned, index, ownerBytes(organization, provider));
  return Buffer.from(digest.slice(0, IDENTITY_BYTES), "latin1").toString("hex");
}

export function ownerBytes(organization: string | null, provider: string | null): Buffer {
  return Buffer.from(`${organization ?? `provider ${provider}`}\0`);
}

const KEY_BYTES_MAX = 4096;
const key = Buffer.alloc(KEY_BYTES_MAX);

/**
 * The digest, as latin1 text, of the fields that identify an event (R10), each ended by a zero byte; of all
 * its bytes where it has no id. Latin1 is the cheapest form in which a digest can be had.
 */
export function identityDigest(scanned: Slices, index: number, owner: Buffer): string {
  const row = index * STRIDE;
  if (!hasText(scanned, row + FIELD.id)) return sha256(wholeKey(scanned, index, owner));
  let length = owner.copy(key);
  for (const column of IDENTITY_COLUMNS) {
    const end = copyText(scanned, row + column, length);
    if (end < 0) return sha256(longKey(scanned, index, owner));
    length = end;
  }
  return sha256(keyOfLength(length));
}

/** All of the event's bytes. */
function wholeKey(scanned: Slices, index: number, owner: Buffer): Buffer {
  const length = owner.length + eventSize(scanned, index);
  if (length > KEY_BYTES_MAX) return Buffer.concat([owner, eventBytes(scanned, index)]);
  key.set(eventBytes(scanned, index), owner.copy(key));
  return keyOfLength(length);
}

/** The same few lengths come again and again: a view of each is kept. */
const views: Buffer[] = [];

function keyOfLength(length: number): Buffer {
  views[length] ??= key.subarray(0, length);
  return views[length];
}

const IDENTITY_COLUMNS = [FIELD.service, FIELD.eventType, FIELD.timestamp, FIELD.id] as const;

/** Whether the field is a string or a number. */
function hasText({ bytes, columns }: Slices, column: number): boolean {
  const start = columns[column]!;
  if (start < 0) return false;
  const first = bytes[start]!;
  return first === 0x22 || first === 0x2d || (first >= 0x30 && first <= 0x39);
}

/** Copies a field's bytes and a zero behind `at`; -1 when it needs decoding or more room. */
function copyText({ bytes, columns }: Slices, column: number, at: number): number {
  let start = columns[column]!;
  let end = columns[column + 1]!;
  if (start < 0) return endField(at);
  if (bytes[start] === 0x22) {
    start++;
    end--;
  } else if (bytes[start] !== 0x2d && !(bytes[start]! >= 0x30 && bytes[start]! <= 0x39)) {
    return endField(at);
  }
  if (at + end - start + 1 > KEY_BYTES_MAX) return -1;
  let to = at;
  for (let from = start; from < end; from++) {
    const byte = bytes[from]!;
    if (byte === 0x5c) return -1;
    key[to++] = byte;
  }
  return endField(to);
}

function endField(at: number): number {
  key[at] = 0;
  return at + 1;
}

/** The same key where a field is written with escapes, or is very long. */
function longKey(scanned: Slices, index: number, owner: Buffer): Buffer {
  const fields = IDENTITY_COLUMNS.map((column) => `${fieldText(scanned, index, column) ?? ""}\0`);
  return Buffer.concat([owner, Buffer.from(fields.join(""))]);
}

function sha256(data: Buffer): string {
  return hash("sha256", data, "latin1" as "hex");
}
