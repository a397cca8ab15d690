import type { LogLeaf } from "./leaf.ts";

/** A witness as the log names it. */
export interface NamedWitness {
  readonly key: string;
  /** The newest entry about it. */
  readonly entry: number;
  readonly time: string;
  /** False from the entry on that says that it is no longer asked. */
  readonly isAsked: boolean;
}

/** Every witness that the log has ever named, in the order of their newest entries. */
export function witnessesIn(leaves: readonly LogLeaf[]): readonly NamedWitness[] {
  const found = new Map<string, NamedWitness>();
  for (const leaf of leaves)
    if (leaf.kind === "witness" || leaf.kind === "witness_end") {
      const { key, index: entry, time } = leaf;
      found.delete(key);
      found.set(key, { key, entry, time, isAsked: leaf.kind === "witness" });
    }
  return [...found.values()];
}
