import { type Leaves, leavesOf, rootOf } from "./tree.ts";

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

/** Makes the files of a log that grows. */
export interface Tiler {
  /** The files that a tree of `size` has and the one before did not. */
  grow(size: number): LogFile[];
}

export function createTiler(leaves: Leaves, entry: (index: number) => Uint8Array): Tiler {
  // Of each level, the hashes so far. A level above has one for each full tile.
  const levels: Uint8Array[][] = [[]];

  function add(level: number, hash: Uint8Array): void {
    levels[level] ??= [];
    const hashes = levels[level];
    hashes.push(hash);
    if (hashes.length % TILE_WIDTH !== 0) return;
    add(level + 1, rootOf(leavesOf(Buffer.concat(hashes.slice(-TILE_WIDTH)))));
  }

  return {
    grow(size) {
      const before = levels.map(({ length }) => length);
      for (let index = before[0]!; index < size; index++) add(0, leaves.at(index));
      const bundles = grown(before[0]!, size).map(({ index, from, to }) => ({
        path: tilePath("entries", index, to - from),
        bytes: bundleOf(Array.from({ length: to - from }, (_, at) => entry(from + at))),
      }));
      const tiles = levels.flatMap((hashes, level) =>
        grown(before[level] ?? 0, hashes.length).map(({ index, from, to }) => ({
          path: tilePath(level, index, to - from),
          bytes: Buffer.concat(hashes.slice(from, to)),
        })),
      );
      return [...bundles, ...tiles];
    },
  };
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
