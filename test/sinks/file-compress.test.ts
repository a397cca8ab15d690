import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { decompress } from "../../src/core/zstd.ts";
import { formBatch } from "../../src/delivery/batching.ts";
import { everything } from "../../src/delivery/filter.ts";
import { skipUnless } from "../support/components.ts";
import { cefFormat, makeEvents } from "../support/events.ts";
import { ORGANIZATION, OTHER_ORGANIZATION, pageOf, timeText } from "../support/pages.ts";
import { linesIn, makeFolder, namesIn, openFile, put, textOf, useDisk } from "./file-support.ts";

/* Files that are compressed while they are written. */

const ZSTD = ["/usr/bin/zstd", "/usr/local/bin/zstd", "/opt/homebrew/bin/zstd"].find((path) =>
  existsSync(path),
);
const skipZstd = skipUnless("zstd", ZSTD, "install the zstd command");

const disk = useDisk();

const organizations = [ORGANIZATION, OTHER_ORGANIZATION];
const textsFrom = (from: number, count: number, organizationOf = (_: number) => ORGANIZATION) =>
  Array.from({ length: count }, (_, at) =>
    JSON.stringify({
      organization: organizationOf(from + at),
      timestamp: timeText(from + at),
      id: `n${from + at}`,
      text: `${from + at} é`.repeat(40),
    }),
  );

/** Delivers everything that the journal has. */
async function deliverAll(config: object): Promise<void> {
  const sink = await openFile(disk.folder.path, config, { journal: disk.fixture.journal.id });
  const reader = await disk.fixture.journal.reader("disk");
  for (let at = reader.position; ; ) {
    const { batch } = await formBatch({
      ...{ reader, from: at, limits: sink.limits, recordsMax: sink.limits.recordsMax, bound: undefined },
      ...{ keepsBytes: true, wants: everything, encode: ({ bytes }) => bytes },
    });
    if (batch === null) break;
    await reader.commit(batch.to, await sink.write(batch, new AbortController().signal));
    at = batch.to;
  }
  await sink.close();
}

const fileBytes = () => namesIn(disk.folder.path).map((name) => readFileSync(join(disk.folder.path, name)));

describe("compress: zstd", () => {
  test("takes the frames of the journal as they are where whole pages go to one file", async () => {
    const texts = textsFrom(0, 1500);
    await disk.fixture.journal.append(pageOf(texts.slice(0, 1000)));
    await disk.fixture.journal.append(pageOf(texts.slice(1000)));
    // Also from the page on disk, after a restart.
    for (const reopen of [false, true]) {
      if (reopen) disk.fixture.reopen();
      const made = makeFolder();
      try {
        const sink = await openFile(made.path, { compress: "zstd" }, { journal: disk.fixture.journal.id });
        const reader = await disk.fixture.journal.reader(`disk ${reopen}`);
        const { batch } = await formBatch({
          ...{ reader, from: reader.position, limits: sink.limits, recordsMax: 10_000, bound: undefined },
          ...{ keepsBytes: true, wants: everything, encode: ({ bytes }) => bytes },
        });
        await sink.write(batch!, new AbortController().signal);
        await sink.close();
        const [name] = namesIn(made.path);
        expect(name).toBe(`${ORGANIZATION}/2026-03-14.00000001.jsonl.zst`);
        const stored = disk.fixture.db
          .prepare("SELECT body FROM bodies ORDER BY page")
          .pluck()
          .all() as Buffer[];
        expect(readFileSync(join(made.path, name!))).toEqual(Buffer.concat(stored));
        expect(linesIn(made.path)).toEqual(texts);
      } finally {
        made.remove();
      }
    }
  });

  test("compresses what goes to several files, and small pages together", async () => {
    const texts = textsFrom(0, 600, (number) => organizations[number % 2]!);
    await disk.fixture.journal.append(pageOf(texts, { organizations }));
    for (let number = 600; number < 640; number++) {
      const text = textsFrom(number, 1);
      texts.push(...text);
      await disk.fixture.journal.append(pageOf(text));
    }
    await deliverAll({ path: "{organization}", compress: "zstd" });
    const ofEach = (lines: readonly string[]) =>
      organizations.map((organization) => lines.filter((line) => line.includes(organization)));
    expect(ofEach(linesIn(disk.folder.path))).toEqual(ofEach(texts));
    const plainBytes = texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
    expect(fileBytes().reduce((bytes, { length }) => bytes + length, 0)).toBeLessThan(plainBytes / 5);
  });

  test.skipIf(skipZstd)("gives files that the zstd command reads at every commit", async () => {
    const texts = textsFrom(0, 900);
    const sink = await openFile(disk.folder.path, { path: "all", compress: "zstd" });
    const events = makeEvents(60);
    for (let at = 0; at < events.length; at += 20) {
      await put(sink, events.slice(at, at + 20));
      const read = execFileSync(ZSTD!, ["-dc", join(disk.folder.path, "all.00000001.jsonl.zst")]).toString();
      expect(read.split("\n").slice(0, -1)).toEqual(textOf(events.slice(0, at + 20)));
    }
    await sink.close();
    disk.folder.remove();
    await disk.fixture.journal.append(pageOf(texts));
    await deliverAll({ path: "all", compress: "zstd" });
    const read = execFileSync(ZSTD!, ["-dc", join(disk.folder.path, "all.00000001.jsonl.zst")]).toString();
    expect(read.split("\n").slice(0, -1)).toEqual(texts);
  });

  test("an event with line breaks is one line, with all other bytes kept", async () => {
    const text = `{"organization":"${ORGANIZATION}",\n "timestamp":"${timeText(1)}",\r\n"id": "x", "text":"a\\nb"}`;
    await disk.fixture.journal.append(pageOf([text, ...textsFrom(2, 3)]));
    const { raw } = await import("../../src/formats/raw.ts");
    const format = raw.create({}, { describe: () => undefined as never });
    const sink = await openFile(disk.folder.path, { path: "all", compress: "zstd" });
    const reader = await disk.fixture.journal.reader("disk");
    const { batch } = await formBatch({
      ...{ reader, from: reader.position, limits: sink.limits, recordsMax: 10_000, bound: undefined },
      ...{ keepsBytes: true, wants: everything, encode: (event) => format.encode(event) },
    });
    await sink.write(batch!, new AbortController().signal);
    await sink.close();
    const lines = linesIn(disk.folder.path);
    expect(lines).toHaveLength(4);
    expect(JSON.parse(lines[0]!)).toEqual(JSON.parse(text));
    expect(lines.slice(1)).toEqual(textsFrom(2, 3));
  });

  test("a file is finished before it grows beyond its size", async () => {
    for (let from = 0; from < 3000; from += 500)
      await disk.fixture.journal.append(pageOf(textsFrom(from, 500)));
    await deliverAll({ path: "all", compress: "zstd", rotateSize: "60KB" });
    expect(namesIn(disk.folder.path).length).toBeGreaterThan(2);
    for (const { length } of fileBytes()) expect(length).toBeLessThanOrEqual(60_000);
    expect(linesIn(disk.folder.path)).toEqual(textsFrom(0, 3000));
  });
});

