import { parseCheckpoint, type SignedCheckpoint } from "../log/checkpoint.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";

export async function readCheckpoint(
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
