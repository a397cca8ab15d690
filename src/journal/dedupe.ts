import { twinIdentity } from "../core/identity.ts";
import { IDENTITY_BYTES, type PreparedPage } from "../core/prepare-page.ts";
import { edgeOf, seenIn, TWIN_MARK } from "./edge.ts";

/** Held events of some organizations and times: identity (as latin1 text) to the digest of the bytes. */
export type Held = ReadonlyMap<string, number>;

export interface Deduped {
  /** Indexes of the events that are new, in the page's order. */
  readonly fresh: Uint32Array;
  /** The identities of new events that share another's identity fields but not its bytes. */
  readonly twins: ReadonlyMap<number, Buffer>;
  readonly known: number;
  /** Indexes of events that this pass has shown before. */
  readonly repeated: readonly number[];
  /** Indexes of events that are held with other bytes. */
  readonly changed: readonly number[];
  readonly edge: readonly string[];
  /** Indexes of held events before which this pass showed other bytes that were taken for a changed copy of them. */
  readonly missedTwins: readonly number[];
}

/**
 * Decides which events of a page are new (R10, R11). Inside one pass two different byte strings with one
 * identity are two events; in a later pass an event with a held identity and other bytes is the held one,
 * changed, unless the pass also shows the held bytes. Where these come on a later page, the other event is gone
 * already: the pass has to begin anew, with a mark at that identity.
 */
export function createDedupe() {
  const suspectsIn = createSuspects();
  return (page: PreparedPage, edge: readonly string[], held: Held): Deduped => {
    const seen = seenIn(edge);
    const isSuspect = suspectsIn(page, seen.keys(), held);
    const doubled = digestsOfDoubled(page, isSuspect);
    const fresh = new Uint32Array(page.scanned.count);
    let freshCount = 0;
    const twins = new Map<number, Buffer>();
    const changed: number[] = [];
    let known = 0;
    const repeated: number[] = [];
    const missedTwins: number[] = [];
    for (let index = 0; index < page.scanned.count; index++) {
      if (!isSuspect(index)) {
        fresh[freshCount++] = index;
        continue;
      }
      const key = keyAt(page, index);
      const digest = page.digests[index]!;
      const before = seen.get(key);
      const verdict = judge({ key, digest, before, doubled: doubled.get(key) }, held);
      if (verdict === "known" && before !== undefined && isTwinMissed(key, digest, edge, held))
        missedTwins.push(index);
      // An event that occurs once in the page need not be remembered: nothing later in it can repeat it.
      if (before !== undefined && verdict !== "repeated") before.push(digest);
      else if (before === undefined && doubled.has(key)) seen.set(key, [digest]);
      if (verdict === "repeated") repeated.push(index);
      else if (verdict === "known") known++;
      else if (verdict === "changed") changed.push(index);
      else fresh[freshCount++] = index;
      if (verdict === "twin") twins.set(index, twinIdentity(Buffer.from(key, "latin1"), digest));
    }
    return {
      fresh: fresh.subarray(0, freshCount),
      twins,
      known,
      repeated,
      changed,
      edge: edgeOf(page, edge),
      missedTwins,
    };
  };
}

interface Suspect {
  readonly key: string;
  readonly digest: number;
  /** The digests under which this pass has shown the identity so far. */
  readonly before: readonly number[] | undefined;
  /** All digests of the identity in this page, where it occurs more than once. */
  readonly doubled: readonly number[] | undefined;
}

type Verdict = "new" | "twin" | "known" | "repeated" | "changed";

function judge({ key, digest, before, doubled }: Suspect, held: Held): Verdict {
  if (before?.includes(digest)) return "repeated";
  const heldDigest = held.get(key);
  if (heldDigest === undefined && before === undefined) return "new";
  if (heldDigest === digest) return "known";
  if (held.has(twinIdentity(Buffer.from(key, "latin1"), digest).toString("latin1"))) return "known";
  return before !== undefined || doubled?.includes(heldDigest!) ? "twin" : "changed";
}

/** Whether an earlier page of the pass showed other bytes of this held event that are not held. */
function isTwinMissed(key: string, digest: number, edge: readonly string[], held: Held): boolean {
  const earlier = seenIn(edge).get(key) ?? [];
  if (held.get(key) !== digest || earlier.includes(TWIN_MARK)) return false;
  return earlier.some(
    (other) => !held.has(twinIdentity(Buffer.from(key, "latin1"), other).toString("latin1")),
  );
}

function keyAt({ identities }: PreparedPage, index: number): string {
  return identities.toString("latin1", index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
}

/** One bit for each of a million places; the place of an identity is its first twenty bits. */
const PLACES_BYTES = 1 << 17;
const placeOf = (first: number, second: number, third: number) =>
  (first << 12) | (second << 4) | (third >> 4);
const placeAt = (bytes: Buffer, at: number) => placeOf(bytes[at]!, bytes[at + 1]!, bytes[at + 2]!);
const bitOf = (place: number) => 1 << (place & 7);

/**
 * Separates events that may be in the page twice, or held already, from those that are new for certain. Most
 * pages have only new ones, and then no identity is looked up as text.
 */
function createSuspects() {
  const once = new Uint8Array(PLACES_BYTES);
  const again = new Uint8Array(PLACES_BYTES);
  return (
    { identities, scanned }: PreparedPage,
    seen: Iterable<string>,
    held: Held,
  ): ((index: number) => boolean) => {
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

/** By index in the stored page. */
export function storedTwins(deduped: Deduped): string | null {
  if (deduped.twins.size === 0) return null;
  const entries = [...deduped.fresh].flatMap((index, stored) => {
    const twin = deduped.twins.get(index);
    return twin === undefined ? [] : [[String(stored), twin.toString("hex")] as const];
  });
  return JSON.stringify(Object.fromEntries(entries));
}
