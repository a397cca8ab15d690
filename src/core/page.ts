import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import {
  eventBytes,
  eventTimeMs,
  FIELD,
  type FieldColumn,
  fieldText,
  type ScannedPage,
  STRIDE,
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

export function preparePage(bytes: Buffer, attribution: Attribution, fetchedAtMs: number): PreparedPage {
  return prepareScanned(scanPage(bytes), attribution, fetchedAtMs);
}

export function prepareScanned(
  scanned: ScannedPage,
  attribution: Attribution,
  fetchedAtMs: number,
): PreparedPage {
  const { count } = scanned;
  const attribute = attributor(scanned, attribution);
  const organizationIndexes = new Uint16Array(count);
  const foreign: number[] = [];
  for (let index = 0; index < count; index++) {
    const organization = attribute.indexOf(index);
    if (organization < 0) foreign.push(index);
    else organizationIndexes[index] = organization;
  }
  if (foreign.length > 0) throw new ForeignEventsError(scanned, foreign);

  const identities = Buffer.allocUnsafe(count * IDENTITY_BYTES);
  const digests = new Uint32Array(count);
  const timesMs = new Float64Array(count);
  const text = cachedText(scanned);
  for (let index = 0; index < count; index++) {
    const organization = attribute.organizations[organizationIndexes[index]!]!;
    const owner = organization ?? `provider ${attribution.provider}`;
    identities.write(
      identityDigest(scanned, index, owner, text),
      index * IDENTITY_BYTES,
      IDENTITY_BYTES,
      "latin1",
    );
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

/** The identity of one event as 32 hexadecimal digits; `owner` is its organization, or its provider. */
export function identityAt(scanned: ScannedPage, index: number, owner: string): string {
  const text = (at: number, column: FieldColumn) => fieldText(scanned, at, column) ?? "";
  return Buffer.from(identityDigest(scanned, index, owner, text).slice(0, IDENTITY_BYTES), "latin1").toString(
    "hex",
  );
}

/** The fields that identify an event (R10), separated by a character that is rare in any of them; as latin1 text. */
function identityDigest(
  scanned: ScannedPage,
  index: number,
  owner: string,
  text: (index: number, column: FieldColumn) => string,
): string {
  const id = fieldText(scanned, index, FIELD.id);
  if (id === undefined) {
    return sha256(Buffer.concat([Buffer.from(`${owner}\0`), eventBytes(scanned, index)]));
  }
  const timestamp = fieldText(scanned, index, FIELD.timestamp) ?? "";
  return sha256(
    `${owner}\0${text(index, FIELD.service)}\0${text(index, FIELD.eventType)}\0${timestamp}\0${id}`,
  );
}

/** Latin1 text is the cheapest form in which a digest can be had: no Buffer is made for each event. */
function sha256(data: string | Buffer): string {
  return hash("sha256", data, "latin1" as "hex");
}

/** Texts of fields with few different values, decoded once per run of equal bytes. */
function cachedText(scanned: ScannedPage): (index: number, column: FieldColumn) => string {
  const last = new Map<number, { start: number; end: number; text: string }>();
  return (index, column) => {
    const start = scanned.columns[index * STRIDE + column]!;
    if (start < 0) return "";
    const end = scanned.columns[index * STRIDE + column + 1]!;
    const known = last.get(column);
    if (known !== undefined && scanned.bytes.compare(scanned.bytes, known.start, known.end, start, end) === 0)
      return known.text;
    const text = fieldText(scanned, index, column) ?? "";
    last.set(column, { start, end, text });
    return text;
  };
}

function attributor(scanned: ScannedPage, attribution: Attribution) {
  const organizations: (string | null)[] = [];
  const indexes = new Map<string | null, number>();
  const allowed = new Set(attribution.organizations);
  const single = attribution.organizations.length === 1 ? attribution.organizations[0]! : undefined;
  const text = cachedText(scanned);
  let lastText: string | undefined;
  let lastIndex = -1;

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
      const value = text(index, FIELD.organization);
      if (value !== lastText || lastIndex === -1) {
        lastText = value;
        lastIndex = ownerOf(value);
      }
      return lastIndex;
    },
  };
}
