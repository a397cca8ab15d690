import { describe, expect, test } from "vitest";
import { ownsOrganization, parseShard, resolveShard, shardLabel, shareOf } from "../../src/core/shard.ts";

const ids = Array.from({ length: 10_000 }, (_, at) => `5f0c8a1b2c3d4e5f6${String(at).padStart(7, "0")}`);

describe("C17 the share of an organization", () => {
  test("never changes, because state files are split by it", () => {
    expect(["5f0c8a1b2c3d4e5f60718201", "a", "b", "Ümläut"].map((id) => shareOf(id, 16))).toEqual([
      8, 11, 9, 13,
    ]);
  });

  test("does not depend on the case of the id", () => {
    for (const id of ids.slice(0, 100)) expect(shareOf(id.toUpperCase(), 7)).toBe(shareOf(id, 7));
  });

  test.each([2, 3, 16, 100])("is even over %i shards", (count) => {
    const sizes = Array.from({ length: count }, () => 0);
    for (const id of ids) sizes[shareOf(id, count)]!++;
    const expected = ids.length / count;
    for (const size of sizes) expect(Math.abs(size - expected)).toBeLessThan(6 * Math.sqrt(expected));
  });

  test("every organization has one owner, and what has no id belongs to shard 0", () => {
    const shards = [0, 1, 2].map((index) => ({ index, count: 3 }));
    for (const id of ids.slice(0, 300))
      expect(shards.filter((shard) => ownsOrganization(shard, id))).toHaveLength(1);
    expect(shards.map((shard) => ownsOrganization(shard, null))).toEqual([true, false, false]);
    expect(ownsOrganization(undefined, "any")).toBe(true);
  });
});

describe("a shard in the config", () => {
  test("counts from 0", () => {
    expect(parseShard("0/1")).toEqual({ index: 0, count: 1 });
    expect(parseShard("15/16")).toEqual({ index: 15, count: 16 });
    for (const wrong of ["16/16", "1", "1/0", "-1/3", "1/1025", "a/3", "1/3 ", ""])
      expect(parseShard(wrong)).toBeUndefined();
    expect(shardLabel({ index: 2, count: 3 })).toBe("shard-2-of-3");
  });

  test("auto is the number at the end of TIDEMARK_SHARD, or of the host name", () => {
    const auto = { index: "auto", count: 3 } as const;
    expect(resolveShard(auto, {}, "tidemark-2")).toEqual({ index: 2, count: 3 });
    expect(resolveShard(auto, { TIDEMARK_SHARD: "1" }, "tidemark-2")).toEqual({ index: 1, count: 3 });
    expect(resolveShard(auto, { TIDEMARK_SHARD: "prod-tidemark-0" }, "x")).toEqual({ index: 0, count: 3 });
    expect(resolveShard(auto, {}, "laptop")).toContain("set TIDEMARK_SHARD to a number from 0 to 2");
    expect(resolveShard(auto, {}, "tidemark-3")).toContain("shards count from 0 to 2");
  });
});
