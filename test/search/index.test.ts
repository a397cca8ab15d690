import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { systemClock } from "../../src/core/clock.ts";
import { findQueryOf, openSearch } from "../../src/search/engine/search.ts";
import type { Filter } from "../../src/search/find/filter.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { A, B, DAY } from "../archive/world.ts";
import { skipUnless } from "../support/components.ts";
import {
  collect,
  DUCKDB_REMEDY,
  duckdb,
  never,
  openSearchWorld,
  type SearchWorld,
  textsOf,
} from "./support.ts";

const skips = skipUnless("duckdb", duckdb, DUCKDB_REMEDY);

let own: SearchWorld;
beforeEach(async () => {
  if (skips) return;
  own = await openSearchWorld();
});
afterEach(() => own?.close());

const NEXT = "2026-03-11";

/** Two closed organizations on one day, one open day, in time order. */
async function fill(): Promise<string[]> {
  const { world } = own;
  const a = await world.events(A, DAY, 0, 30);
  const b = await world.events(B, DAY, 100, 20);
  await world.seal([A, B], DAY, 50);
  await world.closeAll();
  const open = await world.events(A, NEXT, 0, 10);
  return [...a, ...b, ...open];
}

const find = async (filter: Filter, more: object = {}) =>
  textsOf(await collect(own.search.find({ ...findQueryOf(filter), ...more }, never)));

function files(): string[] {
  return readdirSync(own.indexFolder).filter((name) => name.endsWith(".parquet"));
}

