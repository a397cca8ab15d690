/** Random numbers that depend on a seed and a name alone, so that removing one thing changes no other. */
export interface Random {
  /** At least 0, below 1. */
  next(): number;
  /** A whole number, both ends included. */
  int(min: number, max: number): number;
  chance(share: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
  /** Spread over orders of magnitude: as likely between 1 and 10 as between 10 and 100. */
  scale(min: number, max: number): number;
  /** Pareto: mostly near `min`, now and then far beyond it. */
  heavy(min: number, shape: number): number;
}

export function randomOf(seed: number, name: string): Random {
  let state = hashOf(`${seed}/${name}`);
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    int: (min, max) => min + Math.floor(next() * (max - min + 1)),
    chance: (share) => next() < share,
    pick: (items) => items[Math.floor(next() * items.length)]!,
    scale: (min, max) => Math.exp(Math.log(min) + next() * (Math.log(max) - Math.log(min))),
    heavy: (min, shape) => min / (1 - next()) ** (1 / shape),
  };
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash | 0;
}
