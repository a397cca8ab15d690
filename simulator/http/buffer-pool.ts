/** Keeps a few large buffers for reuse: fresh ones of ten megabytes cost more in page faults than reading the data. */
export interface BufferPool {
  take(bytes: number): { buffer: Buffer; release: () => void };
}

const smallest = 1 << 16;
const keptMax = 4;
const keptBytesMax = 32 << 20;

export function createBufferPool(): BufferPool {
  const free: Buffer[] = [];
  return {
    take(bytes) {
      if (bytes < smallest) return { buffer: Buffer.allocUnsafe(bytes), release: () => {} };
      const at = free.findIndex((buffer) => buffer.length >= bytes);
      const whole = at === -1 ? Buffer.allocUnsafeSlow(roundUp(bytes)) : free.splice(at, 1)[0]!;
      const release = () => {
        if (whole.length <= keptBytesMax && free.length < keptMax) free.push(whole);
      };
      return { buffer: whole.subarray(0, bytes), release };
    },
  };
}

function roundUp(bytes: number): number {
  return Math.ceil(bytes / (1 << 20)) * (1 << 20);
}
