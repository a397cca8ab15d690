import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { NoCountsError } from "../../src/archive/close/count-days.ts";
import { differingOf } from "../../src/archive/close/differing.ts";
import { readEntries } from "../../src/archive/evidence/read.ts";
import { isPart, type PartLeaf } from "../../src/archive/log/leaf.ts";
import { type Line, parseManifest } from "../../src/archive/part/manifest.ts";
import { openRange } from "../../src/archive/part/range.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { newWindow } from "../../src/core/window.ts";
import { createSpace } from "../../src/journal/space.ts";
import { programOnPath } from "../support/components.ts";
import { eventText, pageOf, readTexts } from "../support/pages.ts";
import { A, B, C, DAY, openWorld, type World } from "./world.ts";

let world: World;
afterEach(() => world.end());

function parts() {
  return world.archive.leaves().filter(isPart);
}

async function linesOf(leaf: PartLeaf): Promise<Line[]> {
  const bytes = await world.store.read(leaf.manifest);
  return parseManifest(bytes!).flatMap((entry) => ("line" in entry ? [entry.line] : []));
}

async function allLines(): Promise<Line[]> {
  return (await Promise.all(parts().map(linesOf))).flat();
}

/** Every event of the archive, part by part. */
async function storedTexts(): Promise<string[]> {
  const found: string[] = [];
  for (const leaf of parts())
    for (const line of await linesOf(leaf))
      for await (const { slice } of (await openRange(world.store, leaf.data, line)).slices())
        found.push(slice!.toString());
  return found;
}

/** The events of the archive as strangers read them. */
function texts(leaf: PartLeaf): string {
  return spawnSync("zstdcat", [join(world.storeFolder, leaf.data)], { encoding: "utf8" }).stdout;
}
const zstdcat = programOnPath("zstdcat");

