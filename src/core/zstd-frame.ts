/*
 * Reads the outside of a zstd frame (RFC 8878, section 3.1.1), so that nothing is decompressed that is larger
 * than declared, and nothing is hidden behind or between frames (A13).
 */

const MAGIC = 0xfd2fb528;

/** The content size of a buffer that is exactly one zstd frame with a declared size; undefined for anything else. */
export function frameContentSize(frame: Buffer): number | undefined {
  return endOfFrame(frame, 0) === frame.length ? headerOf(frame, 0)!.contentSize : undefined;
}

/** Where the frame that begins at `start` ends; undefined where there is no whole frame without a dictionary. */
export function endOfFrame(bytes: Buffer, start: number): number | undefined {
  const header = headerOf(bytes, start);
  if (header === undefined) return undefined;
  for (let at = header.end; at + 3 <= bytes.length; ) {
    const block = bytes.readUIntLE(at, 3);
    const [isLast, type, size] = [block & 1, (block >> 1) & 3, block >> 3];
    if (type === 3) return undefined;
    at += 3 + (type === 1 ? 1 : size);
    if (isLast === 0) continue;
    const end = at + (header.hasChecksum ? 4 : 0);
    return end <= bytes.length ? end : undefined;
  }
  return undefined;
}

interface Header {
  readonly end: number;
  readonly hasChecksum: boolean;
  readonly contentSize: number | undefined;
}

function headerOf(bytes: Buffer, start: number): Header | undefined {
  if (bytes.length < start + 6 || bytes.readUInt32LE(start) !== MAGIC) return undefined;
  const descriptor = bytes[start + 4]!;
  const [sizeFlag, isSingle, dictionary] = [descriptor >> 6, (descriptor >> 5) & 1, descriptor & 3];
  if ((descriptor & 0b1000) !== 0 || dictionary !== 0) return undefined;
  const sizeBytes = sizeFlag === 0 ? isSingle : 1 << sizeFlag;
  const sizeAt = start + 5 + (isSingle ? 0 : 1);
  const end = sizeAt + sizeBytes;
  if (bytes.length < end) return undefined;
  return { end, hasChecksum: ((descriptor >> 2) & 1) === 1, contentSize: sizeOf(bytes, sizeAt, sizeBytes) };
}

function sizeOf(bytes: Buffer, at: number, length: number): number | undefined {
  if (length === 0) return undefined;
  if (length === 8) return Number(bytes.readBigUInt64LE(at));
  return bytes.readUIntLE(at, length) + (length === 2 ? 256 : 0);
}
