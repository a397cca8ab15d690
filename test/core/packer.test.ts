// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import type { Packer } from "../../src/core/packer.ts";
import { createResultMemory } from "../../src/core/result-memory.ts";
import { decompress } from "../../src/core/zstd.ts";
import { endOfFrame } from "../../src/core/zstd-frame.ts";

/* The thread that compresses; only the built program has it. */
describe("the packer", () => {
  let packer: Packer;

  async function open(): Promise<void> {
    const built = join(import.meta.dirname, "../../dist/src/core/packer.js");
    packer = ((await import(built)) as { createPacker(): Packer }).createPacker();
  }
  afterEach(() => packer.close());

  const piece = (seed: number, bytes: number) => Buffer.from(`line ${seed} `.repeat(bytes >> 3));

  test("packs many orders of different sizes at once, each as its own whole", async () => {
    await open();
    const orders = Array.from({ length: 12 }, (_, index) => [
      piece(index, 50_000 + index * 90_000),
      piece(-index, 1000),
    ]);
    const packed = await Promise.all(
      orders.map((pieces, index) => packer.pack(index % 2 === 0 ? "zstd" : "gzip", pieces)),
    );
    for (const [index, bytes] of packed.entries()) {
      const plain = index % 2 === 0 ? decompress(bytes) : gunzipSync(bytes);
      expect(plain.equals(Buffer.concat(orders[index]!))).toBe(true);
    }
  });

  test("packs a large order as several frames, which are read back as one text", async () => {
    await open();
    const pieces = [piece(1, 3_000_000), piece(2, 2_500_000)];
    const packed = await packer.pack("zstd", pieces);
    expect(endOfFrame(Buffer.from(packed), 0)).toBeLessThan(packed.length);
    expect(decompress(packed).equals(Buffer.concat(pieces))).toBe(true);
  });

  test("uses the memory of results again that were given back, and of no others", async () => {
    await open();
    const memory = createResultMemory();
    const pack = (seed: number) => packer.pack("zstd", [piece(seed, 400_000)], memory);
    const isRight = (packed: Uint8Array, seed: number) => decompress(packed).equals(piece(seed, 400_000));
    const first = await pack(1);
    memory.giveBack(first);
    memory.giveBack(first);
    const [second, third] = [await pack(2), await pack(3)];
    expect(second.buffer).toBe(first.buffer);
    expect(third.buffer).not.toBe(first.buffer);
    expect(isRight(second, 2) && isRight(third, 3)).toBe(true);
    const copy = Buffer.from(third);
    for (let seed = 4; seed < 9; seed++) memory.giveBack(await pack(seed));
    expect(copy.equals(third)).toBe(true);
  });

  test("keeps a process alive while it works, and not afterwards", async () => {
    const module = pathToFileURL(join(import.meta.dirname, "../../dist/src/core/packer.js")).href;
    const program = `import(${JSON.stringify(module)}).then(async ({ sharedPacker }) => {
      const packed = await sharedPacker().pack("gzip", [Buffer.alloc(3_000_000, "event ")]);
      console.log(packed.length > 0);
    })`;
    const args = ["--eval", program];
    // Ends by itself, or is ended by the limit.
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 120_000 });
    expect(stdout.trim()).toBe("true");
    await open();
  });

  test("refuses what it has not packed when it is closed", async () => {
    await open();
    const results = Promise.allSettled(
      Array.from({ length: 8 }, (_, index) => packer.pack("gzip", [piece(index, 2_000_000)])),
    );
    await packer.close();
    const refused = (await results).filter(({ status }) => status === "rejected");
    expect(refused.length).toBeGreaterThan(0);
    await expect(packer.pack("gzip", [piece(0, 100_000)])).rejects.toThrow("closed");
  });
});
