import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { type Allocate, allocateAnew } from "./room.ts";
import {
  eventBytes,
  eventTimeMs,
  FIELD,
  fieldText,
  type ScannedPage,
  STRIDE,
  sameField,
  scanPage,
} from "./scanner.ts";

/**
 * A page made ready for the journal: scanned, every event attributed to an organization and given its
 * identity. Pure work on bytes, done before and outside the transaction.
 */
export interface PreparedPage {
  readonly scanned: ScannedPage;
  /** Sixteen bytes an event (R10). */
  readonly identities: Buffer;
  /** A checksum of each event's bytes: tells a repeat from another event with the same identity. */
  readonly digests: Uint32Array;
  readonly timesMs: Float64Array;
  /** The organizations that occur, and for each event the index of its own; null is a portal's own event. */
  readonly organizations: readonly (string | null)[];
  readonly organizationIndexes: Uint16Array;
  /** All of the page, compressed as the journal stores it, where that was done already. */
  readonly compressed?: Buffer | undefined;
}

export const IDENTITY_BYTES = 16;
/** Of zstd, in which the journal stores pages. */
export const COMPRESSION_LEVEL = 1;

/** Whom the events of a page may belong to. */
export interface Attribution {
  /** The organizations that were asked for, in lower case; of a single one, events without any are its own. */
  readonly organizations: readonly string[];
  readonly provider: string | null;
}

/** An event of an organization that was not asked for, or of none in a query for several (R7). */
export class ForeignEventsError extends Error {
  override readonly name = "ForeignEventsError";
  readonly scanned: ScannedPage;
  readonly indexes: readonly number[];

  constructor(scanned: ScannedPage, indexes: readonly number[]) {
    super(`${indexes.length} events of the page belong to no organization that was asked for.`);
    this.scanned = scanned;
    this.indexes = indexes;
  }
}

export function preparePage(
  bytes: Buffer,
  attribution: Attribution,
  fetchedAtMs: number,
  allocate: Allocate = allocateAnew,
): PreparedPage {
  return prepareScanned(scanPage(bytes, undefined, allocate), attribution, fetchedAtMs, allocate);
}

export function prepareScanned(
  scanned: ScannedPage,
  attribution: Attribution,
  fetchedAtMs: number,
  allocate: Allocate = allocateAnew,
): PreparedPage {
  const { count } = scanned;
  const attribute = attributor(scanned, attribution);
  const organizationIndexes = allocate(Uint16Array, count);
  const foreign: number[] = [];
  for (let index = 0; index < count; index++) {
    const organization = attribute.indexOf(index);
    if (organization < 0) foreign.push(index);
    else organizationIndexes[index] = organization;
  }
  if (foreign.length > 0) throw new ForeignEventsError(scanned, foreign);

  const room = allocate(Uint8Array, count * IDENTITY_BYTES);
  const identities = Buffer.from(room.buffer, room.byteOffset, room.byteLength);
  const digests = allocate(Uint32Array, count);
  const timesMs = allocate(Float64Array, count);
  const owners = attribute.organizations.map((organization) =>
    ownerBytes(organization, attribution.provider),
  );
  for (let index = 0; index < count; index++) {
    const digest = identityDigest(scanned, index, owners[organizationIndexes[index]!]!);
    identities.write(digest, index * IDENTITY_BYTES, IDENTITY_BYTES, "latin1");
    digests[index] = crc32(eventBytes(scanned, index));
    timesMs[index] = eventTimeMs(scanned, index) ?? fetchedAtMs;
  }
  return {
    scanned,
    identities,
    digests,
    timesMs,
    organizations: attribute.organizations,
    organizationIndexes,
  };
}

/** The identity of a second event that shares another's identity fields but not its bytes. */
export function twinIdentity(identity: Uint8Array, digest: number): Buffer {
  const salted = Buffer.alloc(IDENTITY_BYTES + 4);
  salted.set(identity);
  salted.writeUInt32BE(digest, IDENTITY_BYTES);
  return Buffer.from(hash("sha256", salted, "hex"), "hex").subarray(0, IDENTITY_BYTES);
}

