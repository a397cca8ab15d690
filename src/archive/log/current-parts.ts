import { isPart, type LogLeaf, type PartFiles, type PartLeaf } from "./leaf.ts";

export interface CurrentPart {
  readonly leaf: LogLeaf & PartLeaf;
  /** The files as they are now; undefined when all of it was pruned or erased. */
  readonly files: PartFiles | undefined;
  /** The root of the manifest that was closed first, where another one replaced it. */
  readonly original: string | undefined;
}

/** Every part with the files that it has after prunings and erasures. */
export function currentParts(leaves: readonly LogLeaf[]): CurrentPart[] {
  const parts = new Map<number, CurrentPart>();
  for (const leaf of leaves) {
    if (isPart(leaf)) parts.set(leaf.index, { leaf, files: leaf, original: undefined });
    if (leaf.kind !== "prune" && leaf.kind !== "erase") continue;
    const part = parts.get(leaf.leaf);
    if (part === undefined) continue;
    const files = leaf.replacement ?? undefined;
    parts.set(leaf.leaf, { ...part, files, original: part.original ?? part.leaf.lines_root });
  }
  return [...parts.values()];
}
