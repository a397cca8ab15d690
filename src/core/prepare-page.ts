import { type Allocate, allocateAnew } from "./buffer-pool.ts";
import { identityDigest, ownerBytes } from "./identity.ts";
import type { PageBody } from "./page-body.ts";
import { IDENTITY_BYTES } from "./page-scratch.ts";
import type { EventRecords } from "./page-slice.ts";
import { EVENTS_MAX, FIELD, fieldText, type ScannedPage, type Scanning, scanWith } from "./scanner.ts";
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
  /** All of the page as the journal stores it, where that was made already. The page is lines then, if it can be. */
  readonly body?: PageBody | undefined;
  /** Records of all events, where recipes use them. */
  readonly records?: EventRecords | undefined;
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

export { IDENTITY_BYTES };
/**
 * zstd parameters of stored pages. The window of level 1 is smaller than the distance between similar events; a
 * larger one gives smaller pages in less time.
 */
export const COMPRESSION = { compressionLevel: 1, windowLog: 21, hashLog: 15 } as const;

/** The possible owners of the events of a page. */
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
  return withEngine((engine) => {
    const scanned = scanWith(engine, bytes, EVENTS_MAX, allocate, (scanning, first, count, base) =>
      identify(engine, scanning, owners, foreign, { first, count, base }),
    );
    if (foreign.length > 0) throw new ForeignEventsError(scanned, foreign);
    const page = preparedOf(engine, scanned, owners.organizations, allocate);
    engine.scratch.done(scanned.count);
    return page;
  });
}

/** Copies what was made of the events out of the engine's scratch. */
function preparedOf(
  engine: Engine,
  scanned: ScannedPage,
  organizations: readonly (string | null)[],
  allocate: Allocate,
): PreparedPage {
  const { count } = scanned;
  const scratch = engine.scratch.forEvents(count);
  const identities = allocate(Uint8Array, count * IDENTITY_BYTES);
  const digests = allocate(Uint32Array, count);
  const timesMs = allocate(Float64Array, count);
  const organizationIndexes = allocate(Uint16Array, count);
  identities.set(scratch.identities.subarray(0, identities.length));
  digests.set(scratch.digests.subarray(0, count));
  organizationIndexes.set(scratch.organizationIndexes.subarray(0, count));
  timesMs.set(scanned.timesMs);
  let undated = 0;
  for (let index = 0; index < count; index++) {
    if (!Number.isNaN(timesMs[index]!)) continue;
    timesMs[index] = UNDATED_MS;
    undated++;
  }
  return {
    undated,
    spans: spansOf(organizations.length, organizationIndexes, timesMs),
    scanned,
    identities: Buffer.from(identities.buffer, identities.byteOffset, identities.byteLength),
    digests,
    timesMs,
    organizations,
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

/** Makes the identities and digests of the events in the engine, which leaves unusual ones to `identityDigest`. */
function identify(
  engine: Engine,
  scanning: Scanning,
  owners: Owners,
  foreign: number[],
  { first, count, base }: { readonly first: number; readonly count: number; readonly base: number },
): void {
  const { call, memory } = engine;
  const { runs } = scanning;
  const { identities, digests, organizationIndexes } = engine.scratch.forEvents(first + count);
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

/** The owners of the events of a page. */
interface Owners {
  readonly organizations: readonly (string | null)[];
  /** The part of an identity that names each of them. */
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
