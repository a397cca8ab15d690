import { randomBytes } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createGzipWriter, gzipOf } from "../../src/core/deflate.ts";

/* What is written here is read by zlib, as every receiver does. */

const writer = createGzipWriter();

function read(bytes: Uint8Array): Buffer {
  return gunzipSync(gzipOf(writer, bytes));
}

const LINE = '{"service":"sso","event_type":"sso_auth","success":true,"id":"5f0c1a2b3c4d5e6f70819203"}\n';

describe("the gzip writer", () => {
  test("keeps texts of every length around those that it treats differently", () => {
    for (let length = 0; length <= 600; length++) {
      for (const bytes of [
        Buffer.alloc(length, 0x61),
        Buffer.from("ab".repeat(length)).subarray(0, length),
        Buffer.from(LINE.repeat(8)).subarray(0, length),
        randomBytes(length),
      ])
        expect(read(bytes).equals(bytes)).toBe(true);
    }
  });

  test("keeps any repetition of any texts", () => {
    const part = fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 60 }), fc.integer({ min: 1, max: 40 }));
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 30 }),
        fc.array(fc.nat(29), { maxLength: 60 }),
        (parts, order) => {
          const bytes = Buffer.concat(
            order.flatMap((at) => {
              const [text, times] = parts[at % Math.max(1, parts.length)] ?? [new Uint8Array(), 0];
              return Array.from({ length: times }, () => text);
            }),
          );
          expect(read(bytes).equals(bytes)).toBe(true);
        },
      ),
    );
  });

  // Blocks have 128 KB, chunks 1 MB; matches reach back 32 KB.
  test.each([131_071, 131_072, 131_073, 1_048_575, 1_048_576, 1_048_577, 3_000_000])(
    "keeps %i bytes, whether they repeat or not",
    (length) => {
      const events = Buffer.concat(
        Array.from({ length: Math.ceil(length / 100) }, (_, at) =>
          Buffer.from(LINE.replace("5f0c", `${at}`)),
        ),
      ).subarray(0, length);
      for (const bytes of [events, randomBytes(length), Buffer.alloc(length)])
        expect(read(bytes).equals(bytes)).toBe(true);
    },
  );

  test("finds a match at the greatest distance, and none beyond it", () => {
    const text = randomBytes(64);
    const between = randomBytes(32_768 - text.length);
    const near = Buffer.concat([text, between, text]);
    const far = Buffer.concat([text, between, randomBytes(1), text]);
    expect(read(near).equals(near)).toBe(true);
    expect(read(far).equals(far)).toBe(true);
    expect(gzipOf(writer, near).length).toBeLessThan(gzipOf(writer, far).length - 40);
  });

  test("keeps long texts whose first copy is out of reach", () => {
    // Only the ends of matches are noted, so such a copy is found late and extended back over hundreds of bytes.
    for (let round = 0; round < 40; round++) {
      const text = randomBytes(2000);
      const bytes = Buffer.concat(Array.from({ length: 8 }, () => [text, randomBytes(20_000)]).flat());
      expect(read(bytes).equals(bytes)).toBe(true);
    }
  });

  test("cuts codes that would be longer than the format allows", () => {
    // With frequencies like Fibonacci's numbers the rarest code would have 21 bits.
    const bytes: number[] = [];
    for (let [symbol, now, next] = [0, 1, 1]; symbol < 22; symbol++) {
      for (let n = 0; n < now; n++) bytes.push(symbol);
      [now, next] = [next, now + next];
    }
    // In an order without matches of eight bytes.
    const shuffled = Buffer.from(bytes.map((_, at) => bytes[(at * 7919) % bytes.length]!));
    expect(read(shuffled).equals(shuffled)).toBe(true);
  });

  test("makes one member of parts, and a new one after the last", () => {
    const parts = [Buffer.from(LINE), Buffer.alloc(0), randomBytes(70_000), Buffer.from(LINE.repeat(10_000))];
    const all = Buffer.concat(parts);
    for (const last of [Buffer.alloc(0), Buffer.from("end")]) {
      const write = (part: Buffer, isLast: boolean) => Buffer.concat(writer.add(part, isLast));
      const written = [...parts.map((part) => write(part, false)), write(last, true)];
      expect(gunzipSync(Buffer.concat(written)).equals(Buffer.concat([all, last]))).toBe(true);
    }
  });

  test("gives no more than zlib's fastest level for lines of events", () => {
    const lines = Buffer.from(
      Array.from({ length: 5000 }, (_, at) => LINE.replace("5f0c", `${at}`)).join(""),
    );
    expect(gzipOf(writer, lines).length).toBeLessThan(1.05 * gzipSync(lines, { level: 1 }).length);
  });
});
