/**
 * Values by hashes of eight bytes, which come as pairs of numbers in an array. Zeros are no hash: they have no value. When
 * there are too many values, all are forgotten.
 * The key of the map is one half: small integers are found five times as fast as other numbers.
 */
export interface HashTable<Value> {
  /** The value for the pair with this index. */
  get(hashes: Int32Array, index: number): Value | undefined;
  set(hashes: Int32Array, index: number, value: Value): void;
  clear(): void;
}

export function createHashTable<Value>(valuesMax: number): HashTable<Value> {
  const entries = new Map<number, { readonly other: number; readonly value: Value }>();
  return {
    get(hashes, index) {
      const entry = entries.get(hashes[2 * index]!);
      return entry?.other === hashes[2 * index + 1] ? entry?.value : undefined;
    },
    set(hashes, index, value) {
      if (hashes[2 * index] === 0 && hashes[2 * index + 1] === 0) return;
      if (entries.size >= valuesMax) entries.clear();
      entries.set(hashes[2 * index]!, { other: hashes[2 * index + 1]!, value });
    },
    clear: () => entries.clear(),
  };
}