/** The identity of one event as 32 hexadecimal digits, given its organization or else its provider. */
export function identityAt(
  scanned: ScannedPage,
  index: number,
  organization: string | null,
  provider: string | null,
): string {
  const digest = identityDigest(scanned, index, ownerBytes(organization, provider));
  return Buffer.from(digest.slice(0, IDENTITY_BYTES), "latin1").toString("hex");
}

function ownerBytes(organization: string | null, provider: string | null): Buffer {
  return Buffer.from(`${organization ?? `provider ${provider}`}\0`);
}

const KEY_BYTES_MAX = 4096;
const key = Buffer.alloc(KEY_BYTES_MAX);

/**
 * The digest, as latin1 text, of the fields that identify an event (R10), each ended by a zero byte; of all
 * its bytes where it has no id. Latin1 is the cheapest form in which a digest can be had.
 */
function identityDigest(scanned: ScannedPage, index: number, owner: Buffer): string {
  const row = index * STRIDE;
  if (!hasText(scanned, row + FIELD.id)) return sha256(Buffer.concat([owner, eventBytes(scanned, index)]));
  let length = owner.copy(key);
  for (const column of IDENTITY_COLUMNS) {
    const end = copyText(scanned, row + column, length);
    if (end < 0) return sha256(longKey(scanned, index, owner));
    length = end;
  }
  return sha256(keyOfLength(length));
}

/** The same few lengths come again and again: a view of each is kept. */
const views: Buffer[] = [];

function keyOfLength(length: number): Buffer {
  views[length] ??= key.subarray(0, length);
  return views[length];
}

const IDENTITY_COLUMNS = [FIELD.service, FIELD.eventType, FIELD.timestamp, FIELD.id] as const;

/** A string or a number stands there: null and the rest are no text. */
function hasText({ bytes, columns }: ScannedPage, column: number): boolean {
  const start = columns[column]!;
  if (start < 0) return false;
  const first = bytes[start]!;
  return first === 0x22 || first === 0x2d || (first >= 0x30 && first <= 0x39);
}

/** Copies a field's bytes and a zero behind `at`; -1 when it needs decoding or more room. */
function copyText({ bytes, columns }: ScannedPage, column: number, at: number): number {
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
function longKey(scanned: ScannedPage, index: number, owner: Buffer): Buffer {
  const fields = IDENTITY_COLUMNS.map((column) => `${fieldText(scanned, index, column) ?? ""}\0`);
  return Buffer.concat([owner, Buffer.from(fields.join(""))]);
}

function sha256(data: Buffer): string {
  return hash("sha256", data, "latin1" as "hex");
}

function attributor(scanned: ScannedPage, attribution: Attribution) {
  const organizations: (string | null)[] = [];
  const indexes = new Map<string | null, number>();
  const allowed = new Set(attribution.organizations);
  const single = attribution.organizations.length === 1 ? attribution.organizations[0]! : undefined;
  let known = -1;
  let owner = -1;

  function place(organization: string | null): number {
    const known = indexes.get(organization);
    if (known !== undefined) return known;
    indexes.set(organization, organizations.length);
    return organizations.push(organization) - 1;
  }

  function ownerOf(value: string): number {
    if (attribution.provider !== null) return place(value === "" ? null : value.toLowerCase());
    // Without organizations the key's own one was asked for, whatever its id is.
    if (allowed.size === 0) return place(value === "" ? null : value.toLowerCase());
    if (value === "") return single === undefined ? -1 : place(single);
    const organization = value.toLowerCase();
    return allowed.has(organization) ? place(organization) : -1;
  }

  return {
    organizations: organizations as readonly (string | null)[],
    indexOf(index: number): number {
      // Neighbours are mostly of one organization: its text need not be decoded for each.
      if (known < 0 || !sameField(scanned, known, index, FIELD.organization)) {
        owner = ownerOf(fieldText(scanned, index, FIELD.organization) ?? "");
        known = index;
      }
      return owner;
    },
  };
}
