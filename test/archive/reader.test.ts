import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { checkProof } from "../../src/archive/evidence/prove.ts";
import { createArchiveReader } from "../../src/archive/evidence/reader.ts";
import { parseVerifier } from "../../src/archive/log/note.ts";
import type { EventPlace } from "../../src/core/archive-reader.ts";
import { A, B, DAY, never, openWorld, type World } from "./world.ts";

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.end());

async function placesOf(reader: ReturnType<typeof createArchiveReader>) {
  const found: { organization: string; text: string; place: EventPlace }[] = [];
  for (const part of await reader.parts())
    for (const line of await reader.lines(part))
      for await (const { place, bytes } of reader.events(part, line))
        found.push({ organization: line.organization, text: bytes.toString(), place });
  return found;
}

describe("the archive's reader", () => {
  test("lists parts, lines and events, and reads each event by its place alone", async () => {
    const texts = [...(await world.events(B, DAY, 0, 3)), ...(await world.events(A, DAY, 10, 4))];
    // A second frame: more than the 1 MB that one holds.
    const wide = await world.events(A, DAY, 100, 30, { detail: "x".repeat(50_000) } as never);
    await world.seal([A, B], DAY, 37);
    await world.closeAll();
    const reader = createArchiveReader(world.store);
    const parts = await reader.parts();
    expect(parts).toMatchObject([{ kind: "day", day: DAY, part: "001", lines: 2, events: 37 }]);
    expect(await reader.lines(parts[0]!)).toMatchObject([
      { number: 0, organization: A, events: 34, state: "complete" },
      { number: 1, organization: B, events: 3 },
    ]);
    const found = await placesOf(reader);
    expect(found.map(({ text }) => text).sort()).toEqual([...texts, ...wide].sort());
    expect(new Set(found.map(({ place }) => place.frameFrom)).size).toBeGreaterThan(2);
    const fresh = createArchiveReader(world.store);
    for (const { place, text } of found) expect((await fresh.read(place))?.toString()).toBe(text);
  });

  test("proves the event at a place", async () => {
    await world.events(A, DAY, 0, 5);
    await world.events(B, DAY, 10, 5);
    await world.seal([A, B], DAY, 10);
    await world.closeAll();
    const reader = createArchiveReader(world.store);
    for (const { place, text, organization } of await placesOf(reader)) {
      const { event, line } = checkProof(await reader.prove(place), parseVerifier(world.key));
      expect(event?.toString()).toBe(text);
      expect(line.organization).toBe(organization);
    }
  });

  test("a place in a part that was rewritten since gives nothing wrong", async () => {
    const [first] = await world.events(A, DAY, 0, 3);
    await world.events(B, DAY, 10, 3);
    await world.seal([A, B], DAY, 6);
    await world.closeAll();
    const reader = createArchiveReader(world.store);
    const before = await placesOf(reader);
    const [part] = await reader.parts();
    const deletions = createDeletions({
      ...world,
      archive: world.archive,
      store: world.store,
      state: world.state,
      clock: { now: () => world.nowMs, sleep: async () => {} },
      config: { keep: "7y", classes: [] },
      workFolder: `${world.folder}/deletions`,
    });
    const { id } = JSON.parse(first!) as { id: string };
    await deletions.erase({ organization: A, event: id, from: null, to: null, reason: "request" }, never);
    const [now] = await reader.parts();
    expect(now!.sha256).not.toBe(part!.sha256);
    const after = await placesOf(reader);
    expect(after.map(({ text }) => text)).toEqual(before.slice(1).map(({ text }) => text));
    expect((await reader.read(before[0]!.place))?.toString()).not.toBe(first);
  });
});
