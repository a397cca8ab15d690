/** CRC-32C (Castagnoli), reflected, as Kafka's record batches carry it. */
const POLYNOMIAL = 0x82f63b78;
/** Bytes that one round takes, each with a table of its own. */
const ROUND = 8;
const TABLES = makeTables();

export function crc32c(bytes: Uint8Array): number {
  const tables = TABLES;
  const rounds = bytes.length - (bytes.length % ROUND);
  let crc = 0xffffffff;
  let at = 0;
  for (; at < rounds; at += ROUND) {
    const low = crc ^ (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24));
    crc =
      tables[1792 + (low & 0xff)]! ^
      tables[1536 + ((low >>> 8) & 0xff)]! ^
      tables[1280 + ((low >>> 16) & 0xff)]! ^
      tables[1024 + (low >>> 24)]! ^
      tables[768 + bytes[at + 4]!]! ^
      tables[512 + bytes[at + 5]!]! ^
      tables[256 + bytes[at + 6]!]! ^
      tables[bytes[at + 7]!]!;
  }
  for (; at < bytes.length; at++) crc = (crc >>> 8) ^ tables[(crc ^ bytes[at]!) & 0xff]!;
  return (crc ^ 0xffffffff) >>> 0;
}

/** Table n gives the effect of a byte that n further bytes follow. */
function makeTables(): Uint32Array {
  const tables = new Uint32Array(ROUND * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    tables[byte] = crc;
  }
  for (let at = 256; at < tables.length; at++) {
    const before = tables[at - 256]!;
    tables[at] = (before >>> 8) ^ tables[before & 0xff]!;
  }
  return tables;
}
