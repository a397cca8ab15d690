// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { signCheckpoint } from "../../src/archive/log/checkpoint.ts";
import type { LeafBody } from "../../src/archive/log/leaf.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { leafHash } from "../../src/archive/log/tree.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { type VerifyOptions, verifyArchive } from "../../src/archive/verify/verify.ts";
import { rebuildLog } from "./forge.ts";
import { A, B, DAY, ORIGIN, openWorld, type World } from "./world.ts";

/*
 * An archive with two parts, three checkpoints and few bytes. Every one of them is changed in turn, and `verify`
 * must name the file, given the checkpoint that an auditor kept.
 */
let world: World;
let folder: string;
let files: string[];
let kept: Buffer;
const signer = parseSigner(newSignerText(ORIGIN));

beforeAll(async () => {
  world = await openWorld({ signer });
  await world.events(A, DAY, 0, 1);
  await world.seal([A, B], DAY, 1);
  await world.closeAll();
  kept = readFileSync(join(world.storeFolder, "log/checkpoint"));
  await world.seal([A], "2026-03-11", 0);
  await world.closeAll();
  folder = world.storeFolder;
  rmSync(join(folder, ".work"), { recursive: true });
  files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    statSync(join(folder, path)).isFile(),
  );
});
afterAll(() => world.end());

async function verify(options: Partial<VerifyOptions> = {}, place = folder) {
  const store = await openDirectory(place);
  return verifyArchive(store, { key: signer.verifier, since: kept, nowMs: world.nowMs, ...options });
}

/** A copy of the archive with a log over other entries. */
function forged(
  name: string,
  change: (bodies: LeafBody[]) => LeafBody[],
  by = signer,
  batches?: readonly number[],
): string {
  const place = join(world.folder, name);
  cpSync(folder, place, { recursive: true });
  rebuildLog(place, change, { by, batches, timeMs: world.nowMs });
  return place;
}

/** Changes a file, verifies, and puts it back; gives what was named. */
async function named(
  path: string,
  change: (bytes: Buffer) => Buffer | undefined,
  options: Partial<VerifyOptions> = {},
): Promise<string> {
  const target = join(folder, path);
  const bytes = readFileSync(target);
  const changed = change(Buffer.from(bytes));
  if (changed === undefined) rmSync(target);
  else writeFileSync(target, changed);
  try {
    return (await verify(options)).findings.map(({ subject }) => subject).join("\n");
  } finally {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, bytes);
  }
}

/** A changed bundle is named by the first entry that does not fit, or by its path. */
function names(found: string, path: string): boolean {
  return (
    found.includes(path) || (path.startsWith("log/tile/entries/") && /log entr|log\/checkpoint/.test(found))
  );
}

/** Without its newest checkpoint or its entries an archive has no log, and the second file may go unnamed. */
function hides(...paths: readonly string[]): boolean {
  return paths.some((path) => path === "log/checkpoint" || path.startsWith("log/tile/entries/"));
}

