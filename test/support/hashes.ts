/** Hashes of eight bytes, which come as two numbers each, as texts that can be compared. */
export function pairsOf(hashes: Int32Array): string[] {
  return Array.from({ length: hashes.length / 2 }, (_, at) => `${hashes[2 * at]} ${hashes[2 * at + 1]}`);
}

/** In place of a hash that an event does not have. */
export const NO_HASH = "0 0";
