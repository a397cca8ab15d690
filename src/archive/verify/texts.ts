import { type LogLeaf, textNamedBy } from "../log/leaf.ts";
import { readText, textPath } from "../log/texts.ts";
import type { ArchiveStore } from "../store/store.ts";
import type { Findings } from "./findings.ts";

/** A wording may be erased (A18), but not be another. */
export async function checkTexts(
  store: ArchiveStore,
  leaves: readonly LogLeaf[],
  findings: Findings,
): Promise<void> {
  const digests = new Set(leaves.map(textNamedBy).filter((digest) => digest !== undefined));
  for (const digest of digests) {
    const isFine = (await readText(store, digest)) !== "changed";
    findings.expect("texts", isFine, textPath(digest), "INVALID: it is not the wording of the log entry");
  }
}
