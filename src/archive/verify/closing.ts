import type { SignedCheckpoint } from "../log/checkpoint.ts";
import { CLOSING_FILE, type Closing, parseClosing } from "../log/closing.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";
import { isCurrentNote, type KnownKey } from "./signatures.ts";

/** The note about files that are being written. */
export interface FoundClosing extends Closing {
  readonly bytes: Buffer;
  /** Whether it is about the next entries of this log. One that was left behind explains nothing. */
  readonly isCurrent: boolean;
}

export async function readClosing(
  store: ArchiveStore,
  checkpoint: SignedCheckpoint,
  keys: readonly KnownKey[],
  findings: Findings,
): Promise<FoundClosing | undefined> {
  const { origin, size } = checkpoint;
  const bytes = await store.read(CLOSING_FILE);
  if (bytes === undefined) return undefined;
  try {
    const closing = parseClosing(bytes);
    const isCurrent =
      isCurrentNote(CLOSING_FILE, closing, checkpoint, keys, findings) && closing.size === size;
    return { ...closing, bytes, isCurrent };
  } catch (error) {
    findings.expect("log files", false, CLOSING_FILE, `INVALID: ${(error as Error).message}`);
    return { origin, size, timeMs: 0, paths: [], bytes, isCurrent: false };
  }
}
