import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { IDENTITY_BYTES } from "../../core/page-scratch.ts";

const BUCKETS = 65_536;
/** Fewer are sorted without buckets. */
const MANY = 4096;
/** Polling and delivery have their turn after so many: these take some milliseconds. */
const TURN_IDENTITIES = 4000;

/** The identities of a range, in sixteen bytes each: as texts, those of a day with a million events would take 100 MB. */
export interface IdentityList {
  clear(): void;
  push(identity: Buffer): void;
  /** How many different ones there are. The hash is publicly defined (A11): SHA-256 over the sorted distinct ones as texts, each with a line break. */
  summary(): Promise<IdentitySummary>;
}

export interface IdentitySummary {
  readonly held: number;
  readonly sha256: string;
}

export function createIdentityList(): IdentityList {
  let bytes = Buffer.allocUnsafeSlow(64 * IDENTITY_BYTES);
  let count = 0;

  function* distinct(): Iterable<string> {
    let before = -1;
    for (const row of sortedRows(bytes, count)) {
      if (before < 0 || compare(bytes, before, row) !== 0)
        yield bytes.toString("hex", row * IDENTITY_BYTES, (row + 1) * IDENTITY_BYTES);
      before = row;
    }
  }

  return {
    clear() {
      count = 0;
    },
    push(identity) {
      const at = count++ * IDENTITY_BYTES;
      if (at === bytes.length) {
        const larger = Buffer.allocUnsafeSlow(2 * bytes.length);
        bytes.copy(larger);
        bytes = larger;
      }
      identity.copy(bytes, at);
    },
    async summary() {
      const hash = createHash("sha256");
      let held = 0;
      let lines = "";
      for (const identity of distinct()) {
        lines += `${identity}\n`;
        if (++held % TURN_IDENTITIES !== 0) continue;
        hash.update(lines);
        lines = "";
        await setImmediate();
      }
      return { sha256: hash.update(lines).digest("hex"), held };
    },
  };
}

/**
 * Identities are hashes: by their first two bytes they are spread evenly, and few are left to be compared. Those of a
 * bucket are sorted when their turn comes.
 */
function* sortedRows(bytes: Buffer, count: number): Iterable<number> {
  const byBytes = (a: number, b: number) => compare(bytes, a, b);
  const rows = new Uint32Array(count);
  if (count < MANY) {
    for (let row = 0; row < count; row++) rows[row] = row;
    yield* rows.sort(byBytes);
    return;
  }
  const bucketOf = (row: number) => (bytes[row * IDENTITY_BYTES]! << 8) | bytes[row * IDENTITY_BYTES + 1]!;
  const ends = new Uint32Array(BUCKETS + 1);
  for (let row = 0; row < count; row++) ends[bucketOf(row) + 1]!++;
  for (let bucket = 0; bucket < BUCKETS; bucket++) ends[bucket + 1]! += ends[bucket]!;
  const next = ends.slice();
  for (let row = 0; row < count; row++) rows[next[bucketOf(row)]!++] = row;
  for (let bucket = 0; bucket < BUCKETS; bucket++)
    yield* rows.subarray(ends[bucket], ends[bucket + 1]).sort(byBytes);
}

function compare(bytes: Buffer, a: number, b: number): number {
  const [first, second] = [a * IDENTITY_BYTES, b * IDENTITY_BYTES];
  return bytes.compare(bytes, second, second + IDENTITY_BYTES, first, first + IDENTITY_BYTES);
}
