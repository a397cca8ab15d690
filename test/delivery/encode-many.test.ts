import fc from "fast-check";
import { expect, test } from "vitest";
import type { Format } from "../../src/core/format.ts";
import type { JournalReader } from "../../src/core/journal.ts";
import type { Position } from "../../src/core/position.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { createChunks } from "../../src/delivery/encoded-lines.ts";
import { everything } from "../../src/delivery/filter.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { describe } from "../../src/services/index.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { fixtureTexts, pageOfTexts } from "../formats/recipes-support.ts";
import { runs } from "../support/runs.ts";

const format: Format = ocsf.create({ schemaVersion: "1.8.0", rawData: false }, { describe, reads });
const PAGES = 5;
const TEXTS = fixtureTexts().filter((text) => text.startsWith("{"));

/** The same events on each page. */
const reader = {
  read: async ({ page, event }: Position) => {
    const isRest = page > 0 && event < TEXTS.length;
    const number = isRest ? page : page + 1;
    return number > PAGES ? null : pageOfTexts(TEXTS, { number, first: isRest ? event : 0 });
  },
} as JournalReader;

interface Limits {
  readonly recordsMax: number;
  readonly bytesMax: number;
  readonly recordBytesMax: number;
  readonly recordOverheadBytes: number;
}

/** All batches as texts: their lines, their ends and what fits into none. */
async function batchesOf(limits: Limits, encodeMany: Format["encodeMany"]) {
  const batches: unknown[] = [];
  const chunks = createChunks({ poison: true });
  for (let from: Position = { journal: "journal", page: 0, event: 0, hash: "" }; ; ) {
    const { batch, to, misfits, full, oldestMs, misfitLeases } = await formBatch({
      ...{ reader, from, limits: { ...limits, ageMsMax: 0 }, recordsMax: limits.recordsMax },
      ...{ bound: undefined, wants: everything, keepsBytes: false, chunks },
      encode: format.encodeShared ?? format.encode,
      encodeMany,
    });
    batches.push({
      lines: batch?.records.map(({ body, event }) => `${event.identity} ${Buffer.from(body).toString()}`),
      misfits: misfits.map(({ event }) => event.identity),
      ...{ to, full, oldestMs },
    });
    for (const lease of [...(batch?.leases ?? []), ...misfitLeases]) lease.release();
    if (batch === null && misfits.length === 0) return batches;
    from = to;
  }
}

test("batches have the same events and ends whether events are encoded together or one by one", async () => {
  let together = 0;
  const encodeMany: Format["encodeMany"] = (page, from, to) => {
    const many = format.encodeMany!(page, from, to);
    if (many !== undefined) together++;
    return many;
  };
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        recordsMax: fc.integer({ min: 1, max: 1000 }),
        bytesMax: fc.integer({ min: 3000, max: 2_000_000 }),
        recordBytesMax: fc.integer({ min: 1500, max: 200_000 }),
        recordOverheadBytes: fc.integer({ min: 0, max: 100 }),
      }),
      async (limits) => {
        expect(await batchesOf(limits, encodeMany)).toEqual(await batchesOf(limits, undefined));
      },
    ),
    { numRuns: runs(25) },
  );
  expect(together).toBeGreaterThan(50);
});
