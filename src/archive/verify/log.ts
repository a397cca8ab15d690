import { cosignedAtMs, parseCheckpoint, type SignedCheckpoint } from "../log/checkpoint.ts";
import { type LogLeaf, parseLeaf } from "../log/leaf.ts";
import { isSignedBy, parseVerifier, type Verifier } from "../log/note.ts";
import { createTiler, entriesOf, TILE_WIDTH, tilePath } from "../log/tiles.ts";
import { createTree, type Leaves, leafHash, leavesOf, rootOf } from "../log/tree.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";

/*
 * Checks the log: the newest checkpoint and its signature, every entry, the tree over them, every numbered
 * checkpoint, every tile, and the files beside them that only help readers.
 */

export interface CheckedLog {
  readonly checkpoint: SignedCheckpoint;
  readonly leaves: readonly LogLeaf[];
  /** Every file that the log has, with those of its tiles. */
  readonly files: ReadonlySet<string>;
  /** When a witness last cosigned the newest checkpoint. */
  readonly witnessedMs: number | undefined;
}

export interface LogScope {
  /** The key that the auditor pinned; undefined: the log's own, which proves only that it agrees with itself (A20). */
  readonly key: Verifier | undefined;
  /** A checkpoint that the auditor kept. */
  readonly since: Buffer | undefined;
  readonly witnesses: readonly Verifier[];
}

export async function verifyLog(
  store: ArchiveStore,
  scope: LogScope,
  findings: Findings,
): Promise<CheckedLog | undefined> {
  const checkpoint = await readCheckpoint(store, "log/checkpoint", findings);
  if (checkpoint === undefined) return undefined;
  const entries = await readEntries(store, checkpoint.size, findings);
  const hashes = leavesOf(Buffer.concat(entries.map((entry) => leafHash(entry))));
  const leaves = parseLeaves(entries, checkpoint.origin, findings);
  const isTree = entries.length === checkpoint.size && rootOf(hashes).equals(checkpoint.root);
  findings.expect("log tree", isTree, "log/checkpoint", "INVALID: its root is not that of the log entries");
  checkPlaces(leaves, checkpoint, findings);
  const keys = keysOf(leaves);
  const trusted = scope.key ?? keys[0]?.verifier;
  checkSignature(checkpoint, "log/checkpoint", checkpoint.size, trusted, keys, findings);
  if (scope.since !== undefined) checkSince(scope.since, checkpoint, hashes, trusted, keys, findings);
  const files = await checkFiles(store, checkpoint, entries, leaves, hashes, trusted, keys, findings);
  return {
    checkpoint,
    leaves,
    files,
    witnessedMs: checkCosignatures(checkpoint, "log/checkpoint", leaves, scope, findings),
  };
}

async function readCheckpoint(
  store: ArchiveStore,
  path: string,
  findings: Findings,
): Promise<SignedCheckpoint | undefined> {
  const bytes = await store.read(path);
  if (
    !findings.expect("missing files", bytes !== undefined, path, "MISSING: the file is not there") ||
    bytes === undefined
  )
    return undefined;
  try {
    return parseCheckpoint(bytes);
  } catch (error) {
    findings.expect("checkpoint signature", false, path, `INVALID: ${(error as Error).message}`);
    return undefined;
  }
}

async function readEntries(store: ArchiveStore, size: number, findings: Findings): Promise<Buffer[]> {
  const entries: Buffer[] = [];
  for (let index = 0; index * TILE_WIDTH < size; index++) {
    const width = Math.min(TILE_WIDTH, size - index * TILE_WIDTH);
    const path = `log/${tilePath("entries", index, width)}`;
    const bundle = entriesOf((await store.read(path)) ?? Buffer.alloc(0));
    const isWhole = bundle?.length === width;
    if (!findings.expect("log entries", isWhole, path, "INVALID: the log entries are missing or damaged"))
      break;
    entries.push(...(bundle ?? []));
  }
  return entries;
}

