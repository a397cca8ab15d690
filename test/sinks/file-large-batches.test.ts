import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { totalsOf } from "../../src/core/sink.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { everything } from "../../src/delivery/filter.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { ORGANIZATION, pageOf, timeText } from "../support/pages.ts";
import { countersOf, makeFolder, namesIn, openFile } from "./file-support.ts";

/* Batches of as many bytes as the sink takes at once, from a real journal into one file. */

const LIMIT_BYTES = 24 << 20;
const EVENT_BYTES = 64_000;

let folder: ReturnType<typeof makeFolder>;
let fixture: JournalFixture;

beforeEach(() => {
  folder = makeFolder();
  fixture = openFixture();
});
afterEach(() => {
  fixture.close();
  folder.remove();
});

test("no batch is larger than 24 MB, small pages share one, a larger page is split, and every byte is in its place", async () => {
  const texts: string[] = [];
  // The second and the third page fit into a batch together, and a third one of their size would not.
  for (const megabytes of [26, 9, 9, 9]) {
    const from = texts.length;
    const count = Math.ceil((megabytes << 20) / EVENT_BYTES);
    for (let number = from; number < from + count; number++) texts.push(textOf(number));
    await fixture.journal.append(pageOf(texts.slice(from)));
  }

  const sink = await openFile(folder.path, { path: "all" }, { journal: fixture.journal.id });
  const reader = await fixture.journal.reader("disk");
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
  const [name, ...others] = namesIn(folder.path);
  expect(others).toEqual([]);
  const wanted = Buffer.from(`${texts.join("\n")}\n`);
  expect(readFileSync(join(folder.path, name!)).equals(wanted)).toBe(true);
});

function textOf(number: number): string {
  const event = { organization: ORGANIZATION, timestamp: timeText(number), id: `n${number}` };
  return JSON.stringify({ ...event, text: countersOf(EVENT_BYTES - 200, number * 8000).toString() });
}
