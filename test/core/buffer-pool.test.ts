import { afterEach, expect, test, vi } from "vitest";
import { giveRoom, roomBehind, takeRoom } from "../../src/core/buffer-pool.ts";

const MEGABYTE = 1_048_576;

afterEach(() => vi.useRealTimers());

test("memory that was given back is handed out again, for pages of about its size alone", () => {
  const first = takeRoom(10 * MEGABYTE - 5);
  expect(first.length).toBeGreaterThanOrEqual(12 * MEGABYTE);
  const { buffer } = first;
  giveRoom(first);
  giveRoom(first);
  expect(takeRoom(3 * MEGABYTE).buffer).not.toBe(buffer);
  expect(takeRoom(20 * MEGABYTE).buffer).not.toBe(buffer);
  expect(takeRoom(9 * MEGABYTE).buffer).toBe(buffer);
  expect(takeRoom(9 * MEGABYTE).buffer).not.toBe(buffer);
});

test("small pieces and slices of other memory are never kept", () => {
  const large = Buffer.allocUnsafeSlow(6 * MEGABYTE);
  giveRoom(large.subarray(MEGABYTE));
  giveRoom(Buffer.from("small"));
  expect(takeRoom(6 * MEGABYTE).buffer).not.toBe(large.buffer);
  expect(takeRoom(100).length).toBe(100);
});

test("what nobody takes for a while goes back to the system", () => {
  vi.useFakeTimers();
  const room = takeRoom(7 * MEGABYTE);
  giveRoom(room);
  vi.advanceTimersByTime(60_000);
  expect(takeRoom(7 * MEGABYTE).buffer).not.toBe(room.buffer);
});

test("what is made of a page stands behind it, aligned and apart, and elsewhere when there is no room", () => {
  const page = new Uint8Array(new ArrayBuffer(1000), 0, 901);
  const allocate = roomBehind(page);
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
