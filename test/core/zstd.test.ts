import zlib from "node:zlib";
import { describe, expect, it } from "vitest";
import { nodeZstd, packageZstd, type Zstd } from "../../src/core/zstd.ts";
import { endOfFrame, frameContentSize } from "../../src/core/zstd-frame.ts";

const CONTENT = Buffer.from(JSON.stringify({ event_type: "sso_auth" }).repeat(20_000));
const HAS_OWN = "zstdCompressSync" in zlib;
const own = () => nodeZstd(zlib as never);

describe.each<[string, () => Zstd, boolean]>([
  ["zstd of Node itself", own, HAS_OWN],
  ["zstd of the package", packageZstd, hasPackage()],
])("%s", (_name, open, isPresent) => {
  const test = it.skipIf(!isPresent);

  test("gives back what was compressed, in one frame with its size", () => {
    const { createCompressor, createPageCompressor, decompress } = open();
    const compressPage = createPageCompressor({ windowLog: 21 });
    for (const compress of [
      createCompressor({ checksumFlag: true }),
      (bytes: Uint8Array) => compressPage([bytes]),
    ]) {
      for (const content of [CONTENT, Buffer.from("x"), Buffer.alloc(0)]) {
        const frame = compress(content);
        expect(frameContentSize(frame)).toBe(content.length);
        expect(decompress(frame).equals(content)).toBe(true);
      }
    }
  });

  test("puts the parts of a page side by side, each in a frame of its own", () => {
    const { createPageCompressor, decompress } = open();
    const parts = [Buffer.alloc(5_000_000, "one "), CONTENT, Buffer.from("x")];
    const frames = createPageCompressor({ windowLog: 21 })(parts);
    const sizes: unknown[] = [];
    for (let at = 0, end: number; at < frames.length; at = end) {
      end = endOfFrame(frames, at)!;
      sizes.push(frameContentSize(frames.subarray(at, end)));
    }
    expect(sizes).toEqual(parts.map(({ length }) => length));
    expect(decompress(frames).equals(Buffer.concat(parts))).toBe(true);
  });

  test("puts the content into memory of the caller, and throws where it does not fit or is damaged", () => {
    const { createCompressor, decompressInto } = open();
    const frame = createCompressor({ checksumFlag: true })(CONTENT);
    const room = Buffer.alloc(CONTENT.length + 10, 1);
    expect(decompressInto(frame, room.subarray(5, 5 + CONTENT.length))).toBe(CONTENT.length);
    expect(room.subarray(5, -5).equals(CONTENT)).toBe(true);
    expect([room[4], room.at(-5)]).toEqual([1, 1]);
    expect(() => decompressInto(frame, room.subarray(0, CONTENT.length - 1))).toThrow();
    const damaged = Buffer.from(frame);
    damaged[damaged.length - 6]! ^= 1;
    expect(() => decompressInto(damaged, room)).toThrow();
  });

  test("keeps earlier results when the next one is made", () => {
    const compress = open().createCompressor();
    const first = compress(CONTENT);
    const copy = Buffer.from(first);
    compress(CONTENT.subarray(1));
    expect(first.equals(copy)).toBe(true);
  });

  test("writes the same frames into memory that is used again", () => {
    const { createCompressor, createFrameCompressor } = open();
    const parameters = { compressionLevel: 3, checksumFlag: true };
    const again = createFrameCompressor(parameters);
    for (const content of [CONTENT.subarray(0, 1000), CONTENT, CONTENT.subarray(5), Buffer.alloc(0)])
      expect(again(content).equals(createCompressor(parameters)(content))).toBe(true);
  });

  test("refuses a frame whose end is missing, bytes behind a frame, damage and nothing", () => {
    const { createCompressor, decompress } = open();
    const frame = createCompressor({ checksumFlag: true })(CONTENT);
    const damaged = Buffer.from(frame);
    damaged[20]! ^= 1;
    for (const bad of [
      ...[frame.subarray(0, -1), frame.subarray(0, -9), frame.subarray(0, 8), Buffer.alloc(0), damaged],
      Buffer.concat([frame, Buffer.from("more bytes")]),
    ])
      expect(() => decompress(bad)).toThrow();
  });

  test("reads frames that follow each other", () => {
    const { createCompressor, decompress } = open();
    const compress = createCompressor();
    const both = Buffer.concat([compress(Buffer.from("one ")), compress(Buffer.from("two"))]);
    expect(decompress(both).toString()).toBe("one two");
  });
});

it.skipIf(!HAS_OWN || !hasPackage())("each reads what the other wrote", () => {
  const frames = [own(), packageZstd()].map(({ createCompressor }) => createCompressor()(CONTENT));
  for (const { decompress } of [own(), packageZstd()])
    for (const frame of frames) expect(decompress(frame).equals(CONTENT)).toBe(true);
});

function hasPackage(): boolean {
  try {
    packageZstd();
    return true;
  } catch {
    return false;
  }
}
