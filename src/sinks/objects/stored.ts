import { hash } from "node:crypto";
import { RetryableError } from "../../core/errors.ts";

/** Objects that are remembered: 100 bytes each. Those beyond are asked for again, which is slower and still right. */
export const STORED_MAX = 100_000;
const MEMORY_KEY = "stored objects";

/**
 * The objects of a batch that are stored, for the next attempt after an error that passes: it goes on with the others.
 * An object counts only under its own key and with the same content. Nothing is remembered over any other error, such
 * as a missing bucket, nor over a restart or a decision of the operator, which opens the sink without a write.
 */
export function storedObjects(memory: Map<string, unknown> = new Map()) {
  const remembered = memory.get(MEMORY_KEY) as Set<string> | undefined;
  const stored = remembered ?? new Set<string>();

  return {
    has: (key: string, digest: string): boolean => stored.size > 0 && stored.has(idOf(key, digest)),
    add(key: string, digest: string): void {
      if (stored.size < STORED_MAX) stored.add(idOf(key, digest));
    },
    opened: (): void => void memory.delete(MEMORY_KEY),
    written: (): void => stored.clear(),
    /** Of opening or of a write. */
    failed(error: unknown): void {
      memory.delete(MEMORY_KEY);
      if (error instanceof RetryableError) memory.set(MEMORY_KEY, stored);
      else stored.clear();
    },
  };
}

function idOf(key: string, digest: string): string {
  return hash("sha256", `${key}\n${digest}`, "base64");
}
