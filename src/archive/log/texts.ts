import { hash } from "node:crypto";
import type { ArchiveStore } from "../store/store.ts";

/*
 * The wordings of cases and reasons are beside the log, which has only their hashes: they can be erased (A18). They
 * cannot be changed: the log says what each has to contain.
 */

export const textPath = (digest: string) => `texts/${digest}.json`;

/** Bytes only if they have the hash. */
export type StoredText = { readonly bytes: Buffer } | "erased" | "changed";

export async function readText(store: ArchiveStore, digest: string): Promise<StoredText> {
  const bytes = await store.read(textPath(digest));
  if (bytes === undefined) return "erased";
  return hash("sha256", bytes, "hex") === digest ? { bytes } : "changed";
}