describe("compress", () => {
  test("with gzip a file is a series of members", async () => {
    const sink = await openFile(disk.folder.path, { path: "all", compress: "gzip" });
    const events = makeEvents(40);
    await put(sink, events.slice(0, 20));
    await put(sink, events.slice(20));
    await sink.close();
    expect(namesIn(disk.folder.path)).toEqual(["all.00000001.jsonl.gz"]);
    const [bytes] = fileBytes();
    expect(gunzipSync(bytes!).toString()).toBe(
      textOf(events)
        .map((text) => `${text}\n`)
        .join(""),
    );
  });

  test("a format that is not JSON gives .log.zst", async () => {
    const sink = await openFile(disk.folder.path, { path: "all", compress: "zstd" }, { format: cefFormat });
    await put(sink, makeEvents(2), cefFormat);
    await sink.close();
    expect(namesIn(disk.folder.path)).toEqual(["all.00000001.log.zst"]);
    expect(decompress(fileBytes()[0]!).toString()).toMatch(/^CEF:0.*\nCEF:0.*\n$/);
  });

  test.each([
    [{}, { compress: "zstd" }, ["all.00000001.jsonl", "all.00000002.jsonl.zst"]],
    [{ compress: "zstd" }, { compress: "gzip" }, ["all.00000001.jsonl.zst", "all.00000002.jsonl.gz"]],
    [{ compress: "zstd" }, { gzip: true }, ["all.00000001.jsonl.zst", "all.00000002.jsonl"]],
    [{ gzip: true }, { compress: "gzip", gzip: true }, ["all.00000001.jsonl.gz", "all.00000002.jsonl.gz"]],
  ])("a change from %j to %j begins a new file, and nothing is lost", async (before, after, names) => {
    const events = makeEvents(20);
    const first = await openFile(disk.folder.path, { path: "all", ...before });
    const committed = await put(first, events.slice(0, 10));
    await first.close();
    const second = await openFile(disk.folder.path, { path: "all", ...after }, { committed });
    await put(second, events.slice(10));
    await second.close();
    expect(namesIn(disk.folder.path)).toEqual(names);
    expect(linesIn(disk.folder.path)).toEqual(textOf(events));
  });
});
