import type { SignedCheckpoint } from "../log/checkpoint.ts";
import { LOCKED_FILE, type LockedFile, parseLocked } from "../log/locked.ts";
import { isSignedBy } from "../log/note.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";
import type { KnownKey } from "./signatures.ts";

/** The files that the note about locked files explains; undefined without a note. */
export async function readLocked(
  store: ArchiveStore,
  { origin }: SignedCheckpoint,
  keys: readonly KnownKey[],
  findings: Findings,
): Promise<readonly LockedFile[] | undefined> {
  const bytes = await store.read(LOCKED_FILE);
  if (bytes === undefined) return undefined;
  try {
    const locked = parseLocked(bytes);
    const [current, ...earlier] = keys.map(({ verifier }) => verifier).reverse();
    const isSigned = current !== undefined && isSignedBy(locked.note, current);
    const isOwn = isSigned || earlier.some((verifier) => isSignedBy(locked.note, verifier));
    findings.expect(
      "log files",
      isOwn && locked.origin === origin,
      LOCKED_FILE,
      "INVALID: it is not signed by a key of this log",
    );
    // Somebody may have an earlier key: it explains nothing.
    return isSigned && locked.origin === origin ? locked.files : [];
  } catch (error) {
    findings.expect("log files", false, LOCKED_FILE, `INVALID: ${(error as Error).message}`);
    return [];
  }
}
