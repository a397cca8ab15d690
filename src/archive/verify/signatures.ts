import { cosignedAtMs, parseCheckpoint, type SignedCheckpoint } from "../log/checkpoint.ts";
import type { LogLeaf } from "../log/leaf.ts";
import { isSignedBy, type Note, parseVerifier, type Verifier } from "../log/note.ts";
import { keyNameOf } from "../log/signers.ts";
import { type Leaves, rootOf } from "../log/tree.ts";
import { witnessesIn } from "../log/witnesses.ts";
import type { Findings } from "./findings.ts";

/* Who signed a checkpoint: the log's keys in their order, a checkpoint that the auditor kept, and witnesses. */

/** The signing keys in the order of the log; each is valid from its own entry on. */
export interface KnownKey {
  readonly verifier: Verifier;
  readonly index: number;
}

export function keysOf(leaves: readonly LogLeaf[]): KnownKey[] {
  return leaves.flatMap((leaf) =>
    leaf.kind === "key" ? [{ verifier: parseVerifier(leaf.key), index: leaf.index }] : [],
  );
}

/**
 * A checkpoint is trusted through the pinned key, or through a key that the log introduced: the checkpoint which
 * introduced it must be signed by the one before as well (A20), which `checkNumbered` demands.
 */
export function checkSignature(
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

export function checkSince(
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

/**
 * Whether a note beside the log counts: the log's current key has signed it. Somebody may have an earlier key, so a
 * note with that explains nothing. A note of no key of this log is a finding.
 */
export function isCurrentNote(
  path: string,
  { origin, note }: { readonly origin: string; readonly note: Note },
  log: Pick<SignedCheckpoint, "origin">,
  keys: readonly KnownKey[],
  findings: Findings,
): boolean {
  const [current, ...earlier] = keys.map(({ verifier }) => verifier).reverse();
  const isSigned = current !== undefined && isSignedBy(note, current);
  const isOwn = isSigned || earlier.some((verifier) => isSignedBy(note, verifier));
  const isOfLog = isOwn && origin === log.origin;
  findings.expect("log files", isOfLog, path, "INVALID: it is not signed by a key of this log");
  return isOfLog && isSigned;
}

export interface Cosignatures {
  /** The witnesses that cosigned the checkpoint, by their keys, and when. */
  readonly cosigned: readonly { readonly key: string; readonly atMs: number }[];
  /** The witnesses without a cosignature, except those that the log says are no longer asked. */
  readonly lacking: readonly string[];
}

/** The newest numbered checkpoint that each witness has cosigned, by its key. */
export type LastCosigned = ReadonlyMap<string, { readonly size: number; readonly atMs: number }>;

/** A witness that the operator took out of the config. */
export interface EndedWitness {
  /** Its name and the hash of its key. */
  readonly name: string;
  /** The log entry that says so. */
  readonly entry: number;
  readonly time: string;
  /** The last checkpoint that it cosigned; null where it never did. */
  readonly last: { readonly size: number; readonly atMs: number } | null;
}

export function endedWitnesses(leaves: readonly LogLeaf[], cosigned: LastCosigned): readonly EndedWitness[] {
  return witnessesIn(leaves)
    .filter(({ isAsked }) => !isAsked)
    .map(({ key, entry, time }) => ({ name: keyNameOf(key), entry, time, last: cosigned.get(key) ?? null }));
}

export function checkCosignatures(
  checkpoint: SignedCheckpoint,
  path: string,
  leaves: readonly LogLeaf[],
  scope: { readonly witnesses: readonly Verifier[] },
  findings: Findings,
): Cosignatures {
  const named = witnessesIn(leaves);
  const ended = new Set(named.flatMap(({ key, isAsked }) => (isAsked ? [] : [key])));
  const known = named.map(({ key }) => parseVerifier(key));
  const signers = leaves.flatMap((leaf) => (leaf.kind === "key" ? [parseVerifier(leaf.key)] : []));
  const given = scope.witnesses;
  const all = [...known.filter(({ text }) => !given.some((witness) => witness.text === text)), ...given];
  const asked = all.filter((witness) => given.includes(witness) || !ended.has(witness.text));
  const names = new Set([...all, ...signers].map(({ name, id }) => `${name} ${id}`));
  const strange = checkpoint.note.signatures.find(({ name, id }) => !names.has(`${name} ${id}`));
  findings.expect(
    "cosignatures",
    strange === undefined,
    path,
    `INVALID: a signature by ${strange?.name} is of no key that the log names`,
  );
  const cosigned: { key: string; atMs: number }[] = [];
  const lacking: string[] = [];
  for (const witness of all) {
    try {
      const atMs = cosignedAtMs(checkpoint.note, witness);
      const isExpected = given.includes(witness) || isNewest(witness, asked);
      if (atMs !== undefined) cosigned.push({ key: witness.text, atMs });
      else if (isExpected) lacking.push(witness.name);
    } catch (error) {
      findings.expect("cosignatures", false, path, `INVALID: ${(error as Error).message}`);
    }
  }
  return { cosigned, lacking };
}

/** Logs of earlier versions do not say that a key of a witness is no longer asked where a later entry names another one. */
function isNewest(witness: Verifier, asked: readonly Verifier[]): boolean {
  return asked.findLast(({ name }) => name === witness.name) === witness;
}
