// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { parquetReadObjects } from "hyparquet";
import { describe, expect, test } from "vitest";
import { decompress } from "zstd-napi";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import { comparePositions } from "../../src/core/position.ts";
import type { Sink } from "../../src/core/sink.ts";
import type { FileSystem } from "../../src/sinks/file/system.ts";
import { type Committed, nothingCommitted } from "../contract/drive.ts";
import { makeEvents, positionAfter, rawFormat } from "../support/events.ts";
import { crashing, createDisk, type Disk } from "./file-disk.ts";
import { contentOf, openFile, put } from "./file-support.ts";

const DIRECTORY = "/data/events";
const BATCH_EVENTS = 4;
const EVENTS = makeEvents(32);

/** The disk and the journal's commits survive. */
interface World {
  disk: Disk;
  committed: Committed;
}

/** Delivers what is left, as delivery does; `tick` runs before each commit of a position. */
async function deliver(world: World, shape: Shape, system: FileSystem, tick = () => {}): Promise<void> {
  const controller = new AbortController();
  let sink: Sink | undefined;
  try {
    sink = await openFile(DIRECTORY, shape.config, {
      ...(shape.format && { format: shape.format }),
      committed: world.committed,
      system,
      signal: controller.signal,
    });
    const from = sink.position ?? world.committed.position;
    const rest = EVENTS.filter((event) => comparePositions(positionAfter(event), from) > 0);
    for (let at = 0; at < rest.length; at += BATCH_EVENTS) {
      const committed = await put(sink, rest.slice(at, at + BATCH_EVENTS), shape.format);
      tick();
      world.committed = committed;
    }
    await sink.close();
  } catch (error) {
    controller.abort();
    await sink?.close();
    throw error;
  }
}

/** Runs until the crash; true if it came. */
async function deliverUntilCrash(world: World, shape: Shape, callsMax: number): Promise<boolean> {
  const { system, tick, isDead } = crashing(world.disk, callsMax);
  try {
    await deliver(world, shape, system, tick);
    return isDead();
  } catch (error) {
    if (!isDead()) throw error;
    return true;
  }
}

/** Opens the sink so late that every file is finished at once, and closes it; the events that it holds. */
async function openOnly(world: World, shape: Shape): Promise<JournalEvent[]> {
  const nowMs = Date.now() + 3 * 86_400_000;
  const { committed, disk: system } = world;
  const format = shape.format && { format: shape.format };
  const sink = await openFile(DIRECTORY, shape.config, { ...format, committed, system, nowMs });
  await sink.close();
  return EVENTS.filter(
    (event) => sink.position !== undefined && comparePositions(positionAfter(event), sink.position) <= 0,
  );
}

/** Every line once, in order within its path, and nothing else. */
async function expectExact(disk: Disk, events: readonly JournalEvent[], shape: Shape): Promise<void> {
  const groupOf = shape.group;
  const found = new Map<string, string[]>();
  const files = [...disk.files()].filter(([path]) => !path.includes("/.tidemark/"));
  const numbered = files.map(([path, content]) => {
    const match = /^\/data\/events\/(.*)\.(\d{8})\.(jsonl|jsonl\.gz|jsonl\.zst|ocsf|parquet)$/.exec(path);
    if (match === null) throw new Error(`${path} is left over`);
    return { group: match[1]!, number: Number(match[2]), kind: match[3]!, content };
  });
  for (const { group, kind, content } of numbered.toSorted((a, b) => a.number - b.number)) {
    const lines = kind === "parquet" ? await parquetLines(content) : linesOf(kind, content);
    found.set(group, [...(found.get(group) ?? []), ...lines]);
  }
  const expected = new Map<string, JournalEvent[]>();
  for (const event of events) {
    expected.set(groupOf(event), [...(expected.get(groupOf(event)) ?? []), event]);
  }
  expect([...found.keys()].toSorted()).toEqual([...expected.keys()].toSorted());
  for (const [group, members] of expected) {
    const lines = members.map((event) => Buffer.from(event.bytes).toString());
    expect(found.get(group)).toEqual(shape.format ? lines.map(asParsed) : lines);
  }
}

