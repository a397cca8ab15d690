const SEED = 0x9747b28c;
const MULTIPLIER = 0x5bd1e995;

/** The partition that Java's producer chooses for a key: murmur2, without its sign, by the number of partitions. */
export function keyPartition(key: string, partitions: number): number {
  return (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions;
}

function murmur2(bytes: Buffer): number {
  const rest = bytes.length & ~3;
  let hash = SEED ^ bytes.length;
  for (let at = 0; at < rest; at += 4) {
    let four = Math.imul(bytes.readInt32LE(at), MULTIPLIER);
    four = Math.imul(four ^ (four >>> 24), MULTIPLIER);
    hash = Math.imul(hash, MULTIPLIER) ^ four;
  }
  if (bytes.length > rest) {
    for (let at = bytes.length - 1; at >= rest; at--) hash ^= bytes[at]! << (8 * (at - rest));
    hash = Math.imul(hash, MULTIPLIER);
  }
  hash = Math.imul(hash ^ (hash >>> 13), MULTIPLIER);
  return hash ^ (hash >>> 15);
}
