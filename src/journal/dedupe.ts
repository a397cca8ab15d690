import { IDENTITY_BYTES, type PreparedPage, twinIdentity } from "../core/page.ts";

/** What is held of some organizations and times: identity (as latin1 text) to the digest of the bytes. */
export type Held = ReadonlyMap<string, number>;

export interface Deduped {
  /** Indexes of the events that are new, in the page's order. */
  readonly fresh: readonly number[];
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
  const keys = keysOf(page);
  const doubled = digestsOfDoubled(keys, page.digests);
  const seen = seenBefore(edge);
  const fresh: number[] = [];
  const twins = new Map<number, Buffer>();
  let known = 0;
  let repeated = 0;
  let changed = 0;
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index]!;
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
      fresh.push(index);
    } else if (heldDigest === digest) {
      known++;
    } else {
      const twin = twinIdentity(Buffer.from(key, "latin1"), digest);
      if (held.has(twin.toString("latin1"))) {
        known++;
      } else if (before !== undefined || doubled.get(key)?.includes(heldDigest!)) {
        fresh.push(index);
        twins.set(index, twin);
      } else {
        changed++;
      }
    }
  }
  return { fresh, twins, known, repeated, changed, edge: edgeOf(page, keys, edge) };
}

function keysOf(page: PreparedPage): string[] {
  const all = page.identities.toString("latin1");
  return Array.from({ length: page.scanned.count }, (_, index) =>
    all.slice(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES),
  );
}

/** The digests of keys that occur more than once in the page. */
function digestsOfDoubled(keys: readonly string[], digests: Uint32Array): Map<string, number[]> {
  const doubled = new Map<string, number[]>();
  if (new Set(keys).size === keys.length) return doubled;
  const first = new Map<string, number>();
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index]!;
    const before = first.get(key);
    if (before === undefined) {
      first.set(key, index);
      continue;
    }
    const list = doubled.get(key) ?? [digests[before]!];
    list.push(digests[index]!);
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
function edgeOf(page: PreparedPage, keys: readonly string[], before: readonly string[]): readonly string[] {
  const last = page.timesMs[keys.length - 1];
  if (last === undefined) return before;
  const edge: string[] = [];
  let index = keys.length - 1;
  while (index >= 0 && page.timesMs[index] === last && edge.length < EDGE_MAX) {
    edge.push(`${Buffer.from(keys[index]!, "latin1").toString("hex")}:${page.digests[index]!.toString(16)}`);
    index--;
  }
  // A page that lies wholly within one millisecond: what came before it is edge as well.
  return index < 0 ? [...edge, ...before].slice(0, EDGE_MAX) : edge;
}
