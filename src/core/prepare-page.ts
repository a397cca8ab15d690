import { hash } from "node:crypto";
import { type Allocate, allocateAnew } from "./buffer-pool.ts";
import {
  EVENTS_MAX,
  eventBytes,
  eventSize,
  FIELD,
  fieldText,
  PAGE_EVENTS_MAX,
  type ScannedPage,
  type Scanning,
  STRIDE,
  scanWith,
} from "./scanner.ts";
import { type Engine, withEngine } from "./wasm-engine.ts";

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
  /** When each event happened; UNDATED_MS where it has no readable time. */
  readonly timesMs: Float64Array;
  /** How many events have no readable time. */
  readonly undated: number;
  /** The organizations that occur, and for each event the index of its own; null is a portal's own event. */
  readonly organizations: readonly (string | null)[];
  readonly organizationIndexes: Uint16Array;
  /** For each of the organizations, how many events it has, and between which times those that have one. */
  readonly spans: readonly Span[];
  /** All of the page, compressed as the journal stores it, where that was done already. */
  readonly compressed?: Buffer | undefined;
}

export interface Span {
  readonly count: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/**
 * Events without a readable time are held under this one, so that the next read of the same event finds it
 * (R35). It is before every time that a timestamp can name, and no window contains it.
 */
export const UNDATED_MS = -100_000_000_000_000;

type Slices = Pick<ScannedPage, "bytes" | "columns">;

export const IDENTITY_BYTES = 16;
/**
 * Of zstd, in which the journal stores pages. The first level looks back less far than events of one kind lie
 * apart: with more window and more memory for it pages get smaller, and are done sooner.
 */
export const COMPRESSION = { compressionLevel: 1, windowLog: 21, hashLog: 15 } as const;

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
  allocate: Allocate = allocateAnew,
): PreparedPage {
  const owners = createOwners(attribution);
  const foreign: number[] = [];
  const scanned = withEngine((engine) =>
    scanWith(engine, bytes, EVENTS_MAX, allocate, (scanning, first, count, base) =>
      identify(engine, scanning, owners, foreign, { first, count, base }),
    ),
  );
  if (foreign.length > 0) throw new ForeignEventsError(scanned, foreign);
  const { count } = scanned;
  const identities = allocate(Uint8Array, count * IDENTITY_BYTES);
  const digests = allocate(Uint32Array, count);
  const timesMs = allocate(Float64Array, count);
  const organizationIndexes = allocate(Uint16Array, count);
  identities.set(room.identities.subarray(0, identities.length));
  digests.set(room.digests.subarray(0, count));
  organizationIndexes.set(room.organizationIndexes.subarray(0, count));
  if (count > PAGE_EVENTS_MAX) room = roomOf(0);
  timesMs.set(scanned.timesMs);
  let undated = 0;
  for (let index = 0; index < count; index++) {
    if (!Number.isNaN(timesMs[index]!)) continue;
    timesMs[index] = UNDATED_MS;
    undated++;
  }
  return {
    undated,
    spans: spansOf(owners.organizations.length, organizationIndexes, timesMs),
    scanned,
    identities: Buffer.from(identities.buffer, identities.byteOffset, identities.byteLength),
    digests,
    timesMs,
    organizations: owners.organizations,
    organizationIndexes,
  };
}

function spansOf(organizations: number, indexes: Uint16Array, timesMs: Float64Array): Span[] {
  const spans = Array.from({ length: organizations }, () => ({
    count: 0,
    firstMs: Number.POSITIVE_INFINITY,
    lastMs: Number.NEGATIVE_INFINITY,
  }));
  for (let index = 0; index < indexes.length; index++) {
    const span = spans[indexes[index]!]!;
    const timeMs = timesMs[index]!;
    span.count++;
    if (timeMs === UNDATED_MS) continue;
    if (timeMs < span.firstMs) span.firstMs = timeMs;
    if (timeMs > span.lastMs) span.lastMs = timeMs;
  }
  return spans;
}

/** As in scanner.ts: what is made of events while nobody knows how many they are. */
let room = roomOf(0);

function roomOf(events: number) {
  return {
    identities: Buffer.allocUnsafeSlow(events * IDENTITY_BYTES),
    digests: new Uint32Array(events),
    organizationIndexes: new Uint16Array(events),
  };
}

