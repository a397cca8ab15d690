import { createHash } from "node:crypto";
import { IDENTITY_BYTES } from "../../core/page-scratch.ts";

const BUCKETS = 65_536;
/** Fewer are sorted without buckets. */
const MANY = 4096;
/** Lines that are hashed at once. */
const LINES = 1000;

/** The identities of a range, in sixteen bytes each: as texts, those of a day with a million events would take 100 MB. */
export interface IdentityList {
  clear(): void;
  push(identity: Buffer): void;
  /** How many different ones there are, and their hash. */
  summary(): { readonly held: number; readonly sha256: string };
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
    summary() {
      let held = 0;
      const counted = function* () {
        for (const identity of distinct()) {
          held++;
          yield identity;
        }
      };
      return { sha256: identitiesHash(counted()), held };
    },
  };
}

/** Publicly defined (A11): SHA-256 over the sorted distinct identities, each with a line break. */
export function identitiesHash(sorted: Iterable<string>): string {
  const hash = createHash("sha256");
  let lines: string[] = [];
  const flush = () => {
    if (lines.length > 0) hash.update(`${lines.join("\n")}\n`);
    lines = [];
  };
  for (const identity of sorted) if (lines.push(identity) === LINES) flush();
  flush();
  return hash.digest("hex");
}

/** Identities are hashes: by their first two bytes they are spread evenly, and few are left to be compared. */
function sortedRows(bytes: Buffer, count: number): Uint32Array {
  const byBytes = (a: number, b: number) => compare(bytes, a, b);
  const rows = new Uint32Array(count);
  if (count < MANY) {
    for (let row = 0; row < count; row++) rows[row] = row;
    return rows.sort(byBytes);
  }
  const bucketOf = (row: number) => (bytes[row * IDENTITY_BYTES]! << 8) | bytes[row * IDENTITY_BYTES + 1]!;
  const ends = new Uint32Array(BUCKETS + 1);
  for (let row = 0; row < count; row++) ends[bucketOf(row) + 1]!++;
  for (let bucket = 0; bucket < BUCKETS; bucket++) ends[bucket + 1]! += ends[bucket]!;
  const next = ends.slice();
  for (let row = 0; row < count; row++) rows[next[bucketOf(row)]!++] = row;
  for (let bucket = 0; bucket < BUCKETS; bucket++)
    if (ends[bucket + 1]! - ends[bucket]! > 1) rows.subarray(ends[bucket], ends[bucket + 1]).sort(byBytes);
  return rows;
}

function compare(bytes: Buffer, a: number, b: number): number {
  const [first, second] = [a * IDENTITY_BYTES, b * IDENTITY_BYTES];
  return bytes.compare(bytes, second, second + IDENTITY_BYTES, first, first + IDENTITY_BYTES);
}