describe("closing days", () => {
  test("A2 a page that comes while others are noted is part of its day, though the day is sealed already", async () => {
    world = await openWorld();
    const first = await world.events(A, DAY, 0, 20);
    const noting = world.state.noteArrivals(10);
    const second = await world.events(A, DAY, 20, 20);
    await world.seal([A], DAY, 40);
    expect(await noting).toBe(true);
    const query = { nowMs: Date.parse(DAY) + 30 * DAY_MS, settleMs: 0, eventsMax: 1000, daysMax: 10 };
    expect(await world.state.closable(query)).toEqual([]);
    await world.closeAll();
    expect(parts()).toMatchObject([{ kind: "day", day: DAY, part: "001", events: 40 }]);
    expect(new Set(await storedTexts())).toEqual(new Set([...first, ...second]));
  });

  test("a sealed day becomes a data file, a manifest, a log entry and a checkpoint that verify", async () => {
    world = await openWorld();
    const events = await world.events(A, DAY, 0, 50);
    await world.seal([A, B], DAY, 50);
    await world.closeAll();
    const [leaf] = parts();
    expect(leaf).toMatchObject({ kind: "day", day: DAY, part: "001", lines: 2, events: 50, incomplete: 0 });
    const lines = await linesOf(leaf!);
    expect(
      lines.map(({ organization, events: count, held, returned, state }) => [
        organization,
        count,
        held,
        returned,
        state,
      ]),
    ).toEqual([
      [A, 50, 50, 50, "complete"],
      [B, 0, 0, 0, "complete"],
    ]);
    if (zstdcat) expect(texts(leaf!)).toBe(events.map((text) => `${text}\n`).join(""));
    const verification = await world.verify();
    expect(verification.findings).toEqual([]);
    expect(verification).toMatchObject({ events: 50, days: { valid: 1, total: 1 }, isPinned: true });
    expect(readdirSync(join(world.storeFolder, ".work"))).toEqual([]);
  });

  test("A2 a day closes in parts: a refused organization delays only itself", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 3);
    await world.seal([A], DAY, 3);
    await world.seal([B], DAY, 0, {
      state: "refused",
      reason: "403",
      askedMs: null,
      sweeps: 0,
      apiCount: null,
      heldCount: null,
    });
    await world.closeAll();
    expect((await allLines()).map(({ organization }) => organization)).toEqual([A]);
    world.db
      .prepare(
        "UPDATE windows SET state = 'sealed', asked_ms = ?, sweeps = 3, api_count = 0, held_count = 0 WHERE state = 'refused'",
      )
      .run(world.nowMs - 5 * DAY_MS);
    await world.closeAll();
    expect(parts().map(({ part, lines }) => [part, lines])).toEqual([
      ["001", 1],
      ["002", 1],
    ]);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A2 an account that is refused does not hold up an organization that another account has read", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 3);
    await world.seal([A], DAY, 3);
    const stream = await world.journal.stream({
      account: "other",
      provider: null,
      organizations: [A],
      services: ["all"],
    });
    const fromMs = Date.parse(DAY);
    await world.journal.changeWindows({
      add: [newWindow(stream, fromMs, fromMs + DAY_MS, { state: "refused", reason: "403" })],
    });
    await world.closeAll();
    expect(await allLines()).toMatchObject([{ organization: A, held: 3, state: "complete", missing: [] }]);
  });

  test("A3 settle counts from the first completed pass; a later sweep does not begin it anew", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 3);
    await world.seal([A], DAY, 3, { askedMs: world.nowMs - 1.5 * DAY_MS });
    const [window] = await world.journal.windows({ account: "acme" });
    world.nowMs += 0.6 * DAY_MS;
    await world.journal.changeWindows({ put: [{ ...window!, askedMs: world.nowMs - 1000 }] });
    await world.closeAll();
    expect(parts()).toHaveLength(1);
    // The claim is about the newest pass all the same.
    expect((await allLines())[0]!.asked).toBe(new Date(world.nowMs - 1000).toISOString());
  });

  test("A3 settle counts from the later of the day's end and the pass about it", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 3);
    const askedMs = world.nowMs - 1.5 * DAY_MS;
    await world.seal([A], DAY, 3, { askedMs });
    await world.closeAll();
    expect(parts()).toEqual([]);
    world.nowMs = askedMs + 2 * DAY_MS;
    await world.closeAll();
    expect(parts()).toHaveLength(1);
  });

  test("A3 an unread window is closed as missing only once the service has forgotten it", async () => {
    world = await openWorld();
    await world.seal([A], DAY, 0, {
      state: "refused",
      reason: "403 no entitlement",
      askedMs: null,
      sweeps: 0,
      apiCount: null,
      heldCount: null,
    });
    await world.closeAll();
    world.nowMs = Date.parse(DAY) + 90 * DAY_MS;
    await world.closeAll();
    expect(parts()).toEqual([]);
    world.nowMs = Date.parse(DAY) + 93 * DAY_MS;
    await world.closeAll();
    const [line] = await allLines();
    expect(line).toMatchObject({
      state: "missing",
      returned: null,
      missing: [{ from: `${DAY}T00:00:00.000Z`, reason: "refused: 403 no entitlement" }],
    });
    expect(world.archive.leaves().some((leaf) => leaf.kind === "gap" && leaf.organizations === 1)).toBe(true);
    const verification = await world.verify();
    expect(verification.findings).toEqual([]);
    expect(verification.gaps).toHaveLength(1);
  });

  test("A5 the journal keeps the bytes of a page until all its events are closed, and no longer", async () => {
    world = await openWorld();
    const next = "2026-03-11";
    const both = [
      eventText(1, { organization: A, timestamp: `${DAY}T10:00:00.000Z` }),
      eventText(2, { organization: A, timestamp: `${next}T10:00:00.000Z` }),
    ];
    await world.journal.append(pageOf(both, { organizations: [A], fetchedAtMs: world.nowMs }));
    const reader = await world.journal.reader("disk");
    await reader.commit(world.journal.end(), undefined);
    const space = createSpace(world.db, world.file, 1e9);
    const bodies = () => world.db.prepare("SELECT COUNT(*) FROM bodies").pluck().get();
    await world.seal([A], DAY, 1);
    await world.closeAll();
    await space.trim();
    expect(bodies()).toBe(1);
    await world.seal([A], next, 1);
    await world.closeAll();
    await space.trim();
    expect(bodies()).toBe(0);
    expect(world.state.backlog()).toMatchObject({ events: 0, pages: 0 });
    expect((await world.verify()).events).toBe(2);
  });

  test("A5 the memory of every page that was read is given back, also of one that is damaged", async () => {
    world = await openWorld();
    const texts = await world.events(A, DAY, 0, 20);
    await world.seal([A], DAY, 20);
    await world.closeAll();
    expect((await storedTexts()).sort()).toEqual(texts.sort());
    expect(world.pageMemory.heldBytes()).toBe(0);
    await world.events(A, DAY, 20, 20);
    const page = world.db.prepare("SELECT MAX(page) FROM bodies").pluck().get() as number;
    const body = world.db.prepare("SELECT body FROM bodies WHERE page = ?").pluck().get(page) as Buffer;
    body[body.length - 6]! ^= 1;
    world.db.prepare("UPDATE bodies SET body = ? WHERE page = ?").run(body, page);
    await expect(world.state.noteArrivals(10)).rejects.toThrow("does not match its checksum");
    expect(world.pageMemory.heldBytes()).toBe(0);
  });

  test("A5 several days are closed with one pass over their pages, within the number of events that fits", async () => {
    world = await openWorld({ eventsMax: 25 });
    const days = ["2026-03-08", "2026-03-09", DAY, "2026-03-11"];
    const mixed = days.flatMap((day, at) =>
      Array.from({ length: 10 }, (_, index) =>
        eventText(at * 10 + index, { organization: A, timestamp: `${day}T0${index}:00:00.000Z` }),
      ),
    );
    await world.journal.append(pageOf(mixed.toReversed(), { organizations: [A], fetchedAtMs: world.nowMs }));
    for (const day of days) await world.seal([A], day, 10);
    await world.closeAll();
    expect(parts().map(({ day, events }) => [day, events])).toEqual(days.map((day) => [day, 10]));
    // Two days fit into one pass, so two checkpoints cover the four days.
    expect(
      new Set(
        world.archive
          .leaves()
          .filter(isPart)
          .map((leaf) => leaf.size),
      ).size,
    ).toBe(2);
    if (zstdcat) expect(texts(parts()[0]!).trimEnd().split("}\n").length).toBe(10);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A6 events outside the possible time, or without one, go to an undated part that closes daily", async () => {
    world = await openWorld();
    const odd = [
      { timestamp: "1970-01-01T00:00:00.000Z" },
      { timestamp: "2031-01-01T00:00:00.000Z" },
      { timestamp: "yesterday" },
    ];
    for (const [number, fields] of odd.entries())
      await world.journal.append(
        pageOf([eventText(number, { organization: A, ...fields })], {
          organizations: [A],
          fetchedAtMs: world.nowMs,
        }),
      );
    await world.closeAll();
    expect(parts()).toEqual([]);
    world.nowMs += DAY_MS;
    await world.closeAll();
    expect(parts()).toMatchObject([{ kind: "undated", part: "undated-001", events: 3 }]);
    expect((await allLines())[0]).toMatchObject({ state: "addition", events: 3 });
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A7 what arrives for closed days goes into one addition for each day of arrival", async () => {
    world = await openWorld();
    for (const day of [DAY, "2026-03-11"]) {
      await world.events(A, day, 0, 3);
      await world.seal([A], day, 3);
    }
    await world.closeAll();
    await world.events(A, DAY, 100, 2);
    await world.events(A, "2026-03-11", 200, 1);
    await world.closeAll();
    expect(parts()).toHaveLength(2);
    world.nowMs += DAY_MS;
    await world.closeAll();
    expect(parts().slice(2)).toMatchObject([{ kind: "late", part: "late-001", events: 3, lines: 1 }]);
    const late = await Promise.all(
      parts().map(async (files) =>
        (await readEntries(world.store, files)).map((entry) => "line" in entry && entry.line.late),
      ),
    );
    expect(late).toEqual([[0], [0], [3]]);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A8 an organization that two accounts read is one line without an account in its path", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 4);
    await world.seal([A], DAY, 4);
    const stream = await world.journal.stream({
      account: "other",
      provider: null,
      organizations: [A],
      services: ["all"],
    });
    const fromMs = Date.parse(DAY);
    await world.journal.changeWindows({
      add: [
        newWindow(stream, fromMs, fromMs + DAY_MS, {
          state: "sealed",
          askedMs: fromMs + DAY_MS,
          sweeps: 3,
          apiCount: 4,
          heldCount: 4,
        }),
      ],
    });
    await world.closeAll();
    expect(await allLines()).toMatchObject([{ organization: A, accounts: ["acme", "other"], held: 4 }]);
    expect(parts()[0]!.data).not.toContain("acme");
  });

  test("A9 other bytes of a held event are archived as a further version, once, and sinks do not see them", async () => {
    world = await openWorld();
    const reader = await world.journal.reader("disk");
    const texts = await world.events(A, DAY, 0, 3);
    const [changed] = await world.events(A, DAY, 1, 1, { note: "edited" });
    await world.events(A, DAY, 1, 1, { note: "edited" });
    await world.seal([A], DAY, 3);
    await world.closeAll();
    const [line] = await allLines();
    expect(line).toMatchObject({ events: 4, held: 3, returned: 3, changed: 1, state: "complete" });
    expect(await storedTexts()).toEqual([texts[0], texts[1], changed, texts[2]]);
    expect((await world.verify()).findings).toEqual([]);
    expect(await readTexts(reader)).toEqual(texts);
  });

  test("A9 a version that appears after its day was closed goes into an addition", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 2);
    await world.seal([A], DAY, 2);
    await world.closeAll();
    const [changed] = await world.events(A, DAY, 1, 1, { note: "edited" });
    world.nowMs += 2 * DAY_MS;
    await world.closeAll();
    const line = (await allLines()).find(({ part }) => part === "late-001");
    expect(line).toMatchObject({ events: 1, changed: 1, state: "addition" });
    expect(await storedTexts()).toContain(changed);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A10 complete needs a second look, and a number that the service returned", async () => {
    world = await openWorld();
    for (const organization of [A, B, C]) await world.events(organization, DAY, 0, 2);
    await world.seal([A], DAY, 2, {}, 1);
    await world.seal([B], DAY, 3, { heldCount: 2 });
    await world.seal([C], DAY, 2);
    await world.closeAll();
    expect((await allLines()).map(({ state, check, returned }) => [state, check, returned])).toEqual([
      ["unchecked", null, 2],
      ["differs", "identities", null],
      ["complete", "identities", 2],
    ]);
  });

  test("A10 the service's count is in the line, is a second look where there is no other, and must agree", async () => {
    const asked: string[] = [];
    world = await openWorld({
      countsPerDay: 10,
      async count({ organization, services }, day) {
        asked.push(`${organization[0]} ${day} ${services?.join()}`);
        return organization === B ? 3 : 2;
      },
    });
    for (const organization of [A, B, C]) await world.events(organization, DAY, 0, 2);
    await world.seal([A], DAY, 2, {}, 1);
    await world.seal([B], DAY, 2);
    await world.seal([C], DAY, 2);
    await world.closeAll();
    expect(asked).toEqual([`a ${DAY} all`, `b ${DAY} all`, `c ${DAY} all`]);
    expect((await allLines()).map(({ state, check, counted }) => [state, check, counted])).toEqual([
      ["complete", "count", 2],
      ["differs", "identities", 3],
      ["complete", "identities", 2],
    ]);
    expect(differingOf(world.state)).toEqual([{ day: DAY, part: "001", lines: 1 }]);
    const { findings, differing } = await world.verify();
    expect(findings).toEqual([]);
    expect(differing).toEqual([{ day: DAY, organization: B, held: 2, returned: 2, counted: 3 }]);
  });

  test("A10 days are closed without a count where the service refuses it, or the day's number of counts is used up", async () => {
    let asked = 0;
    world = await openWorld({
      countsPerDay: 3,
      async count() {
        if (++asked === 1) throw new NoCountsError("429");
        return 2;
      },
    });
    const close = async (day: string) => {
      for (const organization of [A, B, C]) await world.events(organization, day, 0, 2);
      await world.seal([A, B, C], day, 6);
      await world.closeAll();
    };
    await close(DAY);
    const refused = asked;
    await close("2026-03-11");
    expect(asked).toBe(3);
    const counted = (await allLines()).flatMap((line) => line.counted ?? []);
    expect(counted.length).toBe(2);
    world.nowMs += DAY_MS;
    await close("2026-03-12");
    expect(asked).toBe(6);
    expect(refused).toBeLessThanOrEqual(3);
    expect((await allLines()).map(({ state }) => state)).toEqual(Array(9).fill("complete"));
  });

  test("A14 a slice with line breaks is stored exactly, and the manifest says where it is", async () => {
    world = await openWorld();
    const events = await world.events(A, DAY, 0, 3);
    expect(events[0]).toContain("\n");
    await world.seal([A], DAY, 3);
    await world.closeAll();
    const [line] = await allLines();
    expect(line!.breaks).toHaveLength(3);
    if (zstdcat) {
      const raw = Buffer.from(texts(parts()[0]!));
      expect(line!.breaks.map(([, offset, length]) => raw.toString("utf8", offset, offset + length))).toEqual(
        events,
      );
    }
  });

  test("A22 a file holds one retention class", async () => {
    world = await openWorld({ classOf: ({ organization }) => (organization === A ? "pci" : "default") });
    await world.seal([A, B, C], DAY, 0);
    await world.closeAll();
    expect(parts().map(({ class: name, lines }) => [name, lines])).toEqual([
      ["pci", 1],
      ["default", 2],
    ]);
    expect((await world.verify()).findings).toEqual([]);
  });
});

