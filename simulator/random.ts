/** A small seeded generator (sfc32). Equal seeds give equal sequences on every machine. */
export interface Random {
  /** 32 random bits as an unsigned integer. */
  bits(): number;
  /** 0 ≤ x < 1 */
  float(): number;
  /** 0 ≤ x < limit, an integer */
  below(limit: number): number;
  chance(share: number): boolean;
  pick<T>(items: readonly T[]): T;
  /** Exponentially distributed with this mean. */
  exponential(mean: number): number;
  /** 24 lower-case hexadecimal digits. */
  hex24(): string;
  /** A lower-case UUID. */
  uuid(): string;
}

const hex16 = Array.from({ length: 65_536 }, (_, value) => value.toString(16).padStart(4, "0"));

export function createRandom(...seeds: readonly number[]): Random {
  let [a, b, c, counter] = [0x9e3779b9, 0x243f6a88, 0xb7e15162, 1];
  for (const seed of seeds) {
    a ^= seed >>> 0;
    b ^= Math.floor(seed / 0x1_0000_0000);
    for (let i = 0; i < 12; i++) bits();
  }

  function bits(): number {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return sum >>> 0;
  }
  const float = () => bits() / 0x1_0000_0000;
  const below = (limit: number) => Math.floor(float() * limit);
  const half = (word: number) => hex16[word >>> 16]! + hex16[word & 0xffff]!;
  return {
    bits,
    float,
    below,
    chance: (share) => float() < share,
    pick: (items) => items[below(items.length)]!,
    exponential: (mean) => -Math.log(1 - float()) * mean,
    hex24: () => half(bits()) + half(bits()) + half(bits()),
    uuid() {
      const [second, third] = [bits(), bits()];
      const version = hex16[(second & 0x0fff) | 0x4000]!;
      const variant = hex16[((third >>> 16) & 0x3fff) | 0x8000]!;
      return `${half(bits())}-${hex16[second >>> 16]!}-${version}-${variant}-${hex16[third & 0xffff]!}${half(bits())}`;
    },
  };
}
