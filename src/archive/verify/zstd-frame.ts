/*
 * Reads the outside of a zstd frame (RFC 8878, section 3.1.1), so that nothing is decompressed that is larger
 * than declared, and nothing is hidden behind or between frames (A13).
 */

const MAGIC = 0xfd2fb528;

/** The content size of a buffer that is exactly one zstd frame with a declared size; undefined for anything else. */
export function frameContentSize(frame: Buffer): number | undefined {
  if (frame.length < 6 || frame.readUInt32LE(0) !== MAGIC) return undefined;
  const descriptor = frame[4]!;
  const [sizeFlag, isSingle, hasChecksum, dictionary] = [
    descriptor >> 6,
    (descriptor >> 5) & 1,
    (descriptor >> 2) & 1,
    descriptor & 3,
  ];
  if ((descriptor & 0b1000) !== 0 || dictionary !== 0) return undefined;
  const sizeBytes = sizeFlag === 0 ? isSingle : 1 << sizeFlag;
  if (sizeBytes === 0) return undefined;
  const sizeAt = 5 + (isSingle ? 0 : 1);
  if (frame.length < sizeAt + sizeBytes) return undefined;
  const end = endOfBlocks(frame, sizeAt + sizeBytes);
  if (end === undefined || end + (hasChecksum ? 4 : 0) !== frame.length) return undefined;
  const size = sizeBytes === 8 ? Number(frame.readBigUInt64LE(sizeAt)) : frame.readUIntLE(sizeAt, sizeBytes);
  return sizeBytes === 2 ? size + 256 : size;
}

function endOfBlocks(frame: Buffer, start: number): number | undefined {
  for (let at = start; at + 3 <= frame.length; ) {
    const header = frame.readUIntLE(at, 3);
    const [isLast, type, size] = [header & 1, (header >> 1) & 3, header >> 3];
    if (type === 3) return undefined;
    at += 3 + (type === 1 ? 1 : size);
    if (isLast === 1) return at;
  }
  return undefined;
}