function linesOf(kind: string, content: Buffer): string[] {
  const lines = contentOf(kind, content).toString().split("\n");
  expect(lines.pop()).toBe("");
  return kind === "ocsf" ? lines.map(asParsed) : lines;
}

/** Raw events have no columns of OCSF, so all of them is in `unmapped`. */
async function parquetLines(content: Buffer): Promise<string[]> {
  const { buffer, byteOffset, byteLength } = content;
  const file = buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
  const compressors = { ZSTD: (bytes: Uint8Array) => new Uint8Array(decompress(bytes)) };
  const rows = await parquetReadObjects({ file, columns: ["unmapped"], compressors });
  return rows.map(({ unmapped }) => asParsed(String(unmapped)));
}

function asParsed(line: string): string {
  return JSON.stringify(JSON.parse(line));
}

/** The same numbers for the same seed. */
function coin(seed: number): () => boolean {
  let state = seed * 2_654_435_761 + 1;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) & 64) !== 0;
  };
}

interface Shape {
  readonly name: string;
  readonly config: object;
  readonly group: (event: JournalEvent) => string;
  readonly callsMin: number;
  readonly format?: Format;
  /** Every so many calls; all of them where it is left out. */
  readonly step?: number;
}

const SHAPES: readonly Shape[] = [
  {
    name: "files that become Parquet when finished",
    config: { path: "all", rotateSize: 3000 },
    group: () => "all",
    callsMin: 8,
    format: { ...rawFormat, name: "parquet", container: "parquet" },
    step: 8,
  },
  { name: "one growing file", config: { path: "all" }, group: () => "all", callsMin: 40 },
  {
    name: "many files that are compressed when finished",
    config: { path: "{organization}/x", rotateSize: 1000, gzip: true },
    group: (event: JournalEvent) => `${event.organization}/x`,
    callsMin: 50,
    step: 3,
  },
  ...(["zstd", "gzip"] as const).map((compress) => ({
    name: `many files that are compressed with ${compress} while they are written`,
    config: { path: "{organization}/x", rotateSize: 1000, compress },
    group: (event: JournalEvent) => `${event.organization}/x`,
    callsMin: 25,
    step: 3,
  })),
  {
    name: "many files that stay plain",
    config: { path: "{organization}/x", rotateSize: 1000 },
    group: (event: JournalEvent) => `${event.organization}/x`,
    callsMin: 100,
  },
];

const CUTS: readonly { name: string; kept: (seed: number) => () => boolean }[] = [
  { name: "the process is killed", kept: () => () => true },
  { name: "the power is cut and nothing unsynced survives", kept: () => () => false },
  { name: "the power is cut and chance decides what survives", kept: coin },
];

describe.each(SHAPES)("R23 $name", (shape) => {
  const { callsMin, step = 1 } = shape;
  test.each(CUTS.map((cut, first) => ({ ...cut, first })))(
    "is exact whichever call is the last before $name",
    { timeout: 600_000 },
    async ({ kept, first }) => {
      let crashes = 0;
      // Each kind of crash begins with another call, so that together they are at every call.
      for (let call = 1 + (first % step); ; call += step) {
        const world: World = { disk: createDisk(), committed: nothingCommitted };
        const crashed = await deliverUntilCrash(world, shape, call);
        if (!crashed) break;
        crashes++;
        world.disk = world.disk.powerCut(kept(call));
        // A second crash, while the first is being repaired or soon after.
        await deliverUntilCrash(world, shape, 1 + ((call * 7) % 40));
        const held = await openOnly(world, shape);
        world.disk = world.disk.powerCut(kept(call + 1));
        await expectExact(world.disk, held, shape);
        await deliver(world, shape, world.disk);
        await expectExact(world.disk, EVENTS, shape);
      }
      expect(crashes).toBeGreaterThan(callsMin);
    },
  );
});
