import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDeletions, type Deletions } from "../../src/archive/deletion/deletion.ts";
import { dueOrders } from "../../src/archive/deletion/due.ts";
import { LOCKED_FILE, signLocked } from "../../src/archive/log/locked.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { type ArchiveStore, LockedFileError } from "../../src/archive/store/store.ts";
import { systemClock } from "../../src/core/clock.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { A, B, DAY, never, ORIGIN, openWorld, type World } from "./world.ts";

const signer = parseSigner(newSignerText(ORIGIN));
let world: World;
let untilMs: number;

/** Refuses to remove data files and manifests until the lock ends, as Object Lock does. */
function locking(store: ArchiveStore): ArchiveStore {
  return {
    ...store,
    async remove(path) {
      if (/^(events|manifests)\//.test(path) && world.nowMs < untilMs)
        throw new LockedFileError(store.place, path, untilMs);
      await store.remove(path);
    },
  };
}

function deletions(): Deletions {
  const { archive, store, state } = world;
  return createDeletions({
    ...{ archive, store, state, config: { keep: "400d", classes: [] } },
    clock: { now: () => world.nowMs, sleep: systemClock.sleep },
    workFolder: join(world.folder, "deleting"),
  });
}

beforeEach(async () => {
  world = await openWorld({ signer, openStore: async (folder) => locking(await openDirectory(folder)) });
  untilMs = world.nowMs + 30 * DAY_MS;
  await world.events(A, DAY, 0, 4);
  await world.events(B, DAY, 10, 4);
  await world.seal([A, B], DAY, 8);
  await world.closeAll();
  await deletions().erase({ organization: B, from: null, to: null, reason: "contract ended" }, never);
});
afterEach(() => world.end());

test("A24 erased files that the store locks are named by verify, and are a finding a day after the lock", async () => {
  expect(await world.verify()).toMatchObject({ findings: [], isValid: true, events: 4 });
  expect((await world.verify()).locked).toEqual(dueOrders(world.state));
  expect(dueOrders(world.state)).toHaveLength(2);
  const late = await world.verify({ nowMs: untilMs + DAY_MS + 1 });
  expect(late.locked).toEqual([]);
  expect(late.findings.map(({ message }) => message)).toEqual(
    Array(2).fill(expect.stringMatching(/^UNEXPECTED: its lock ended at .* run `tidemark archive prune`$/)),
  );
});

test("A24 the files and the note about them go when the lock has ended", async () => {
  expect(await deletions().removeUnlocked()).toBe(0);
  world.nowMs = untilMs;
  expect(await deletions().removeUnlocked()).toBe(2);
  expect(await world.verify()).toMatchObject({ findings: [], locked: [] });
  expect(await world.store.read(LOCKED_FILE)).toBeUndefined();
  expect(dueOrders(world.state)).toEqual([]);
});

test("A24 a note that was lost or is older is written again at the next start, also with a new key", async () => {
  await world.store.remove(LOCKED_FILE);
  expect((await world.verify()).findings).toHaveLength(2);
  await deletions().finish(never);
  expect((await world.verify()).findings).toEqual([]);
  const next = parseSigner(newSignerText(ORIGIN));
  await world.restart({ signer: next, previousSigner: signer });
  // Somebody who has the old key cannot explain files with it.
  expect((await world.verify()).findings.map(({ check }) => check)).toEqual(
    Array(2).fill("unexpected files"),
  );
  await deletions().finish(never);
  expect((await world.verify()).findings).toEqual([]);
});

test("A24 a note of somebody else explains nothing and is a finding, as is a foreign file beside a right one", async () => {
  const right = (await world.store.read(LOCKED_FILE))!;
  const files = dueOrders(world.state);
  const stranger = parseSigner(newSignerText(ORIGIN));
  const forgeries = [
    signLocked({ origin: ORIGIN, files }, [stranger]),
    signLocked({ origin: "example.com/other", files }, [signer]),
    right.toString().replace("events/", "events/x/"),
    "nonsense",
  ];
  for (const forged of forgeries) {
    await world.store.replace(LOCKED_FILE, Buffer.from(forged));
    const { findings, locked } = await world.verify();
    expect(locked).toEqual([]);
    expect(findings.map(({ subject }) => subject).sort()).toEqual(
      [LOCKED_FILE, ...files.map(({ path }) => path)].sort(),
    );
  }
  await world.store.replace(LOCKED_FILE, right);
  await world.store.replace("events/2026/03/planted.jsonl.zst", Buffer.from("x"));
  expect((await world.verify()).findings).toMatchObject([{ subject: "events/2026/03/planted.jsonl.zst" }]);
});
