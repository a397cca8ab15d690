import { DecisionNeededError } from "../../core/errors.ts";
import type { LeafOf } from "./leaf.ts";
import type { Signer } from "./note.ts";

/**
 * Who signs the checkpoint over these entries: the newest key among them, and for the entry that introduces it also
 * the key before (A20). After a crash these may be entries that were proposed before or during a change of the key.
 */
export function signersOf(
  entries: readonly Buffer[],
  signer: Signer,
  previousSigner: Signer | undefined,
): readonly Signer[] {
  const at = newestKeyAt(entries);
  if (at < 0) return [signer];
  const { key, previous } = JSON.parse(entries[at]!.toString()) as LeafOf<"key">;
  const isChange = at === entries.length - 1 && previous !== null;
  const wanted = isChange ? [previous, key] : [key];
  const found = wanted.map((text) => [signer, previousSigner].find((known) => known?.verifier.text === text));
  if (found.every((known) => known !== undefined)) return found;
  throw isChange ? interruptedChange(previous, key) : otherKey(keysIn(entries), signer);
}

/** The public keys that the entries name. The last one signs now. */
export function keysIn(entries: readonly Buffer[]): readonly string[] {
  return entries.filter(isAboutKey).map((entry) => (JSON.parse(entry.toString()) as LeafOf<"key">).key);
}

/** Throws unless this key signs now, or the key before can confirm it. */
export function checkKey(
  keys: readonly string[],
  signer: Signer,
  previousSigner: Pick<Signer, "verifier"> | undefined,
): void {
  const newest = keys.at(-1);
  if (newest === undefined || newest === signer.verifier.text) return;
  if (newest !== previousSigner?.verifier.text) throw otherKey(keys, signer);
}

function newestKeyAt(entries: readonly Buffer[]): number {
  return entries.findLastIndex(isAboutKey);
}

function isAboutKey(entry: Buffer): boolean {
  return entry.includes('"kind":"key",');
}

/** The name and the hash of a public key. */
export const keyNameOf = (key: string) => key.split("+").slice(0, 2).join("+");

function interruptedChange(previous: string, key: string): DecisionNeededError {
  return new DecisionNeededError(
    `A change of the signing key from ${keyNameOf(previous)} to ${keyNameOf(key)} was interrupted, and both keys are needed to complete it. Nothing was signed.`,
    [
      "where `tidemark archive keys rotate` was interrupted, repeat it with the same file",
      "name the new key file as `key` and the old one as `previousKey`, and restart; `tidemark archive keys show FILE` prints the key of a file",
    ],
  );
}

/** Where the log does not end with this key. */
function otherKey(keys: readonly string[], { verifier }: Signer): DecisionNeededError {
  const newest = keyNameOf(keys.at(-1)!);
  if (keys.includes(verifier.text))
    return new DecisionNeededError(
      `The log is signed with a newer key, ${newest}; the key of the config, ${keyNameOf(verifier.text)}, is an earlier one. Nothing was signed.`,
      [
        "name the file of the newer key as `key`, and remove `previousKey`; `tidemark archive keys show FILE` prints the key of a file",
        "if the newer key is lost, start a new archive with another origin and place; the old one stays verifiable",
      ],
    );
  return new DecisionNeededError(
    `The signing key is not the one that this archive was signed with (${newest}). Nothing was signed.`,
    [
      "name the right key file",
      "to change the key, name the new one as `key` and the old one as `previousKey`, and restart",
      "if the old key is lost, start a new archive with another origin and place; the old one stays verifiable",
    ],
  );
}
