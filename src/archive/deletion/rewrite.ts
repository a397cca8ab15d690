import { hash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { readEntries } from "../evidence/read.ts";
import type { PartFiles } from "../log/leaf.ts";
import { createTree, HASH_BYTES } from "../log/tree.ts";
import { CODEC, createDataFile, type DataFileWriter } from "../part/data-file.ts";
import { archivedEvents } from "../part/events.ts";
import { encodeManifest, entryOf, type Line, type ManifestEntry } from "../part/manifest.ts";
import { openRange } from "../part/range.ts";
import type { ArchiveStore } from "../store/store.ts";

/** The fate of a line: kept, gone, or kept without these events. */
export type Fate = "keep" | "gone" | { readonly without: ReadonlySet<number> };

export interface Rewritten {
  /** Undefined when nothing is left. */
  readonly files: PartFiles | undefined;
  readonly dataFile: string;
  readonly manifest: Buffer;
  readonly removedLines: number;
  readonly removedEvents: number;
}

/**
 * Writes a part again without what is to go, to the local disk. Ranges that stay are copied byte for byte. The
 * leaf of a line that is gone stays in the manifest, and a changed line names the leaf that it replaces, so the
 * tree of the first manifest can still be computed.
 */
export async function rewritePart(
  store: ArchiveStore,
  files: PartFiles,
  fateOf: (line: Line) => Fate,
  entryIndex: number,
  folder: string,
): Promise<Rewritten> {
  const entries = await readEntries(store, files);
  const dataFile = join(folder, `rewrite-${entryIndex}.zst`);
  const data = createDataFile(dataFile, CODEC);
  try {
    return await rewriteInto(data, dataFile, store, files, entries, fateOf, entryIndex);
  } finally {
    // After an error an open file would keep its space on a full disk.
    data.abort();
  }
}

async function rewriteInto(
  data: DataFileWriter,
  dataFile: string,
  store: ArchiveStore,
  files: PartFiles,
  entries: readonly ManifestEntry[],
  fateOf: (line: Line) => Fate,
  entryIndex: number,
): Promise<Rewritten> {
  const rewritten: ManifestEntry[] = [];
  let [removedLines, removedEvents] = [0, 0];
  for (const entry of entries) {
    const fate = "gone" in entry ? "gone" : fateOf(entry.line);
    if ("gone" in entry) rewritten.push(entry);
    else if (fate === "gone") {
      // The leaf that it was closed with, whatever it became since.
      rewritten.push({ leaf: entry.replaces ?? entry.leaf, gone: entryIndex });
      removedLines++;
      removedEvents += entry.line.events - entry.line.erased.length;
    } else if (fate === "keep") rewritten.push(await copyLine(store, files, entry, data));
    else {
      rewritten.push(await eraseEvents(store, files, entry, fate.without, data));
      removedEvents += fate.without.size;
    }
  }
  const whole = data.finish();
  const manifest = encodeManifest(rewritten);
  const lines = rewritten.flatMap((entry) => ("line" in entry ? [entry.line] : []));
  const shared = { dataFile, manifest, removedLines, removedEvents };
  if (lines.length === 0) return { ...shared, files: undefined };
  return { ...shared, files: filesOf(files, rewritten, lines, whole, manifest) };
}

function filesOf(
  files: PartFiles,
  entries: readonly ManifestEntry[],
  lines: readonly Line[],
  whole: { readonly bytes: number; readonly sha256: string },
  manifest: Buffer,
): PartFiles {
  const { day, part } = files;
  const name = `${day.replaceAll("-", "/")}.${part}`;
  const sha256 = hash("sha256", manifest, "hex");
  const tree = createTree();
  for (const { leaf } of entries) tree.append(Buffer.from(leaf, "hex"));
  return {
    day,
    part,
    class: files.class,
    data: `events/${name}.${whole.sha256.slice(0, 8)}.jsonl.zst`,
    data_bytes: whole.bytes,
    data_sha256: whole.sha256,
    manifest: `manifests/${name}.${sha256.slice(0, 8)}.jsonl`,
    manifest_bytes: manifest.length,
    manifest_sha256: sha256,
    lines: entries.length,
    lines_root: tree.root().toString("hex"),
    events: lines.reduce((sum, line) => sum + line.events, 0),
    raw_bytes: lines.reduce((sum, line) => sum + line.raw_bytes, 0),
  };
}

type LineEntry = Extract<ManifestEntry, { readonly line: Line }>;

async function copyLine(
  store: ArchiveStore,
  files: PartFiles,
  entry: LineEntry,
  data: DataFileWriter,
): Promise<ManifestEntry> {
  const { line } = entry;
  const range = await openRange(store, files.data, line);
  const stored = await store.read(files.data, { from: line.offset, length: line.stored_bytes });
  const sizes = [
    { stored: line.key_bytes, raw: 0 },
    ...line.frames.map(([size, raw]) => ({ stored: size, raw })),
  ];
  const offset = data.copy(stored!, sizes);
  return entryOf({ ...line, offset }, range.lineNonce, entry.replaces ?? entry.leaf);
}

/** The secret goes too: from it the nonces of the erased events could be computed, and their content guessed (A17). */
async function eraseEvents(
  store: ArchiveStore,
  files: PartFiles,
  entry: LineEntry,
  without: ReadonlySet<number>,
  data: DataFileWriter,
): Promise<ManifestEntry> {
  const { line } = entry;
  const range = await openRange(store, files.data, line);
  const before = new Map(line.erased);
  const nonces = Buffer.alloc(line.events * HASH_BYTES);
  for (let index = 0; index < line.events; index++)
    if (!without.has(index) && !before.has(index)) range.hasher.nonce(index).copy(nonces, index * HASH_BYTES);
  const lineNonce = randomBytes(HASH_BYTES);
  data.begin({ kind: "nonces", line: lineNonce, events: nonces });
  for await (const { index, event } of archivedEvents(range, line.organization)) {
    if (event === null) data.erased(Buffer.from(before.get(index)!, "hex"));
    else if (without.has(index)) data.erased(Buffer.from(range.hasher.leaf(index, event.bytes), "latin1"));
    else data.event(event.bytes, Buffer.from(event.identity, "hex"));
  }
  return entryOf({ ...line, ...(await data.end()) }, lineNonce, entry.replaces ?? entry.leaf);
}
