import type { SignedCheckpoint } from "../log/checkpoint.ts";
import { LOCKED_FILE, type LockedFile, parseLocked } from "../log/locked.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";
import { isCurrentNote, type KnownKey } from "./signatures.ts";

/** The files that the note about locked files explains; undefined without a note. */
export async function readLocked(
  store: ArchiveStore,
  checkpoint: SignedCheckpoint,
  keys: readonly KnownKey[],
  findings: Findings,
): Promise<readonly LockedFile[] | undefined> {
  const bytes = await store.read(LOCKED_FILE);
  if (bytes === undefined) return undefined;
  try {
    const locked = parseLocked(bytes);
    return isCurrentNote(LOCKED_FILE, locked, checkpoint, keys, findings) ? locked.files : [];
  } catch (error) {
    findings.expect("log files", false, LOCKED_FILE, `INVALID: ${(error as Error).message}`);
    return [];
  }
}
