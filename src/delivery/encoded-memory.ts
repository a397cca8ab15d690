/**
 * The bytes of encoded events in all batches that are being formed or written, over all sinks. This is the one place
 * that bounds them: a sink always gets its first batch, and more only while there is room. Without room, a batch ends as
 * soon as it has what its sink calls enough.
 */
export interface EncodedMemory {
  take(bytes: number): void;
  free(bytes: number): void;
  hasRoom(): boolean;
  /** Whether a sink may keep so many bytes that nothing holds, for its next batch. They are counted until `use`. */
  keep(bytes: number): boolean;
  /** Kept bytes are in use again. */
  use(bytes: number): void;
}

const BYTES_MAX = 14_000_000;
/** Held and kept. A sink with a small batch keeps what its next one needs, also where there are eight of them. */
const KEPT_SHARE = 3;

export function createEncodedMemory(bytesMax = BYTES_MAX): EncodedMemory {
  let heldBytes = 0;
  let keptBytes = 0;
  return {
    take(bytes) {
      heldBytes += bytes;
    },
    free(bytes) {
      heldBytes -= bytes;
    },
    hasRoom: () => heldBytes < bytesMax,
    keep(bytes) {
      if (heldBytes + keptBytes + bytes > KEPT_SHARE * bytesMax) return false;
      keptBytes += bytes;
      return true;
    },
    use(bytes) {
      keptBytes -= bytes;
    },
  };
}