function parseLeaves(entries: readonly Buffer[], origin: string, findings: Findings): LogLeaf[] {
  return entries.flatMap((entry, index) => {
    try {
      const leaf = parseLeaf(entry, origin, index);
      if (leaf.kind === "key" || leaf.kind === "witness") parseVerifier(leaf.key);
      return [leaf];
    } catch (error) {
      findings.expect(
        "log entries",
        false,
        `log entry ${index}`,
        `INVALID: ${(error as Error).message.split("\n")[0]}`,
      );
      return [];
    }
  });
}

/**
 * The sizes that leaves name are those of the checkpoints in their order, so that every checkpoint is looked at. A
 * new key is the last leaf of its checkpoint, which the key before signs too: nothing else can introduce one (A20).
 */
function checkPlaces(leaves: readonly LogLeaf[], newest: SignedCheckpoint, findings: Findings): void {
  let before = 0;
  for (const leaf of leaves) {
    const isNext = leaf.index >= before ? leaf.size > before : leaf.size === before;
    const isAlone =
      leaf.kind !== "key" || leaf.previous === null
        ? leaf.kind !== "key" || leaf.index === 0
        : leaf.index + 1 === leaf.size;
    findings.expect(
      "log entries",
      isNext && isAlone && leaf.size <= newest.size,
      `log entry ${leaf.index}`,
      "INVALID: it is not in the checkpoint that it names",
    );
    before = leaf.size;
  }
  findings.expect(
    "log entries",
    before === newest.size,
    "log/checkpoint",
    "INVALID: no log entry names its size",
  );
}

/** The signing keys in the order of the log; each is valid from its own entry on. */
interface KnownKey {
  readonly verifier: Verifier;
  readonly index: number;
}

function keysOf(leaves: readonly LogLeaf[]): KnownKey[] {
  return leaves.flatMap((leaf) =>
    leaf.kind === "key" ? [{ verifier: parseVerifier(leaf.key), index: leaf.index }] : [],
  );
}

/**
 * A checkpoint is trusted through the pinned key, or through a key that the log introduced: the checkpoint which
 * introduced it must be signed by the one before as well (A20), which `checkNumbered` demands.
 */
function checkSignature(
  checkpoint: SignedCheckpoint,
  path: string,
  size: number,
  trusted: Verifier | undefined,
  keys: readonly KnownKey[],
  findings: Findings,
): void {
  const valid = keys.filter(({ index }) => index < size);
  const current = valid.at(-1)?.verifier;
  const introduced = valid.at(-1)?.index;
  const before = introduced !== undefined && introduced + 1 === size ? valid.at(-2)?.verifier : undefined;
  try {
    const isTrusted =
      trusted === undefined ||
      [...keys.map(({ verifier }) => verifier)].some(({ text }) => text === trusted.text);
    findings.expect("checkpoint signature", isTrusted, path, "INVALID: the given key never signed this log");
    const isSigned = current !== undefined && isSignedBy(checkpoint.note, current);
    findings.expect(
      "checkpoint signature",
      isSigned,
      path,
      "INVALID: it is not signed by the key of that time",
    );
    if (before !== undefined)
      findings.expect(
        "checkpoint signature",
        isSignedBy(checkpoint.note, before),
        path,
        "INVALID: the new key is not confirmed by the old one",
      );
  } catch (error) {
    findings.expect("checkpoint signature", false, path, `INVALID: ${(error as Error).message}`);
  }
}