test("A4 days close while a backfill goes on: windows that are unread hold up only their own days", async () => {
  world = await openWorld();
  const unread = { state: "unread", askedMs: null, sweeps: 0, apiCount: null, heldCount: null } as const;
  const days = Array.from({ length: 14 }, (_, at) => `2026-03-${String(at + 1).padStart(2, "0")}`);
  for (const day of days) await world.seal([A, B], day, 0, unread, 0);
  for (const [at, day] of days.entries()) {
    await world.events(A, day, at * 10, 5);
    world.db
      .prepare(
        "UPDATE windows SET state = 'sealed', asked_ms = ?, sweeps = 3, looks = 2, api_count = 5, held_count = 5 WHERE from_ms = ?",
      )
      .run(world.nowMs - 3 * DAY_MS, Date.parse(day));
    await world.closeAll();
    expect(parts().map((leaf) => leaf.day)).toEqual(days.slice(0, at + 1));
    expect(world.state.backlog().events).toBe(0);
  }
});

describe("A4 staging", () => {
  test("pages that only the archive holds move to files, survive a restart, and go when they are closed", async () => {
    world = await openWorld();
    const events = await world.events(A, DAY, 0, 20);
    await world.archive.closeStep(new AbortController().signal);
    const reader = await world.journal.reader("disk");
    await world.events(B, "2026-03-29", 0, 1);
    await reader.commit(world.journal.end(), undefined);
    expect(await world.state.stage(10)).toBe(false);
    expect(world.db.prepare("SELECT page FROM bodies").pluck().all()).toEqual([2]);
    expect(existsSync(join(world.folder, "staging", "1.page"))).toBe(true);
    await world.restart();
    await world.seal([A], DAY, 20);
    await world.closeAll();
    if (zstdcat) expect(texts(parts()[0]!)).toBe(events.map((text) => `${text}\n`).join(""));
    expect(existsSync(join(world.folder, "staging", "1.page"))).toBe(false);
    expect((await world.verify()).findings).toEqual([]);
  });
});