describe.skipIf(skips)("the index", () => {
  test("covers closed days and the journal without a seam, in time order", async () => {
    const all = await fill();
    expect(await find({})).toEqual(all);
    expect(await find({}, { descending: true })).toEqual(all.toReversed());
    expect(await find({ organizations: [B] })).toEqual(all.slice(30, 50));
    expect(await find({}, { limit: 7 })).toEqual(all.slice(0, 7));
    expect(files()).toEqual([expect.stringMatching(/^pages-/), expect.stringMatching(/^part-/)]);
  });

  test("finds the first and the last event from both ends, over many days", async () => {
    const texts: string[] = [];
    const days = Array.from({ length: 6 }, (_, at) => `2026-03-${10 + at}`);
    for (const [at, day] of days.entries()) {
      texts.push(...(await own.world.events(A, day, at * 100, 20)));
      if (at < 4) await own.world.seal([A], day, 20);
    }
    await own.world.closeAll();
    for (const descending of [false, true]) {
      const order = descending ? texts.toReversed() : texts;
      expect(await find({}, { descending })).toEqual(order);
      for (const text of [texts[0]!, texts[55]!, texts.at(-1)!]) {
        const { id } = JSON.parse(text) as { id: string };
        expect(await find({ ids: [id] }, { descending, limit: 1 })).toEqual([text]);
        expect(await find({ text: id }, { descending, limit: 1 })).toEqual([text]);
      }
      expect(await find({}, { descending, limit: 70 })).toEqual(order.slice(0, 70));
    }
  });

  test("A28 an event moves from open to closed between two pages of a query without being lost or doubled", async () => {
    const all = await fill();
    const first = await collect(own.search.find({ ...findQueryOf({}), limit: 52 }, never));
    await own.world.seal([A], NEXT, 10);
    await own.world.closeAll();
    const rest = await collect(own.search.find({ ...findQueryOf({}), after: first.at(-1)! }, never));
    expect(textsOf([...first, ...rest])).toEqual(all);
    expect(files().filter((name) => name.startsWith("pages-"))).toEqual([]);
  });

  test("A28 a page that is trimmed while a query runs is found in the closed part", async () => {
    const all = await fill();
    await own.search.sync(never);
    const { page, snapshot } = own.holdings;
    const before = await snapshot();
    await own.world.seal([A], NEXT, 10);
    await own.world.closeAll();
    // The query sees the state before the closing, and the page is gone when it is read.
    const stale = { snapshot: async () => before, page: () => undefined };
    let looks = 0;
    Object.assign(own.holdings, stale, {
      snapshot: () => (++looks === 1 ? stale.snapshot() : snapshot()),
    });
    expect(await find({})).toEqual(all);
    expect(looks).toBe(2);
    Object.assign(own.holdings, { page, snapshot });
  });

  test("A28 a page that is trimmed while its group is indexed hides no event of the group's other pages", async () => {
    const { world } = own;
    const first = await world.events(A, DAY, 0, 10);
    const second = await world.events(B, DAY, 100, 10);
    const third = await world.events(A, DAY, 200, 10);
    const { page, snapshot } = own.holdings;
    const before = await snapshot();
    await world.seal([B], DAY, 10);
    await world.closeAll();
    let looks = 0;
    Object.assign(own.holdings, {
      snapshot: () => (++looks === 1 ? before : snapshot()),
      page: (number: number) => (number === 2 ? undefined : page(number)),
    });
    expect(await find({})).toEqual([...first, ...second, ...third]);
    expect(looks).toBe(2);
  });

  test("a group of pages that a journal has not reached, after a restore or a new beginning, is not used", async () => {
    const { world, indexFolder } = own;
    for (let page = 0; page < 5; page++) await world.events(A, DAY, page * 1000, 1000);
    await own.search.sync(never);
    const other = await openSearchWorld();
    try {
      const texts = await other.world.events(B, DAY, 0, 3);
      const search = await openSearch({
        ...{ holdings: other.holdings, folder: indexFolder, describe: describeEvent },
        ...{ memoryBytes: 200e6, nowMs: Date.now },
      });
      expect(textsOf(await collect(search.find(findQueryOf({}), never)))).toEqual(texts);
      search.close();
    } finally {
      other.close();
    }
  });

  test("A28 a part that an erasure replaces while the index is made is no damage", async () => {
    const all = await fill();
    const { snapshot } = own.holdings;
    const before = await snapshot();
    const { archive, store, state, folder } = own.world;
    const clock = { now: () => own.world.nowMs, sleep: systemClock.sleep };
    const config = { keep: "400d", classes: [] };
    const deletions = createDeletions({
      ...{ archive, store, state, clock, config },
      workFolder: join(folder, "deleting"),
    });
    await deletions.erase({ organization: B, from: null, to: null, reason: "asked" }, never);
    let looks = 0;
    Object.assign(own.holdings, { snapshot: () => (++looks === 1 ? before : snapshot()) });
    expect(await find({})).toEqual([...all.slice(0, 30), ...all.slice(50)]);
    // A part that is named by the newest log and cannot be read is damage.
    own.holdings.frames = () => {
      throw new Error("is missing or damaged");
    };
    await expect(own.search.rebuild(never)).rejects.toThrow("is missing or damaged");
  });

  test("A25 is made again with the same content", async () => {
    await fill();
    await own.search.sync(never);
    const before = files().map((name) => readFileSync(join(own.indexFolder, name)));
    rmSync(own.indexFolder, { recursive: true });
    await own.reopen();
    await own.search.sync(never);
    const after = files().map((name) => readFileSync(join(own.indexFolder, name)));
    expect(after.length).toBe(2);
    for (const [at, bytes] of after.entries()) expect(bytes.equals(before[at]!)).toBe(true);
  });

  test("A25 files that are missing or damaged, at any byte, are noticed and made again", async () => {
    const all = await fill();
    await own.search.sync(never);
    const path = join(own.indexFolder, files().find((name) => name.startsWith("part-"))!);
    const whole = readFileSync(path);
    for (let at = 3; at < whole.length; at += Math.ceil(whole.length / 12)) {
      const damaged = Buffer.from(whole);
      damaged[at] = damaged[at]! ^ 0x5a;
      writeFileSync(path, damaged);
      await own.reopen();
      expect(await find({})).toEqual(all);
      expect(readFileSync(path).equals(whole)).toBe(true);
    }
    for (const damage of [() => rmSync(path), () => writeFileSync(path, whole.subarray(0, 100))]) {
      damage();
      expect(await find({})).toEqual(all);
    }
    const note = path.replace(".parquet", ".json");
    writeFileSync(note, readFileSync(note, "utf8").replace(/"rows":\d+/, '"rows":1'));
    await own.reopen();
    expect(await find({})).toEqual(all);
  });

  test("A25 a folder that is removed while the search is open is made again", async () => {
    const all = await fill();
    expect(await find({})).toEqual(all);
    rmSync(own.indexFolder, { recursive: true });
    expect(await find({})).toEqual(all);
    expect(files()).toHaveLength(2);
    let removals = 0;
    const count = await own.search.query(never, async (connection, snapshot) => {
      if (removals++ === 0) rmSync(own.indexFolder, { recursive: true });
      const source = snapshot.source(undefined, undefined);
      return (await connection.runAndReadAll(`SELECT count(*) FROM ${source}`)).getRows()[0]![0];
    });
    expect(count).toBe(BigInt(all.length));
    rmSync(own.indexFolder, { recursive: true });
    await own.search.rebuild(never);
    expect(files()).toHaveLength(2);
  });

  test("an event of an impossible time is found, in the journal and closed, and harms no other", async () => {
    const { world } = own;
    const times = [
      "0001-01-01T00:00:00Z",
      "1600-02-29T00:00:00.5Z",
      "2300-01-01T00:00:00Z",
      "9999-12-31T23:59:59Z",
    ];
    const ordinary = await world.events(A, DAY, 0, 5);
    const odd: string[] = [];
    for (const [at, timestamp] of times.entries())
      odd.push(...(await world.events(A, DAY, 100 + at, 1, { timestamp })));
    const wanted = [...odd.slice(0, 2), ...ordinary, ...odd.slice(2)];
    const found = async () => (await find({})).toSorted();
    expect(await found()).toEqual(wanted.toSorted());
    expect(
      await find({
        fromNs: BigInt(Date.parse(DAY)) * 1_000_000n,
        toNs: BigInt(Date.parse(NEXT)) * 1_000_000n,
      }),
    ).toEqual(ordinary);
    await world.seal([A], DAY, 5);
    await world.closeAll();
    expect(await found()).toEqual(wanted.toSorted());
    expect(await find({ toNs: 10n ** 21n, fromNs: -(10n ** 23n) }, { limit: 4 })).toHaveLength(4);
  });

  test("A25 the engine has the memory of the config, one thread, and bounded temporary files", async () => {
    const all = await fill();
    const small = await openSearch({
      ...{ holdings: own.holdings, folder: join(own.world.folder, "small"), describe: describeEvent },
      ...{ memoryBytes: 64e6, nowMs: Date.now },
    });
    try {
      const settings = await small.query(never, async (connection) => {
        const names = ["memory_limit", "threads", "max_temp_directory_size"];
        const asked = names.map((name) => `current_setting('${name}')::VARCHAR`).join(", ");
        return (await connection.runAndReadAll(`SELECT ${asked}`)).getRows()[0];
      });
      expect(settings).toEqual(["61.0 MiB", "1", "1.1 GiB"]);
      expect(textsOf(await collect(small.find(findQueryOf({}), never)))).toEqual(all);
      const sorted = small.query(never, (connection) =>
        connection.runAndReadAll("SELECT list(i::VARCHAR) FROM range(20000000) t(i)"),
      );
      await expect(sorted).rejects.toThrow(/Out of Memory/);
    } finally {
      small.close();
    }
  });

  test("a hit is read from the data file: where that is damaged the answer says so", async () => {
    await fill();
    await own.search.sync(never);
    const [data] = readdirSync(join(own.world.storeFolder, "events"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".zst"))
      .map((name) => join(own.world.storeFolder, "events", name));
    const bytes = readFileSync(data!);
    bytes[200] = bytes[200]! ^ 1;
    rmSync(data!);
    writeFileSync(data!, bytes);
    await expect(find({})).rejects.toThrow(/is missing or damaged: run `tidemark archive verify`/);
    await own.reopen();
    rmSync(own.indexFolder, { recursive: true });
    await own.reopen();
    await expect(find({})).rejects.toThrow(/damaged at [ab]{24}: run `archive verify`/);
  });

  test("a data file that is removed while it is read is called missing, at every read", async () => {
    await fill();
    const { store } = own.world;
    const { read } = store;
    for (let wanted = 0, isOver = false; !isOver; wanted++) {
      let reads = 0;
      store.read = async (path, range) =>
        path.startsWith("events/") && ++reads > wanted ? undefined : read(path, range);
      const rebuilt = own.search.rebuild(never).then(
        () => "whole",
        (error: Error) => error.message,
      );
      isOver = (await rebuilt) === "whole";
      if (!isOver) expect(await rebuilt).toMatch(/is missing or damaged at [ab]{24}: run `archive verify`/);
      else expect(wanted).toBeGreaterThan(4);
    }
    store.read = read;
  });

  test("pages are indexed in groups that stay the same while others are added", async () => {
    const { world } = own;
    const texts: string[] = [];
    for (let page = 0; page < 12; page++) {
      texts.push(...(await world.events(A, DAY, page * 1000, 1000)));
      if (page % 4 === 0) await own.search.sync(never);
    }
    expect((await find({})).length).toBe(texts.length);
    const groups = files();
    texts.push(...(await world.events(A, DAY, 20_000, 5)));
    expect(await find({})).toEqual(texts);
    expect(files().filter((name) => groups.includes(name)).length).toBeGreaterThanOrEqual(2);
  });
});
