import { afterEach } from "vitest";

/** Functions that are called after each test, the last one first. */
export function useCleanups(): (() => unknown)[] {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
  return cleanups;
}
