import { expect, test } from "vitest";
import { LeaseError, leaseOf } from "../../src/core/page-lease.ts";

const bytes = () => Buffer.from("page");

test("memory is freed when the last lease ends, and not before", () => {
  const freed: Buffer[] = [];
  const first = leaseOf(bytes(), (memory) => freed.push(memory));
  const second = first.retain();
  first.release();
  const third = second.retain();
  second.release();
  expect(freed).toEqual([]);
  third.release();
  expect(freed).toEqual([bytes()]);
});

test("a lease that is released twice throws, also while others hold the memory", () => {
  const freed: Buffer[] = [];
  const first = leaseOf(bytes(), (memory) => freed.push(memory));
  const second = first.retain();
  first.release();
  expect(() => first.release()).toThrow(LeaseError);
  expect(freed).toEqual([]);
  second.release();
  expect(() => second.release()).toThrow("released twice");
  expect(freed).toHaveLength(1);
});

test("a released lease retains nothing", () => {
  const lease = leaseOf(bytes(), () => {});
  lease.release();
  expect(() => lease.retain()).toThrow(LeaseError);
});

test("memory that came back from another thread is what is freed", () => {
  const freed: Buffer[] = [];
  const lease = leaseOf(bytes(), (memory) => freed.push(memory));
  const holder = lease.retain();
  lease.moved(Buffer.from("moved"));
  lease.release();
  holder.release();
  expect(freed.map(String)).toEqual(["moved"]);
});
