import { parseCheckpoint, type SignedCheckpoint } from "../log/checkpoint.ts";
import { type LogLeaf, type PartFiles, parseLeaf } from "../log/leaf.ts";
import { entriesOf, TILE_WIDTH, tilePath } from "../log/tiles.ts";
import { type Leaves, leafHash, leavesOf } from "../log/tree.ts";
import { type ManifestEntry, parseManifest } from "../part/manifest.ts";
import type { ArchiveStore } from "../store/store.ts";

/** The log of an archive as its store has it, for commands that read. `verify` is what checks it. */
export interface ReadLog {
  readonly checkpoint: SignedCheckpoint;
  readonly entries: readonly Buffer[];
  readonly leaves: readonly LogLeaf[];
  readonly hashes: Leaves;
}

export async function readLog(store: ArchiveStore): Promise<ReadLog> {
  const bytes = await store.read("log/checkpoint");
  if (bytes === undefined) throw new Error(`${store.place} holds no archive: there is no log/checkpoint.`);
  const checkpoint = parseCheckpoint(bytes);
  const entries: Buffer[] = [];
  for (let index = 0; index * TILE_WIDTH < checkpoint.size; index++) {
    const path = `log/${tilePath("entries", index, Math.min(TILE_WIDTH, checkpoint.size - index * TILE_WIDTH))}`;
    const bundle = entriesOf((await store.read(path)) ?? Buffer.alloc(0));
    if (bundle === undefined) throw new Error(`${store.place}/${path} is damaged: run \`archive verify\`.`);
    entries.push(...bundle);
  }
  const leaves = entries.map((entry, index) => parseLeaf(entry, checkpoint.origin, index));
  return {
    checkpoint,
    entries,
    leaves,
    hashes: leavesOf(Buffer.concat(entries.map((entry) => leafHash(entry)))),
  };
}

export async function readEntries(store: ArchiveStore, { manifest }: PartFiles): Promise<ManifestEntry[]> {
  const bytes = await store.read(manifest);
  if (bytes === undefined) throw new Error(`${store.place}/${manifest} is missing: run \`archive verify\`.`);
  return parseManifest(bytes);
}

/** The log entry that names a part's files as they are now. */
export function namingLeaf(leaves: readonly LogLeaf[], files: PartFiles): LogLeaf {
  const found = leaves.findLast(
    (leaf) =>
      ("manifest_sha256" in leaf && leaf.manifest_sha256 === files.manifest_sha256) ||
      ("replacement" in leaf && leaf.replacement?.manifest_sha256 === files.manifest_sha256),
  );
  if (found === undefined) throw new Error(`No log entry names ${files.manifest}.`);
  return found;
}
