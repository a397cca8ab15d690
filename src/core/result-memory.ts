/**
 * Memory of results that are used for a moment, to be used again. Without it they would be garbage that is collected
 * late: 30 to 50 MB in an export. Each destination has its own, so bytes for one are never in memory that another
 * still sends.
 */
export interface ResultMemory {
  /** Memory that was given back, for the next result. */
  take(): Buffer<ArrayBuffer> | undefined;
  /** Says that the memory of this result may be given back. */
  lend(result: Uint8Array): void;
  /** Takes a result back that nothing reads any more. Anything that was not lent is left alone. */
  giveBack(result: Uint8Array): void;
}

/** A sink has few results at a time. */
const KEPT_MAX = 4;
const KEPT_BYTES_MAX = 4 << 20;

export function createResultMemory(): ResultMemory {
  const lent = new WeakSet<ArrayBufferLike>();
  const kept: Buffer<ArrayBuffer>[] = [];
  return {
    take: () => kept.pop(),
    lend: ({ buffer }) => void lent.add(buffer),
    giveBack({ buffer }) {
      if (!lent.delete(buffer) || !(buffer instanceof ArrayBuffer)) return;
      if (kept.length < KEPT_MAX && buffer.byteLength <= KEPT_BYTES_MAX) kept.push(Buffer.from(buffer));
    },
  };
}