describe("A12 crashes", () => {
  test("a part that was built and half published is published with the same bytes after a restart", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 10);
    await world.seal([A], DAY, 10);
    const step = () => world.archive.closeStep(new AbortController().signal);
    while (world.state.plans()[0]?.built === undefined) await step();
    const { files, dataFile } = world.state.plans()[0]!.built as { files: PartLeaf; dataFile: string };
    await world.store.create(files.data, {
      file: dataFile,
      length: files.data_bytes,
      sha256: files.data_sha256,
    });
    expect(existsSync(dataFile)).toBe(false);
    await world.restart();
    await world.closeAll();
    expect(parts()[0]).toMatchObject({ data_sha256: files.data_sha256 });
    expect((await world.verify()).findings).toEqual([]);
  });

  test("somebody else's file under the name of a part is never overwritten", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 10);
    await world.seal([A], DAY, 10);
    while (world.state.plans()[0]?.built === undefined)
      await world.archive.closeStep(new AbortController().signal);
    const { files } = world.state.plans()[0]!.built as { files: PartLeaf };
    await world.store.create(files.data, { bytes: Buffer.from("somebody else's") });
    await expect(world.closeAll()).rejects.toThrow("other content");
    expect((await world.store.read(files.data))!.toString()).toBe("somebody else's");
  });
});

