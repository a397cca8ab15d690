import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { guardedStore } from "../../src/app/cluster/lane-archive.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { signerOf } from "../../src/archive/open.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { A, B, DAY, never, openWorld, type World } from "../archive/world.ts";

let world: World;
afterEach(() => world?.end());

async function builtPlan(): Promise<{ readonly files: { readonly data_sha256: string } }> {
  await world.events(A, DAY, 0, 10);
  await world.seal([A], DAY, 10);
  while (world.state.plans()[0]?.built === undefined) await world.archive.closeStep(never);
  return world.state.plans()[0]!.built as never;
}

/** Two days are closed after each other; gives the checkpoint in between. */
async function closeTwice(): Promise<Buffer> {
  world = await openWorld();
  await builtPlan();
  await world.closeAll();
  const between = (await world.store.read("log/checkpoint"))!;
  await world.events(B, DAY, 20, 3);
  await world.seal([B], DAY, 3);
  await world.closeAll();
  return between;
}

test("C10 a part that another machine has built is built again, with the same bytes, where its files are missing", async () => {
  world = await openWorld();
  const { files } = await builtPlan();
  rmSync(join(world.storeFolder, ".work"), { recursive: true });
  await world.restart();
  await world.closeAll();
  const [leaf] = world.archive.leaves().filter(({ kind }) => kind === "day");
  expect(leaf).toMatchObject({ data_sha256: files.data_sha256 });
  expect((await world.verify()).findings).toEqual([]);
});

test("C10 a part that another machine has published and not logged is logged without its local files", async () => {
  world = await openWorld();
  await builtPlan();
  const { store } = world;
  const unsigned = { ...store, create: store.create.bind(store) };
  const create = unsigned.create;
  unsigned.create = async (path, content) => {
    if (path.startsWith("log/")) throw new Error("The machine is dead.");
    await create(path, content);
  };
  Object.assign(store, unsigned);
  await expect(world.archive.closeStep(never)).rejects.toThrow("dead");
  rmSync(join(world.storeFolder, ".work"), { recursive: true });
  await world.restart();
  await world.closeAll();
  expect(await world.verify()).toMatchObject({ isValid: true, findings: [], events: 10 });
});

test("C9 a suspended machine that puts log/checkpoint back to an older one does no harm: it is replaced", async () => {
  const older = await closeTwice();
  const newer = (await world.store.read("log/checkpoint"))!;
  expect(newer.equals(older)).toBe(false);
  await world.store.replace("log/checkpoint", older);
  await world.restart();
  expect((await world.store.read("log/checkpoint"))!.toString()).toBe(newer.toString());
  expect(await world.verify()).toMatchObject({ isValid: true, events: 13 });
});

test("a store that was rolled back as a whole still stops the archive", async () => {
  const older = await closeTwice();
  const { size } = world.state.head()!;
  rmSync(join(world.storeFolder, "log", `checkpoint.${size}`));
  writeFileSync(join(world.storeFolder, "log", "checkpoint"), older);
  await expect(world.restart()).rejects.toThrow("is behind this state");
});

test("C9 a lane writes nothing to its archive's store unless the lane is known to be ours", async () => {
  world = await openWorld();
  const store = guardedStore(await openDirectory(world.storeFolder), () => {
    throw new Error("Not ours.");
  });
  const bytes = Buffer.from("x");
  await expect(store.create("events/x", { bytes })).rejects.toThrow("Not ours.");
  await expect(store.replace("log/checkpoint", bytes)).rejects.toThrow("Not ours.");
  await expect(store.remove("log/checkpoint")).rejects.toThrow("Not ours.");
  expect(await store.read("events/x")).toBeUndefined();
});

test("one key signs for the archives of all lanes, under the name of each", () => {
  const text = newSignerText("example.com/audit");
  const lane = signerOf({ origin: "example.com/audit/lane-3" }, text);
  expect(lane.verifier.name).toBe("example.com/audit/lane-3");
  expect(lane.verifier.id).not.toBe(parseSigner(text).verifier.id);
  expect(() => signerOf({ origin: "example.com/auditing" }, text)).toThrow("example.com/audit");
  expect(() => signerOf({ origin: "example.com" }, text)).toThrow("cannot be used");
});
