import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { totalsOf } from "../../src/core/sink.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { everything } from "../../src/delivery/filter.ts";
import { ORGANIZATION, pageOf, timeText } from "../support/pages.ts";
import { countersOf, namesIn, openFile, useDisk } from "./file-support.ts";

/* Batches of as many bytes as the sink takes at once, from a real journal into one file. */

const LIMIT_BYTES = 24 << 20;
const EVENT_BYTES = 64_000;

const disk = useDisk();

test("no batch is larger than 24 MB, small pages share one, a larger page is split, and every byte is in its place", async () => {
  const texts: string[] = [];
  // The second and the third page fit into a batch together, and a third one of their size would not.
  for (const megabytes of [26, 9, 9, 9]) {
    const from = texts.length;
    const count = Math.ceil((megabytes << 20) / EVENT_BYTES);
    for (let number = from; number < from + count; number++) texts.push(textOf(number));
    await disk.fixture.journal.append(pageOf(texts.slice(from)));
  }

  const sink = await openFile(disk.folder.path, { path: "all" }, { journal: disk.fixture.journal.id });
  const reader = await disk.fixture.journal.reader("disk");
  // The reason of a dead letter must not blame the disk.
  expect(sink.limits.limitedBy).toBe("Tidemark");
  const sizes: number[] = [];
  for (let at = reader.position; ; ) {
    const { batch } = await formBatch({
      ...{ reader, from: at, limits: sink.limits, recordsMax: sink.limits.recordsMax, bound: undefined },
      ...{ keepsBytes: true, wants: everything, encode: ({ bytes }) => bytes },
    });
    if (batch === null) break;
    sizes.push(totalsOf(batch).bytes);
    const state = await sink.write(batch, new AbortController().signal);
    await reader.commit(batch.to, state);
    at = batch.to;
  }
  await sink.close();

  expect(Math.max(...sizes)).toBeLessThanOrEqual(LIMIT_BYTES);
  const perMegabyte = sizes.map((bytes) => Math.round(bytes / (1 << 20)));
  expect(perMegabyte).toEqual([24, 2 + 9 + 9, 9]);
  const [name, ...others] = namesIn(disk.folder.path);
  expect(others).toEqual([]);
  const wanted = Buffer.from(`${texts.join("\n")}\n`);
  expect(readFileSync(join(disk.folder.path, name!)).equals(wanted)).toBe(true);
});

function textOf(number: number): string {
  const event = { organization: ORGANIZATION, timestamp: timeText(number), id: `n${number}` };
  return JSON.stringify({ ...event, text: countersOf(EVENT_BYTES - 200, number * 8000).toString() });
}
