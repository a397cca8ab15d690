/**
 * The bytes of encoded events in all batches that are being formed or written, over all sinks. This is the one place
 * that bounds them: a sink always gets its first batch, and more only while there is room.
 */
export interface EncodedMemory {
  take(bytes: number): void;
  free(bytes: number): void;
  hasRoom(): boolean;
}

const BYTES_MAX = 14_000_000;

export function createEncodedMemory(bytesMax = BYTES_MAX): EncodedMemory {
  let heldBytes = 0;
  return {
    take(bytes) {
      heldBytes += bytes;
    },
    free(bytes) {
      heldBytes -= bytes;
    },
    hasRoom: () => heldBytes < bytesMax,
  };
}
