import type { SignedCheckpoint } from "../log/checkpoint.ts";
import type { LogLeaf } from "../log/leaf.ts";
import type { Verifier } from "../log/note.ts";
import { createTiler } from "../log/tiles.ts";
import { createTree, type Leaves } from "../log/tree.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";
import { readCheckpoint } from "./read-checkpoint.ts";
import {
  type Cosignatures,
  checkCosignatures,
  checkSignature,
  type KnownKey,
  type LastCosigned,
} from "./signatures.ts";

/* The files of the log beside its newest checkpoint: numbered checkpoints, tiles, and the texts for readers. */

export async function checkFiles(
  store: ArchiveStore,
  newest: SignedCheckpoint,
  entries: readonly Buffer[],
  leaves: readonly LogLeaf[],
  hashes: Leaves,
  trusted: Verifier | undefined,
  keys: readonly KnownKey[],
  isGrowing: boolean,
  findings: Findings,
): Promise<{ readonly files: ReadonlySet<string>; readonly cosigned: LastCosigned }> {
  const cosigned = new Map<string, { readonly size: number; readonly atMs: number }>();
  const files = new Set(["log/checkpoint", "log/leaves.jsonl", "keys.txt"]);
  const sizes = [...new Set(leaves.map(({ size }) => size))].sort((a, b) => a - b);
  const tiler = createTiler(hashes, (index) => entries[index]!);
  const tree = createTree();
  for (const size of sizes.filter((value) => value <= entries.length)) {
    const path = `log/checkpoint.${size}`;
    files.add(path);
    while (tree.size < size) tree.append(hashes.at(tree.size));
    const head = { size, root: tree.root() };
    const found = await checkNumbered(store, path, head, newest, leaves, trusted, keys, findings);
    for (const { key, atMs } of found) cosigned.set(key, { size, atMs });
    for (const { path: tile, bytes } of tiler.grow(size)) {
      files.add(`log/${tile}`);
      const isSame = (await store.read(`log/${tile}`))?.equals(bytes) === true;
      findings.expect(
        "log files",
        isSame,
        `log/${tile}`,
        "INVALID: it is missing or not the tile of these entries",
      );
    }
  }
  const text = Buffer.from(entries.map((entry) => `${entry}\n`).join(""));
  const found = await store.read("log/leaves.jsonl");
  // It is replaced before the checkpoint is.
  const isText = found?.equals(text) || (isGrowing && found?.subarray(0, text.length).equals(text)) || false;
  findings.expect(
    "leaves.jsonl",
    isText,
    "log/leaves.jsonl",
    "INVALID: it is not the text of the log entries",
  );
  const keyText = keysText(leaves);
  const isKeys = (await store.read("keys.txt"))?.toString() === keyText;
  findings.expect("keys.txt", isKeys, "keys.txt", "INVALID: it is not the list of the log's keys");
  return { files, cosigned };
}

/** The file `keys.txt`: every key that the log names, one on each line. */
export function keysText(leaves: readonly LogLeaf[]): string {
  return leaves
    .flatMap((leaf) => (leaf.kind === "key" || leaf.kind === "witness" ? [`${leaf.key}\n`] : []))
    .join("");
}

async function checkNumbered(
  store: ArchiveStore,
  path: string,
  { size, root }: { readonly size: number; readonly root: Buffer },
  newest: SignedCheckpoint,
  leaves: readonly LogLeaf[],
  trusted: Verifier | undefined,
  keys: readonly KnownKey[],
  findings: Findings,
): Promise<Cosignatures["cosigned"]> {
  if (!findings.isOn("numbered checkpoints")) return [];
  const numbered = await readCheckpoint(store, path, findings);
  if (numbered === undefined) return [];
  const isRight = numbered.size === size && numbered.origin === newest.origin && numbered.root.equals(root);
  findings.expect(
    "numbered checkpoints",
    isRight,
    path,
    "INVALID: it is not the checkpoint of this log at that size",
  );
  if (size === newest.size)
    findings.expect(
      "numbered checkpoints",
      numbered.bytes.equals(newest.bytes),
      path,
      "INVALID: it differs from log/checkpoint",
    );
  checkSignature(numbered, path, size, trusted, keys, findings);
  return checkCosignatures(numbered, path, leaves, { witnesses: [] }, findings).cosigned;
}