function roomFor(count: number): typeof room {
  if (count > room.digests.length) {
    const larger = roomOf(Math.max(count, 2 * room.digests.length));
    larger.identities.set(room.identities);
    larger.digests.set(room.digests);
    larger.organizationIndexes.set(room.organizationIndexes);
    room = larger;
  }
  return room;
}

/**
 * Makes the identities and digests of events that stand in the engine. What is unusual, the engine leaves to
 * `identityDigest`.
 */
function identify(
  engine: Engine,
  scanning: Scanning,
  owners: Owners,
  foreign: number[],
  { first, count, base }: { readonly first: number; readonly count: number; readonly base: number },
): void {
  const { call, memory } = engine;
  const { runs } = scanning;
  const { identities, digests, organizationIndexes } = roomFor(first + count);
  for (let from = 0; from < count; ) {
    let to = from + 1;
    while (to < count && runs[first + to] === 1) to++;
    const owner = owners.ownerAt(scanning, first + from);
    organizationIndexes.fill(Math.max(0, owner), first + from, first + to);
    const ownerKey = owner < 0 ? undefined : owners.keys[owner]!;
    if (ownerKey === undefined) for (let row = from; row < to; row++) foreign.push(first + row);
    if (ownerKey !== undefined && ownerKey.length <= engine.ownerBytesMax)
      call.writeKeys(from, to, ownerKey.copy(memory.owner), base);
    else memory.keyBlocks.fill(0, from, to);
    from = to;
  }
  call.identify(count, base);
  identities.set(memory.identities.subarray(0, count * IDENTITY_BYTES), first * IDENTITY_BYTES);
  digests.set(memory.digests.subarray(0, count), first);
  for (let row = 0; row < count; row++) {
    if (memory.keyBlocks[row] !== 0) continue;
    const index = first + row;
    const digest = identityDigest(scanning, index, owners.keys[organizationIndexes[index]!] ?? NO_OWNER);
    identities.write(digest, index * IDENTITY_BYTES, IDENTITY_BYTES, "latin1");
  }
}

const NO_OWNER = Buffer.alloc(0);

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

function ownerBytes(organization: string | null, provider: string | null): Buffer {
  return Buffer.from(`${organization ?? `provider ${provider}`}\0`);
}

const KEY_BYTES_MAX = 4096;
const key = Buffer.alloc(KEY_BYTES_MAX);

/**
 * The digest, as latin1 text, of the fields that identify an event (R10), each ended by a zero byte; of all
 * its bytes where it has no id. Latin1 is the cheapest form in which a digest can be had.
 */
function identityDigest(scanned: Slices, index: number, owner: Buffer): string {
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

/** A string or a number stands there: null and the rest are no text. */
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

/** To whom the events of a page belong. */
interface Owners {
  readonly organizations: readonly (string | null)[];
  /** What stands for each of them in the identities of its events. */
  readonly keys: readonly Buffer[];
  /** The index of an event's owner among them; -1 when it belongs to none that was asked for. */
  ownerAt(scanned: Slices, index: number): number;
}

function createOwners(attribution: Attribution): Owners {
  const organizations: (string | null)[] = [];
  const keys: Buffer[] = [];
  const indexes = new Map<string | null, number>();
  const allowed = new Set(attribution.organizations);
  const single = attribution.organizations.length === 1 ? attribution.organizations[0]! : undefined;

  function place(organization: string | null): number {
    const known = indexes.get(organization);
    if (known !== undefined) return known;
    indexes.set(organization, organizations.length);
    keys.push(ownerBytes(organization, attribution.provider));
    return organizations.push(organization) - 1;
  }

  return {
    organizations,
    keys,
    ownerAt(scanned, index) {
      const value = fieldText(scanned, index, FIELD.organization) ?? "";
      if (attribution.provider !== null) return place(value === "" ? null : value.toLowerCase());
      // Without organizations the key's own one was asked for, whatever its id is.
      if (allowed.size === 0) return place(value === "" ? null : value.toLowerCase());
      if (value === "") return single === undefined ? -1 : place(single);
      const organization = value.toLowerCase();
      return allowed.has(organization) ? place(organization) : -1;
    },
  };
}
