/**
 * Memory for large pages, used again and again, with room behind each for what is made of it. A page is ten
 * megabytes and lives for a moment: left to the garbage collector they pile up, make it run all the time, and
 * lie scattered over the heap.
 */
const LARGE_BYTES = 2_000_000;
/** What is made of a page takes a sixth of its size. What stays unused takes no memory. */
const SHARE_BEHIND = 0.25;
/** Sizes are rounded up, so that pages of about the same size fit into each other's room. */
const STEP_BYTES = 1_048_576;
const KEPT_MAX = 4;
const KEPT_MS = 10_000;

const kept: ArrayBuffer[] = [];
let timer: NodeJS.Timeout | undefined;

/** Uninitialized memory of at least this size. */
export function takeRoom(bytes: number): Buffer {
  if (bytes < LARGE_BYTES) return Buffer.allocUnsafeSlow(bytes);
  const fitting = kept.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 3 * bytes);
  if (fitting >= 0) return Buffer.from(kept.splice(fitting, 1)[0]!);
  return Buffer.allocUnsafeSlow(Math.ceil((bytes * (1 + SHARE_BEHIND)) / STEP_BYTES) * STEP_BYTES);
}

/** Makes a typed array. */
export type Allocate = <View>(
  type: {
    new (buffer: ArrayBuffer, byteOffset: number, length: number): View;
    readonly BYTES_PER_ELEMENT: number;
  },
  length: number,
) => View;

export const allocateAnew: Allocate = (type, length) =>
  new type(new ArrayBuffer(length * type.BYTES_PER_ELEMENT), 0, length);

/** Makes typed arrays in the room behind a page, one after the other, for as long as there is some. */
export function roomBehind({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Allocate {
  let at = byteOffset + byteLength;
  return (type, length) => {
    const start = Math.ceil(at / 8) * 8;
    const end = start + length * type.BYTES_PER_ELEMENT;
    if (end > buffer.byteLength) return allocateAnew(type, length);
    at = end;
    return new type(buffer, start, length);
  };
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