describe("verify names the damage", () => {
  test("the archive is small and whole", async () => {
    expect((await verify()).findings).toEqual([]);
    expect(files.length).toBeGreaterThan(15);
  });

  test("every byte of every file, flipped in turn", async () => {
    const contents = new Map(files.map((path) => [path, readFileSync(join(folder, path))]));
    const store = inMemory(contents);
    const missed: string[] = [];
    let flips = 0;
    for (const path of files) {
      const bytes = contents.get(path)!;
      for (let at = 0; at < bytes.length; at++) {
        bytes[at]! ^= 1 << (at % 8);
        const { findings } = await verifyArchive(store, {
          key: signer.verifier,
          since: kept,
          nowMs: world.nowMs,
        });
        bytes[at]! ^= 1 << (at % 8);
        flips++;
        const found = findings.map(({ subject }) => subject).join("\n");
        if (!names(found, path)) missed.push(`${path} byte ${at}: ${found}`);
      }
    }
    expect(missed).toEqual([]);
    expect(flips).toBeGreaterThan(5000);
  }, 600_000);

  test("every file removed, emptied, truncated, appended to", async () => {
    for (const path of files) {
      for (const change of [
        () => undefined,
        () => Buffer.alloc(0),
        (bytes: Buffer) => bytes.subarray(0, -1),
        (bytes: Buffer) => Buffer.concat([bytes, Buffer.from("x")]),
        (bytes: Buffer) => Buffer.concat([bytes, bytes]),
      ])
        expect(names(await named(path, change), path), path).toBe(true);
    }
  });

  test("every two files swapped: both are named", async () => {
    const contents = new Map(files.map((path) => [path, readFileSync(join(folder, path))]));
    const store = inMemory(contents);
    const missed: string[] = [];
    let swaps = 0;
    for (const [index, one] of files.entries())
      for (const other of files.slice(index + 1)) {
        const [a, b] = [contents.get(one)!, contents.get(other)!];
        if (a.equals(b)) continue;
        contents.set(one, b).set(other, a);
        const found = await verifyArchive(store, { key: signer.verifier, since: kept, nowMs: world.nowMs });
        contents.set(one, a).set(other, b);
        swaps++;
        const subjects = found.findings.map(({ subject }) => subject).join("\n");
        for (const path of [one, other])
          if (!names(subjects, path) && !hides(one, other)) missed.push(`${one} with ${other}: ${subjects}`);
      }
    expect(missed).toEqual([]);
    expect(swaps).toBeGreaterThan(100);
  });

  test("a file duplicated under another name is a file that nothing explains", async () => {
    for (const path of files) {
      const copy = join(folder, `${path}.copy`);
      cpSync(join(folder, path), copy);
      const found = await verify();
      rmSync(copy);
      expect(
        found.findings.map(({ subject }) => subject),
        path,
      ).toContain(`${path}.copy`);
    }
  });

  test("a stale archive, a foreign checkpoint, and an archive that another key signed", async () => {
    const stale = join(world.folder, "stale");
    cpSync(folder, stale, { recursive: true });
    const newest = readFileSync(join(folder, "log/checkpoint"));
    writeFileSync(join(stale, "log/checkpoint"), kept);
    expect(
      (await verify({ since: newest }, stale)).findings.some(({ message }) => message.includes("was cut")),
    ).toBe(true);
    const foreign = parseSigner(newSignerText(ORIGIN));
    const forged = signCheckpoint({ origin: ORIGIN, size: 5, root: leafHash() }, [foreign]);
    writeFileSync(join(stale, "log/checkpoint"), forged);
    expect((await verify({}, stale)).isValid).toBe(false);
    expect((await verify({ key: foreign.verifier })).findings[0]!.message).toContain("never signed");
  });

  test("a leaf removed and the tree rebuilt and signed again: the kept checkpoint shows it", async () => {
    const place = forged("removed", (bodies) => bodies.filter((_, index) => index !== 2));
    const found = (await verify({}, place)).findings.filter(({ check }) => check === "earlier checkpoint");
    expect(found).toMatchObject([{ subject: "log entries 0 to 2" }]);
    expect((await verify({ since: undefined, disabled: ["unexpected files"] }, place)).findings).toEqual([]);
  });

  test("A20 a forged log that names the pinned key and then introduces its own is rejected", async () => {
    const own = parseSigner(newSignerText(ORIGIN));
    const forge = (leaves: LeafBody[]): LeafBody[] => [
      leaves[0]!,
      { kind: "key", key: own.verifier.text, previous: signer.verifier.text },
      ...leaves.slice(1),
    ];
    for (const batches of [[1, 2, 5], [2, 5], [5]]) {
      const place = forged(`forged-${batches.length}`, forge, own, batches);
      expect(
        (await verify({ since: undefined, disabled: ["unexpected files"] }, place)).isValid,
        `${batches}`,
      ).toBe(false);
    }
  });
});

/** The same bytes without a disk: thousands of verifications take their time. */
function inMemory(contents: ReadonlyMap<string, Buffer>): ArchiveStore {
  const refuse = () => Promise.reject(new Error("read only"));
  return {
    place: "memory",
    workFolder: undefined,
    create: refuse,
    replace: refuse,
    remove: refuse,
    async read(path, range) {
      const bytes = contents.get(path);
      return range === undefined ? bytes : bytes?.subarray(range.from, range.from + range.length);
    },
    async stat(path) {
      const bytes = contents.get(path);
      return bytes && { path, bytes: bytes.length };
    },
    async *list(prefix) {
      for (const [path, { length }] of contents) if (path.startsWith(prefix)) yield { path, bytes: length };
    },
    close: async () => {},
  };
}
