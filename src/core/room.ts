/**
 * Memory for large pages, used again and again. Each is ten megabytes and lives for a moment: left to the
 * garbage collector they pile up, make it run all the time, and lie scattered over the heap.
 */
const LARGE_BYTES = 2_000_000;
/** Sizes are rounded up, so that pages of about the same size fit into each other's room. */
const STEP_BYTES = 1_048_576;
const KEPT_MAX = 2;
const KEPT_MS = 10_000;

const kept: ArrayBuffer[] = [];
let timer: NodeJS.Timeout | undefined;

/** Uninitialized memory of at least this size. */
export function takeRoom(bytes: number): Buffer {
  if (bytes < LARGE_BYTES) return Buffer.allocUnsafeSlow(bytes);
  const fitting = kept.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 2 * bytes);
  if (fitting >= 0) return Buffer.from(kept.splice(fitting, 1)[0]!);
  return Buffer.allocUnsafeSlow(Math.ceil(bytes / STEP_BYTES) * STEP_BYTES);
}

/** Hands memory back that nobody will look at again: what still does sees foreign bytes, or none. */
export function giveRoom({ buffer, byteOffset }: Buffer): void {
  if (!(buffer instanceof ArrayBuffer) || byteOffset !== 0 || buffer.byteLength < LARGE_BYTES) return;
  if (kept.includes(buffer)) return;
  kept.push(buffer);
  if (kept.length > KEPT_MAX) kept.shift();
  clearTimeout(timer);
  timer = setTimeout(() => kept.splice(0), KEPT_MS).unref();
}
