// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { allocateAnew, createBufferPool } from "../../src/core/buffer-pool.ts";
import { checksumOf, contentSizeOf, decodeBody, encodeBody } from "../../src/core/page-body.ts";
import type { LeasedBytes } from "../../src/core/page-lease.ts";
import { ForeignEventsError, preparePage } from "../../src/core/prepare-page.ts";
import { createRecordEngine, recordEvents } from "../../src/core/record-engine.ts";
import { eventBytes, type ScannedPage, scanPage } from "../../src/core/scanner.ts";
import { createPageCompressor } from "../../src/core/zstd.ts";
import type * as preparerModule from "../../src/polling/prepare/preparer.ts";
import type { Preparer } from "../../src/polling/prepare/preparer.ts";
import type { PrepareOptions } from "../../src/polling/prepare/worker.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { eventTexts, ORGANIZATION } from "../support/pages.ts";

/* The threads for large pages; only the built program has them. */

function builtModule<Module>(path: string): Promise<Module> {
  return import(join(import.meta.dirname, "../../dist/src", path));
}

const ATTRIBUTION = { organizations: [ORGANIZATION], provider: null };
const IDLE_MS = 60_000;

describe("the threads for large pages", () => {
  let clock: FakeClock;
  let preparer: Preparer;

  async function open(options: PrepareOptions = {}, cores?: number): Promise<void> {
    const { createPreparer } = await builtModule<typeof preparerModule>("polling/prepare/preparer.js");
    clock = createFakeClock();
    preparer = createPreparer(clock, options, cores);
  }
  afterEach(() => preparer.close());

  const pool = createBufferPool({ poison: true });
  const bodyOf = (text: string): LeasedBytes => {
    const { bytes, lease } = pool.take(Buffer.byteLength(text));
    return { bytes: bytes.subarray(0, bytes.write(text)), lease };
  };
  const large = (from: number) => `[${eventTexts(from, 1200).join(",")}]`;

  test.each([
    ["one thread", { reads }, 2],
    ["two threads", {}, 2],
    ["two threads on many cores", { reads }, 4],
  ])(
    "%s: make what this thread would make, and the stored form of the page with its checksum",
    async (_, options, cores) => {
      await open(options, cores);
      const texts = (page: ScannedPage) =>
        Array.from({ length: page.count }, (_, index) => eventBytes(page, index).toString());
      const oneLine = large(0).replaceAll("\n", "");
      for (const text of [large(0), large(5000), oneLine, `[${eventTexts(9, 3).join(",")}]`]) {
        const page = await preparer.prepare(bodyOf(text), ATTRIBUTION);
        const { body, records, ...rest } = page;
        const expected = preparePage(Buffer.from(text), ATTRIBUTION);
        // The thread makes lines of one-line events in place, and says whether it did.
        if (text.length > 200_000) encodeBody(expected.scanned, createPageCompressor({}));
        expect(rest).toEqual(expected);
        expect(body !== undefined).toBe(text.length > 200_000);
        if (body === undefined) continue;
        expect(texts(decodeBody(body.bytes))).toEqual(texts(expected.scanned));
        expect(body.checksum).toEqual(checksumOf(body.bytes));
      }
    },
  );

  test("makes records of events where recipes use them", async () => {
    await open({ reads });
    const plain = eventTexts(0, 2000).map((text) => JSON.stringify(JSON.parse(text)));
    const page = await preparer.prepare(bodyOf(`[${plain.join(",")}]`), ATTRIBUTION);
    const made = recordEvents(createRecordEngine(reads), page.scanned, allocateAnew)!;
    expect(page.records).toEqual(made);
    expect(made.bytes.length).toBeGreaterThan(2000 * 20);
    expect(made.answers.filter((answer) => answer !== 0)).toHaveLength(2 * 2000);
    // Events with line breaks inside them are not lines.
    expect((await preparer.prepare(bodyOf(large(0)), ATTRIBUTION)).records).toBeUndefined();
  });

  test("R16 decodes a stored page into the memory it is given, and finds a damaged one", async () => {
    await open();
    const oneLine = large(0).replaceAll("\n", "");
    for (const text of [large(5000), oneLine]) {
      const stored = encodeBody(scanPage(Buffer.from(text)), createPageCompressor({}));
      const room = pool.take(contentSizeOf(stored.bytes)!);
      const page = await preparer.decode(stored, room);
      expect(page).toEqual({ scanned: decodeBody(stored.bytes), body: stored.bytes });
      expect(room.bytes.length).toBe(0);
      room.lease.release();

      const damaged = Buffer.from(stored.bytes);
      damaged[damaged.length >> 1]! ^= 1;
      const other = pool.take(contentSizeOf(stored.bytes)!);
      expect(await preparer.decode({ ...stored, bytes: damaged }, other)).toBeUndefined();
      const lie = { bytes: damaged, checksum: checksumOf(damaged) };
      await expect(preparer.decode(lie, { ...other, bytes: pool.take(600_000).bytes })).rejects.toThrow();
      other.lease.release();
    }
  });

  test("gives back what is wrong with a page as the error it is", async () => {
    await open();
    const foreign = large(0).replace(ORGANIZATION, "0".repeat(24));
    await expect(preparer.prepare(bodyOf(foreign), ATTRIBUTION)).rejects.toMatchObject({
      name: ForeignEventsError.name,
    });
    await expect(preparer.prepare(bodyOf(large(0).slice(0, -9)), ATTRIBUTION)).rejects.toThrow("not JSON");
  });

  test.skipIf(!existsSync("/proc/self/task"))(
    "end when there was nothing for them, and come again",
    async () => {
      const threads = () => readdirSync("/proc/self/task").length;
      const without = threads();
      await open();
      await preparer.prepare(bodyOf(large(0)), ATTRIBUTION);
      const withIt = threads();
      expect(withIt).toBeGreaterThan(without);
      for (let turn = 0; turn < 3; turn++) {
        await clock.settle();
        clock.advance(IDLE_MS);
      }
      await expect.poll(threads).toBeLessThan(withIt - 1);
      const page = await preparer.prepare(bodyOf(large(0)), ATTRIBUTION);
      expect(page.scanned.count).toBe(1200);
    },
  );
});
