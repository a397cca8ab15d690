import { createHash } from "node:crypto";
import type { ReadableStore } from "../store/store.ts";

const BLOCK_BYTES = 4_000_000;

/** Reads a stored file from its start to its end in blocks, and hashes it on the way. */
export interface SequentialFile {
  /** Bytes that were taken so far. */
  readonly taken: number;
  /** Exactly so many bytes, valid until the next call; undefined where the file ends before. */
  take(length: number): Promise<Buffer | undefined>;
  /** Hashes what is left, and gives the hash of the whole file and its length. */
  finish(): Promise<{ readonly sha256: string; readonly bytes: number }>;
}

export async function openSequential(
  store: ReadableStore,
  path: string,
): Promise<SequentialFile | undefined> {
  const digest = createHash("sha256");
  let next = await store.read(path, { from: 0, length: BLOCK_BYTES });
  if (next === undefined) return undefined;
  let block: Buffer = Buffer.alloc(0);
  let [used, read, taken] = [0, 0, 0];

  async function fill(length: number): Promise<boolean> {
    while (block.length - used < length) {
      const more = next ?? (await store.read(path, { from: read, length: Math.max(BLOCK_BYTES, length) }));
      next = undefined;
      if (more === undefined || more.length === 0) return false;
      digest.update(more);
      read += more.length;
      block = used === block.length ? more : Buffer.concat([block.subarray(used), more]);
      used = 0;
    }
    return true;
  }

  return {
    get taken() {
      return taken;
    },
    async take(length) {
      if (!(await fill(length))) return undefined;
      used += length;
      taken += length;
      return block.subarray(used - length, used);
    },
    async finish() {
      while (await fill(block.length - used + 1)) used = block.length;
      return { sha256: digest.digest("hex"), bytes: read };
    },
  };
}
