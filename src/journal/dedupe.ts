import { IDENTITY_BYTES, type PreparedPage, twinIdentity } from "../core/prepare-page.ts";

/** What is held of some organizations and times: identity (as latin1 text) to the digest of the bytes. */
export type Held = ReadonlyMap<string, number>;

export interface Deduped {
  /** Indexes of the events that are new, in the page's order; good until the next page is looked at. */
  readonly fresh: Uint32Array;
  /** The identities of new events that share another's identity fields but not its bytes. */
  readonly twins: ReadonlyMap<number, Buffer>;
  readonly known: number;
  readonly repeated: number;
  readonly changed: number;
  readonly edge: readonly string[];
}

const EDGE_MAX = 2000;

/**
 * Decides which events of a page are new (R10, R11). Inside one pass two different byte strings with one
 * identity are two events; in a later pass an event with a held identity and other bytes is the held one,
 * changed, unless the held bytes stand beside it in that pass.
 */
export function dedupe(page: PreparedPage, edge: readonly string[], held: Held): Deduped {
  const seen = seenBefore(edge);
  const isSuspect = suspectsIn(page, seen.keys(), held);
  const doubled = digestsOfDoubled(page, isSuspect);
  const fresh = roomFor(page.scanned.count);
  let freshCount = 0;
  const twins = new Map<number, Buffer>();
  let known = 0;
  let repeated = 0;
  let changed = 0;
  for (let index = 0; index < page.scanned.count; index++) {
    if (!isSuspect(index)) {
      fresh[freshCount++] = index;
      continue;
    }
    const key = keyAt(page, index);
    const digest = page.digests[index]!;
    const before = seen.get(key);
    if (before?.includes(digest)) {
      repeated++;
      continue;
    }
    // What stands in the page once need not be remembered: nothing later in it can be its repeat.
    if (before !== undefined) before.push(digest);
    else if (doubled.has(key)) seen.set(key, [digest]);

    const heldDigest = held.get(key);
    if (heldDigest === undefined && before === undefined) {
      fresh[freshCount++] = index;
    } else if (heldDigest === digest) {
      known++;
    } else {
      const twin = twinIdentity(Buffer.from(key, "latin1"), digest);
      if (held.has(twin.toString("latin1"))) {
        known++;
      } else if (before !== undefined || doubled.get(key)?.includes(heldDigest!)) {
        fresh[freshCount++] = index;
        twins.set(index, twin);
      } else {
        changed++;
      }
    }
  }
  return {
    fresh: fresh.subarray(0, freshCount),
    twins,
    known,
    repeated,
    changed,
    edge: edgeOf(page, edge),
  };
}

/** Used again for every page, so that it leaves nothing to collect. */
let room = new Uint32Array(0);

function roomFor(count: number): Uint32Array {
  if (room.length < count) room = new Uint32Array(count);
  return room;
}

function keyAt({ identities }: PreparedPage, index: number): string {
  return identities.toString("latin1", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
}

/** A bit for each of a million places; the place of an identity is its first twenty bits, so few share one. */
const PLACES_BYTES = 1 << 17;
const once = new Uint8Array(PLACES_BYTES);
const again = new Uint8Array(PLACES_BYTES);
const placeOf = (first: number, second: number, third: number) =>
  (first << 12) | (second << 4) | (third >> 4);
const placeAt = (bytes: Buffer, at: number) => placeOf(bytes[at]!, bytes[at + 1]!, bytes[at + 2]!);
const bitOf = (place: number) => 1 << (place & 7);

/**
 * Tells the events that may stand in the page twice, or may be held already, from all the others, which are
 * new for certain: most pages hold only such, and nothing needs to be looked up for them.
 */
function suspectsIn(
  { identities, scanned }: PreparedPage,
  seen: Iterable<string>,
  held: Held,
): (index: number) => boolean {
  once.fill(0);
  again.fill(0);
  for (let index = 0; index < scanned.count; index++) {
    const place = placeAt(identities, index * IDENTITY_BYTES);
    again[place >> 3]! |= once[place >> 3]! & bitOf(place);
    once[place >> 3]! |= bitOf(place);
  }
  for (const keys of [seen, held.keys()]) {
    for (const key of keys) {
      const place = placeOf(key.charCodeAt(0), key.charCodeAt(1), key.charCodeAt(2));
      again[place >> 3]! |= bitOf(place);
    }
  }
  return (index) => {
    const place = placeAt(identities, index * IDENTITY_BYTES);
    return (again[place >> 3]! & bitOf(place)) !== 0;
  };
}

/** The digests of keys that occur more than once in the page. */
function digestsOfDoubled(page: PreparedPage, isSuspect: (index: number) => boolean): Map<string, number[]> {
  const doubled = new Map<string, number[]>();
  const first = new Map<string, number>();
  for (let index = 0; index < page.scanned.count; index++) {
    if (!isSuspect(index)) continue;
    const key = keyAt(page, index);
    const before = first.get(key);
    if (before === undefined) {
      first.set(key, index);
      continue;
    }
    const list = doubled.get(key) ?? [page.digests[before]!];
    list.push(page.digests[index]!);
    doubled.set(key, list);
  }
  return doubled;
}

function seenBefore(edge: readonly string[]): Map<string, number[]> {
  const seen = new Map<string, number[]>();
  for (const entry of edge) {
    const [identity, digest] = entry.split(":") as [string, string];
    const key = Buffer.from(identity, "hex").toString("latin1");
    const digests = seen.get(key) ?? [];
    digests.push(Number.parseInt(digest, 16));
    seen.set(key, digests);
  }
  return seen;
}

/** The events of the pass that share the last timestamp: the next page may repeat or double them. */
function edgeOf(page: PreparedPage, before: readonly string[]): readonly string[] {
  const { count } = page.scanned;
  const last = page.timesMs[count - 1];
  if (last === undefined) return before;
  const edge: string[] = [];
  let index = count - 1;
  while (index >= 0 && page.timesMs[index] === last && edge.length < EDGE_MAX) {
    const identity = Buffer.from(keyAt(page, index), "latin1").toString("hex");
    edge.push(`${identity}:${page.digests[index]!.toString(16)}`);
    index--;
  }
  // A page that lies wholly within one millisecond: what came before it is edge as well.
  return index < 0 ? [...edge, ...before].slice(0, EDGE_MAX) : edge;
}
