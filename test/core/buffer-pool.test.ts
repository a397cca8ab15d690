import { expect, test } from "vitest";
import { allocateBehind, BLOCK_BYTES, createBufferPool, POISON } from "../../src/core/buffer-pool.ts";

const MEGABYTE = 1_048_576;

test("memory whose last lease ended is handed out again, for pages of about its size alone", () => {
  const pool = createBufferPool();
  const { bytes, lease } = pool.take(10 * MEGABYTE - 5);
  expect(bytes.length).toBeGreaterThanOrEqual(12 * MEGABYTE);
  const { buffer } = bytes;
  const holder = lease.retain();
  lease.release();
  expect(pool.take(9 * MEGABYTE).bytes.buffer).not.toBe(buffer);
  holder.release();
  expect(pool.take(3 * MEGABYTE).bytes.buffer).not.toBe(buffer);
  expect(pool.take(20 * MEGABYTE).bytes.buffer).not.toBe(buffer);
  expect(pool.take(9 * MEGABYTE).bytes.buffer).toBe(buffer);
  expect(pool.take(9 * MEGABYTE).bytes.buffer).not.toBe(buffer);
});

test("small and adopted memory is counted while it is held, and never reused", () => {
  const pool = createBufferPool();
  let freed = 0;
  pool.onFree(() => freed++);
  const small = pool.take(100);
  expect(small.bytes.length).toBe(100);
  const adopted = pool.adopt(Buffer.alloc(6 * MEGABYTE));
  expect(pool.heldBytes()).toBe(6 * MEGABYTE + 100);
  adopted.release();
  expect(pool.heldBytes()).toBe(100);
  small.lease.release();
  expect([pool.heldBytes(), freed]).toEqual([0, 2]);
});

test("memory that is not used for a while goes back to the system", () => {
  const pool = createBufferPool();
  const { bytes, lease } = pool.take(7 * MEGABYTE);
  lease.release();
  pool.dropIdle(1000);
  pool.dropIdle(5000);
  const again = pool.take(7 * MEGABYTE);
  expect(again.bytes.buffer).toBe(bytes.buffer);
  again.lease.release();
  pool.dropIdle(6000);
  pool.dropIdle(17_000);
  expect(pool.take(7 * MEGABYTE).bytes.buffer).not.toBe(bytes.buffer);
});

test("in poison mode a view that is kept too long sees the pattern, in pooled and in other memory", () => {
  const pool = createBufferPool({ poison: true });
  for (const size of [100, 3 * MEGABYTE]) {
    const { bytes, lease } = pool.take(size);
    bytes.fill("a");
    const view = bytes.subarray(10, 20);
    const behind = allocateBehind(bytes.subarray(0, size) as Buffer<ArrayBuffer>)(Int32Array, 4).fill(7);
    const holder = lease.retain();
    lease.release();
    expect(view.toString()).toBe("aaaaaaaaaa");
    holder.release();
    expect([...view]).toEqual(Array(10).fill(POISON));
    if (size > MEGABYTE) expect(behind[0]).toBeLessThan(0);
  }
  const adopted = Buffer.from("[1]");
  pool.adopt(adopted).release();
  expect([...adopted]).toEqual([POISON, POISON, POISON]);
});

test("what is made of a page is stored behind it, aligned and apart, and elsewhere when that is full", () => {
  const page = new Uint8Array(new ArrayBuffer(1000), 0, 901);
  const allocate = allocateBehind(page);
  const bytes = allocate(Uint8Array, 3);
  const times = allocate(Float64Array, 4);
  const large = allocate(Int32Array, 100);
  const last = allocate(Uint16Array, 5);
  expect([bytes, times, last].map(({ buffer }) => buffer === page.buffer)).toEqual([true, true, true]);
  expect(large.buffer).not.toBe(page.buffer);
  expect(bytes.byteOffset).toBeGreaterThanOrEqual(901);
  expect(times.byteOffset).toBeGreaterThanOrEqual(bytes.byteOffset + 3);
  expect(last.byteOffset).toBeGreaterThanOrEqual(times.byteOffset + 32);
});

test("blocks are used again up to the whole budget, make way for pages, and go when nothing needs them", () => {
  const pool = createBufferPool({ bytesMax: 100 * BLOCK_BYTES });
  const seen = new Set<ArrayBufferLike>();
  const takeAndRelease = (count: number) => {
    const taken = Array.from({ length: count }, () => pool.take(BLOCK_BYTES));
    for (const { bytes } of taken) seen.add(bytes.buffer);
    for (const { lease } of taken) lease.release();
  };
  pool.dropIdle(10_000);
  for (let round = 0; round < 5; round++) takeAndRelease(100);
  expect(seen.size).toBe(100);
  // One body may exceed the budget, by half of it.
  for (let round = 0; round < 5; round++) takeAndRelease(150);
  expect(seen.size).toBe(150);
  // A page of 40 with its share behind has 50.
  const page = pool.take(40 * BLOCK_BYTES);
  takeAndRelease(60);
  expect(seen.size).toBe(150);
  takeAndRelease(61);
  expect(seen.size).toBe(151);
  page.lease.release();
  // Ten are in use all the time, and the rest goes.
  for (const nowMs of [20_000, 30_000, 40_000]) {
    takeAndRelease(10);
    pool.dropIdle(nowMs);
  }
  takeAndRelease(10);
  expect(seen.size).toBe(151);
  takeAndRelease(11);
  expect(seen.size).toBe(152);
});

test("a huge page counts twice, has little behind it, and is followed by no other that is huge", () => {
  const pool = createBufferPool();
  const page = pool.take(30 * MEGABYTE);
  expect(page.bytes.length).toBeLessThanOrEqual(36 * MEGABYTE);
  expect(pool.heldBytes()).toBeGreaterThanOrEqual(60 * MEGABYTE);
  expect(pool.hasRoom(30 * MEGABYTE)).toBe(false);
  expect(pool.hasRoom(12 * MEGABYTE)).toBe(true);
  page.lease.release();
  expect(pool.heldBytes()).toBe(0);
  expect(pool.hasRoom(32 * MEGABYTE)).toBe(true);
});

test("who may exceed the budget waits for those that hold much memory", async () => {
  const pool = createBufferPool();
  const { lease } = pool.take(32 * MEGABYTE);
  let isIn = false;
  const entering = pool.alone(new AbortController().signal).then(() => {
    isIn = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(isIn).toBe(false);
  lease.release();
  await entering;
});

test("idle pages that are kept are few megabytes in all", () => {
  const pool = createBufferPool();
  const pages = [1, 2, 3, 4].map(() => pool.take(20 * MEGABYTE));
  const buffers = new Set(pages.map(({ bytes }) => bytes.buffer));
  for (const { lease } of pages) lease.release();
  const again = [1, 2, 3, 4].map(() => pool.take(20 * MEGABYTE));
  expect(again.filter(({ bytes }) => buffers.has(bytes.buffer)).length).toBeLessThanOrEqual(2);
});
