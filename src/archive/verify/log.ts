import { ZodError } from "zod";
import type { SignedCheckpoint } from "../log/checkpoint.ts";
import { type LogLeaf, parseLeaf } from "../log/leaf.ts";
import type { LockedFile } from "../log/locked.ts";
import { parseVerifier, type Verifier } from "../log/note.ts";
import { entriesOf, TILE_WIDTH, tilePath } from "../log/tiles.ts";
import { leafHash, leavesOf } from "../log/tree.ts";
import type { ArchiveStore } from "../store/store.ts";
import { type FoundClosing, readClosing } from "./closing.ts";
import type { Findings } from "./findings.ts";
import { readLocked } from "./locked.ts";
import { checkFiles } from "./log-files.ts";
import { readCheckpoint } from "./read-checkpoint.ts";
import {
  type Cosignatures,
  checkCosignatures,
  checkSignature,
  checkSince,
  type EndedWitness,
  endedWitnesses,
  keysOf,
} from "./signatures.ts";

/*
 * Checks the log: the newest checkpoint and its signature, every entry, the tree over them, every numbered
 * checkpoint, every tile, and the files beside them that only help readers.
 */

export interface CheckedLog {
  readonly checkpoint: SignedCheckpoint;
  readonly leaves: readonly LogLeaf[];
  /** Every file that the log has, with those of its tiles. */
  readonly files: ReadonlySet<string>;
  readonly closing: FoundClosing | undefined;
  /** Files that are no longer part of the archive, but locked by its store; undefined without a note about them. */
  readonly locked: readonly LockedFile[] | undefined;
  /** Of the newest checkpoint. */
  readonly cosignatures: Cosignatures;
  readonly endedWitnesses: readonly EndedWitness[];
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
  checkPlaces(leaves, checkpoint, findings);
  const keys = keysOf(leaves);
  const trusted = scope.key ?? keys[0]?.verifier;
  checkSignature(checkpoint, "log/checkpoint", checkpoint.size, trusted, keys, findings);
  if (scope.since !== undefined) checkSince(scope.since, checkpoint, hashes, trusted, keys, findings);
  const closing = await readClosing(store, checkpoint, keys, findings);
  const locked = await readLocked(store, checkpoint, keys, findings);
  const isGrowing = closing?.isCurrent === true;
  const { files, cosigned } = await checkFiles(
    ...([store, checkpoint, entries, leaves, hashes, trusted, keys, isGrowing, findings] as const),
  );
  return {
    checkpoint,
    leaves,
    files,
    closing,
    locked,
    cosignatures: checkCosignatures(checkpoint, "log/checkpoint", leaves, scope, findings),
    endedWitnesses: endedWitnesses(leaves, cosigned),
  };
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
      if (leaf.kind === "key" || leaf.kind === "witness" || leaf.kind === "witness_end")
        parseVerifier(leaf.key);
      return [leaf];
    } catch (error) {
      findings.expect(
        "log entries",
        false,
        `log entry ${index}`,
        `INVALID: ${error instanceof SyntaxError || error instanceof ZodError ? "its text is not that of a log entry" : (error as Error).message}`,
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
