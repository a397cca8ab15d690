import { randomBytes } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { gzip } from "../../../src/core/http/gzip.ts";

describe("gzip", () => {
  test("makes one member of all pieces, whatever their sizes", async () => {
    const pieces = [0, 1, 70_000, 0, 500_000, 3].map((size) => randomBytes(size));
    const packed = await gzip(pieces);
    expect(gunzipSync(packed).equals(Buffer.concat(pieces))).toBe(true);
    // A second member would begin with the magic bytes of its own header.
    expect(packed.subarray(0, 3)).toEqual(Buffer.from([0x1f, 0x8b, 0x08]));
    expect(packed.length).toBeGreaterThan(570_000);
  });

  test("gives a valid member for no pieces", async () => {
    expect(gunzipSync(await gzip([])).length).toBe(0);
  });

  test("takes views into larger memory as they are", async () => {
    const memory = Buffer.from("xxhelloxxworldxx");
    const packed = await gzip([memory.subarray(2, 7), memory.subarray(9, 14)]);
    expect(gunzipSync(packed).toString()).toBe("helloworld");
  });
});
