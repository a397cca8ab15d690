import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createCompressor, decompress } from "../../src/core/zstd.ts";
import type * as codecsModule from "../../src/sinks/kafka/client/codecs.ts";

/** Threads need the built program: they cannot run from sources. */
async function builtCodecs(): Promise<typeof codecsModule> {
  return import(join(import.meta.dirname, "../../dist/src/sinks/kafka/client/codecs.js")) as never;
}

/** Bytes that compress about as well as events do. */
function recordsOf(bytes: number): Buffer {
  const line = () => `{"id":"${randomBytes(12).toString("hex")}","event_type":"user_login","success":true}\n`;
  return Buffer.from(Array.from({ length: Math.ceil(bytes / 80) }, line).join(""));
}

describe("records that are compressed with zstd", () => {
  test("are the same bytes with and without a thread, several at once, large and small", async () => {
    const { zstdRecords } = await builtCodecs();
    const [alone, beside] = [zstdRecords(2), zstdRecords(4)];
    const compress = createCompressor();
    try {
      const inputs = [10, 31_000, 33_000, 400_000, 900_000, 950_000].map(recordsOf);
      const inThread = await Promise.all(inputs.map((records) => beside.compress!(records)));
      for (const [index, records] of inputs.entries()) {
        const packed = Buffer.from(inThread[index]!);
        expect(packed.equals(await alone.compress!(records))).toBe(true);
        expect(packed.equals(compress(records))).toBe(true);
        expect(decompress(packed).equals(records)).toBe(true);
      }
    } finally {
      alone.close();
      beside.close();
    }
  });

  test("are refused after the client has ended, and no thread is left", async () => {
    const { zstdRecords } = await builtCodecs();
    const codec = zstdRecords(4);
    await codec.compress!(recordsOf(100_000));
    const pending = codec.compress!(recordsOf(900_000));
    codec.close();
    await expect(pending).rejects.toThrow("closed");
  });
});
