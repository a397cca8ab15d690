import { HASH_BYTES, type Leaves, leavesOf, rootOf } from "./tree.ts";

/*
 * The log as static files (C2SP tlog-tiles v0.1.0): hashes in tiles of 256, entries in bundles of 256, each
 * entry behind its length in two bytes. A file never changes: a tile that is not full has its width in its name.
 */

export const TILE_WIDTH = 256;
export const ENTRY_BYTES_MAX = 65_535;

export interface LogFile {
  /** Below the folder of the log. */
  readonly path: string;
  readonly bytes: Buffer;
}

export function tilePath(level: number | "entries", index: number, width: number): string {
  const digits = String(index).padStart(3, "0");
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/\d{3}/g)!;
  const name = groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group)).join("/");
  return `tile/${level}/${name}${width < TILE_WIDTH ? `.p/${width}` : ""}`;
}

/** The files of a tree of `size` that a tree of `oldSize` does not have. `entry` gives a leaf's data. */
export function tilesBetween(
  oldSize: number,
  leaves: Leaves,
  entry: (index: number) => Uint8Array,
): LogFile[] {
  const files: LogFile[] = [];
  for (const { index, from, to } of grown(oldSize, leaves.size)) {
    const path = tilePath("entries", index, to - from);
    files.push({ path, bytes: bundleOf(Array.from({ length: to - from }, (_, at) => entry(from + at))) });
  }
  let [oldCount, hashes] = [oldSize, leaves];
  for (let level = 0; hashes.size > 0; level++) {
    for (const { index, from, to } of grown(oldCount, hashes.size)) {
      const bytes = Buffer.concat(Array.from({ length: to - from }, (_, at) => hashes.at(from + at)));
      files.push({ path: tilePath(level, index, to - from), bytes });
    }
    oldCount = Math.floor(oldCount / TILE_WIDTH);
    hashes = levelAbove(hashes);
  }
  return files;
}

/** The tiles of one level that are new or wider when it grows. */
function grown(oldCount: number, count: number): { index: number; from: number; to: number }[] {
  if (count === oldCount) return [];
  const first = Math.floor(oldCount / TILE_WIDTH);
  const last = Math.floor((count - 1) / TILE_WIDTH);
  return Array.from({ length: last - first + 1 }, (_, at) => {
    const from = (first + at) * TILE_WIDTH;
    return { index: first + at, from, to: Math.min(from + TILE_WIDTH, count) };
  });
}

function levelAbove(hashes: Leaves): Leaves {
  const full = Math.floor(hashes.size / TILE_WIDTH);
  const roots = Array.from({ length: full }, (_, at) =>
    rootOf(hashes, at * TILE_WIDTH, (at + 1) * TILE_WIDTH),
  );
  return leavesOf(Buffer.concat(roots, full * HASH_BYTES));
}

export function bundleOf(entries: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    entries.flatMap((entry) => {
      if (entry.length > ENTRY_BYTES_MAX)
        throw new RangeError(`A log entry has ${entry.length} bytes; ${ENTRY_BYTES_MAX} is the most.`);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(entry.length);
      return [length, entry];
    }),
  );
}

/** The entries of a bundle; undefined when it is cut or has more bytes than it says. */
export function entriesOf(bundle: Buffer): Buffer[] | undefined {
  const entries: Buffer[] = [];
  let at = 0;
  while (at + 2 <= bundle.length) {
    const end = at + 2 + bundle.readUInt16BE(at);
    if (end > bundle.length) return undefined;
    entries.push(bundle.subarray(at + 2, end));
    at = end;
  }
  return at === bundle.length ? entries : undefined;
}