describe("A19 one history", () => {
  test("a store that another process has written to stops the archive before it signs", async () => {
    world = await openWorld();
    await world.seal([A], DAY, 0);
    await world.closeAll();
    const checkpoint = (await world.store.read("log/checkpoint"))!;
    world.db.exec(
      "DELETE FROM archive_entries WHERE number >= 2; UPDATE archives SET size = 2, checkpoint = 'older'",
    );
    await world.seal([B], DAY, 0);
    await expect(world.closeAll()).rejects.toThrow(/ahead of this state/);
    expect((await world.store.read("log/checkpoint"))!.equals(checkpoint)).toBe(true);
  });

  test("an existing numbered checkpoint with other bytes is a fork", async () => {
    world = await openWorld();
    await world.seal([A], DAY, 0);
    const size = world.archive.leaves().length + 1;
    await world.store.create(`log/checkpoint.${size}`, { bytes: Buffer.from("another history\n") });
    await expect(world.closeAll()).rejects.toThrow("another process writes to this log");
  });

  test("a new state never starts a second history in a place that holds one, nor with another key", async () => {
    world = await openWorld();
    world.db.exec("DELETE FROM archives; DELETE FROM archive_entries");
    await expect(world.restart()).rejects.toThrow("Nothing was");
  });

  test("a place that was emptied is noticed", async () => {
    world = await openWorld();
    await world.store.remove("log/checkpoint");
    await expect(world.restart()).rejects.toThrow("has no log/checkpoint");
  });

  test("somebody else's files in an empty place are noticed before the first entry", async () => {
    world = await openWorld();
    world.db.exec("DELETE FROM archives; DELETE FROM archive_entries");
    await world.store.remove("log/checkpoint");
    await expect(world.restart()).rejects.toThrow("is not empty");
    writeFileSync(join(world.folder, "x"), "");
  });
});