function checkSince(
  bytes: Buffer,
  newest: SignedCheckpoint,
  hashes: Leaves,
  trusted: Verifier | undefined,
  keys: readonly KnownKey[],
  findings: Findings,
): void {
  const subject = "the checkpoint that was kept";
  let kept: SignedCheckpoint;
  try {
    kept = parseCheckpoint(bytes);
  } catch (error) {
    findings.expect("earlier checkpoint", false, subject, `INVALID: ${(error as Error).message}`);
    return;
  }
  checkSignature(kept, subject, kept.size, trusted, keys, findings);
  findings.expect(
    "earlier checkpoint",
    kept.origin === newest.origin,
    subject,
    `INVALID: it is of another log, "${kept.origin}"`,
  );
  if (
    !findings.expect(
      "earlier checkpoint",
      kept.size <= hashes.size,
      "log/checkpoint",
      `INVALID: the log was cut; the kept checkpoint has ${kept.size} entries, the archive has ${hashes.size}`,
    )
  )
    return;
  const isSame = rootOf(hashes, 0, Math.min(kept.size, hashes.size)).equals(kept.root);
  findings.expect(
    "earlier checkpoint",
    isSame,
    `log entries 0 to ${kept.size - 1}`,
    "INVALID: they are not those of the kept checkpoint",
  );
}

function checkCosignatures(
  checkpoint: SignedCheckpoint,
  path: string,
  leaves: readonly LogLeaf[],
  scope: Pick<LogScope, "witnesses">,
  findings: Findings,
): number | undefined {
  const known = leaves.flatMap((leaf) => (leaf.kind === "witness" ? [parseVerifier(leaf.key)] : []));
  const signers = leaves.flatMap((leaf) => (leaf.kind === "key" ? [parseVerifier(leaf.key)] : []));
  const all = [
    ...known,
    ...scope.witnesses.filter(({ text }) => !known.some((witness) => witness.text === text)),
  ];
  const names = new Set([...all, ...signers].map(({ name, id }) => `${name} ${id}`));
  const strange = checkpoint.note.signatures.find(({ name, id }) => !names.has(`${name} ${id}`));
  findings.expect(
    "cosignatures",
    strange === undefined,
    path,
    `INVALID: a signature by ${strange?.name} is of no key that the log names`,
  );
  let newest: number | undefined;
  for (const witness of all) {
    try {
      newest = Math.max(newest ?? 0, cosignedAtMs(checkpoint.note, witness) ?? 0) || undefined;
    } catch (error) {
      findings.expect("cosignatures", false, path, `INVALID: ${(error as Error).message}`);
    }
  }
  return newest;
}

async function checkFiles(
  store: ArchiveStore,
  newest: SignedCheckpoint,
  entries: readonly Buffer[],
  leaves: readonly LogLeaf[],
  hashes: Leaves,
  trusted: Verifier | undefined,
  keys: readonly KnownKey[],
  findings: Findings,
): Promise<Set<string>> {
  const files = new Set(["log/checkpoint", "log/leaves.jsonl", "keys.txt"]);
  const sizes = [...new Set(leaves.map(({ size }) => size))].sort((a, b) => a - b);
  const tiler = createTiler(hashes, (index) => entries[index]!);
  const tree = createTree();
  for (const size of sizes.filter((value) => value <= entries.length)) {
    const path = `log/checkpoint.${size}`;
    files.add(path);
    while (tree.size < size) tree.append(hashes.at(tree.size));
    await checkNumbered(store, path, { size, root: tree.root() }, newest, leaves, trusted, keys, findings);
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
  const isText = (await store.read("log/leaves.jsonl"))?.equals(text) === true;
  findings.expect(
    "leaves.jsonl",
    isText,
    "log/leaves.jsonl",
    "INVALID: it is not the text of the log entries",
  );
  const keyText = keysText(leaves);
  const isKeys = (await store.read("keys.txt"))?.toString() === keyText;
  findings.expect("keys.txt", isKeys, "keys.txt", "INVALID: it is not the list of the log's keys");
  return files;
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
): Promise<void> {
  if (!findings.isOn("numbered checkpoints")) return;
  const numbered = await readCheckpoint(store, path, findings);
  if (numbered === undefined) return;
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
  checkCosignatures(numbered, path, leaves, { witnesses: [] }, findings);
}
