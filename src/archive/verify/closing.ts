import type { SignedCheckpoint } from "../log/checkpoint.ts";
import { CLOSING_FILE, type Closing, parseClosing } from "../log/closing.ts";
import { isSignedBy } from "../log/note.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";
import type { KnownKey } from "./signatures.ts";

/** The note about files that are being written. */
export interface FoundClosing extends Closing {
  readonly bytes: Buffer;
  /** Whether it is about the next entries of this log. One that was left behind explains nothing. */
  readonly isCurrent: boolean;
}

export async function readClosing(
  store: ArchiveStore,
  { origin, size }: SignedCheckpoint,
  keys: readonly KnownKey[],
  findings: Findings,
): Promise<FoundClosing | undefined> {
  const bytes = await store.read(CLOSING_FILE);
  if (bytes === undefined) return undefined;
  try {
    const closing = parseClosing(bytes);
    const [current, ...earlier] = keys.map(({ verifier }) => verifier).reverse();
    const isSigned = current !== undefined && isSignedBy(closing.note, current);
    const isOwn = isSigned || earlier.some((verifier) => isSignedBy(closing.note, verifier));
    findings.expect(
      "log files",
      isOwn && closing.origin === origin,
      CLOSING_FILE,
      "INVALID: it is not signed by a key of this log",
    );
    return { ...closing, bytes, isCurrent: isSigned && closing.origin === origin && closing.size === size };
  } catch (error) {
    findings.expect("log files", false, CLOSING_FILE, `INVALID: ${(error as Error).message}`);
    return { origin, size, timeMs: 0, paths: [], bytes, isCurrent: false };
  }
}
