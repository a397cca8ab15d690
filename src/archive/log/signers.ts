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
  throw isChange ? interruptedChange(previous, key) : wrongKey(key);
}

/** The public key that signs now, as the newest entry about a key names it. */
export function newestKeyOf(entries: readonly Buffer[]): string | undefined {
  const at = newestKeyAt(entries);
  return at < 0 ? undefined : (JSON.parse(entries[at]!.toString()) as LeafOf<"key">).key;
}

function newestKeyAt(entries: readonly Buffer[]): number {
  return entries.findLastIndex((entry) => entry.includes('"kind":"key",'));
}

/** The name and the hash of a public key. */
const nameOf = (key: string) => key.split("+").slice(0, 2).join("+");

function interruptedChange(previous: string, key: string): DecisionNeededError {
  return new DecisionNeededError(
    `A change of the signing key from ${nameOf(previous)} to ${nameOf(key)} was interrupted, and both keys are needed to complete it. Nothing was signed.`,
    [
      "where `tidemark archive keys rotate` was interrupted, repeat it with the same file",
      "name the new key file as `key` and the old one as `previousKey`, and restart; `tidemark archive keys show FILE` prints the key of a file",
    ],
  );
}

export function wrongKey(previous: string): DecisionNeededError {
  return new DecisionNeededError(
    `The signing key is not the one that this archive was signed with (${nameOf(previous)}). Nothing was signed.`,
    [
      "name the right key file",
      "to change the key, name the new one as `key` and the old one as `previousKey`, and restart",
      "if the old key is lost, start a new archive with another origin and place; the old one stays verifiable",
    ],
  );
}
