import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { checkProof, proveEvent } from "../../src/archive/evidence/prove.ts";
import { readEntries } from "../../src/archive/evidence/read.ts";
import { reconcileArchive } from "../../src/archive/evidence/reconcile.ts";
import { filesNamedBy } from "../../src/archive/log/leaf.ts";
import { parseVerifier } from "../../src/archive/log/note.ts";
import { openRange } from "../../src/archive/part/range.ts";
import { systemClock } from "../../src/core/clock.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { createCompressor } from "../../src/core/zstd.ts";
import { skipUnless } from "../support/components.ts";
import { findPython, PYTHON_REMEDY } from "../support/tessera.ts";
import { identitiesHash, publicIdentityOf } from "./public-identity.ts";
import { A, B, C, DAY, never, openWorld, type World } from "./world.ts";

let world: World;
afterEach(() => (world as World | undefined)?.end());

const python = await findPython();
const skipsPython = skipUnless("python", python, PYTHON_REMEDY);
const SCRIPT = join(import.meta.dirname, "verify.py");

function runPython(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(python!, [SCRIPT, ...args], { encoding: "utf8" });
  return { status, text: stdout + stderr };
}

async function small(): Promise<World> {
  const made = await openWorld();
  await made.events(A, DAY, 0, 6);
  await made.events(B, DAY, 10, 3);
  await made.seal([A, B, C], DAY, 9);
  await made.closeAll();
  await made.events(A, "2026-03-11", 0, 4);
  await made.seal([A], "2026-03-11", 4);
  await made.closeAll();
  return made;
}

/** The identities of the first organization's first day, computed from the stored bytes. */
async function identitiesOfA(): Promise<string[]> {
  const leaf = world.archive.leaves().find((one) => one.kind === "day")!;
  const [entry] = await readEntries(world.store, leaf);
  if (!("line" in entry!)) throw new Error("no line");
  const identities = new Set<string>();
  for await (const { slice } of (await openRange(world.store, leaf.data, entry.line)).slices())
    identities.add(publicIdentityOf(A, slice!));
  return [...identities];
}

describe("a stranger's verifier", () => {
  test("has at most 150 lines", () => {
    expect(
      readFileSync(SCRIPT, "utf8")
        .split("\n")
        .filter((line) => line.trim() !== "").length,
    ).toBeLessThanOrEqual(150);
  });

  test.skipIf(skipsPython)(
    "accepts a whole archive, also from a kept checkpoint, and rejects a changed one",
    async () => {
      world = await small();
      expect(runPython(world.storeFolder, world.key)).toMatchObject({
        status: 0,
        text: "VALID: 2 parts, 13 events\n",
      });
      const kept = join(world.folder, "kept");
      writeFileSync(kept, readFileSync(join(world.storeFolder, "log/checkpoint.2")));
      expect(runPython(world.storeFolder, world.key, kept)).toMatchObject({ status: 0 });
      const data = join(
        world.storeFolder,
        world.archive.leaves().flatMap((leaf) => ("data" in leaf ? [leaf.data] : []))[0]!,
      );
      const bytes = readFileSync(data);
      bytes[100]! ^= 1;
      writeFileSync(data, bytes);
      expect(runPython(world.storeFolder, world.key).text).toContain("another hash");
    },
  );

  test.skipIf(skipsPython)("A18 accepts an erased wording of a case, and rejects a changed one", async () => {
    world = await small();
    const { archive, store, state } = world;
    await createDeletions({
      ...{ archive, store, state },
      clock: { now: () => world.nowMs, sleep: systemClock.sleep },
      config: { keep: "400d", classes: [] },
      workFolder: join(world.folder, "deleting"),
    }).hold({ case: "Case 17", organizations: [A], from: null, to: null }, never);
    expect(runPython(world.storeFolder, world.key)).toMatchObject({ status: 0 });
    const path = archive.leaves().flatMap(filesNamedBy).at(-1)!;
    const text = (await store.read(path))!.toString();
    await store.replace(path, Buffer.from(text.replace("Case 17", "Case 18")));
    expect(runPython(world.storeFolder, world.key).text).toContain(`${path} has another hash`);
    await store.remove(path);
    expect(runPython(world.storeFolder, world.key)).toMatchObject({ status: 0 });
  });

  test.skipIf(skipsPython)(
    "A24 accepts a removed file that the store locks until the lock ends",
    async () => {
      world = await small();
      const path = "events/2026/03/10.001.00000000.jsonl.zst";
      await world.store.replace(path, Buffer.from("removed"));
      expect(runPython(world.storeFolder, world.key).text).toContain("in no log entry");
      await world.archive.log.sayLocked([{ path, untilMs: Date.now() + DAY_MS }]);
      expect(runPython(world.storeFolder, world.key)).toMatchObject({ status: 0 });
      await world.archive.log.sayLocked([{ path, untilMs: Date.now() - 2 * DAY_MS }]);
      expect(runPython(world.storeFolder, world.key).text).toContain("in no log entry");
      await world.archive.log.sayLocked([{ path, untilMs: Date.now() + DAY_MS }]);
      const note = (await world.store.read("log/locked"))!.toString();
      await world.store.replace("log/locked", Buffer.from(note.replace("00000000", "00000001")));
      expect(runPython(world.storeFolder, world.key).text).toContain("INVALID");
    },
  );

  test.skipIf(skipsPython)(
    "A15 accepts a proof file of one event and rejects it with one changed character",
    async () => {
      world = await small();
      const id = (3).toString(16).padStart(24, "0");
      const [proof] = await proveEvent(world.store, { event: id, organization: A, day: DAY });
      const file = join(world.folder, "proof.json");
      writeFileSync(file, JSON.stringify(proof));
      expect(runPython(file, world.key)).toMatchObject({ status: 0 });
      expect(runPython(file, world.key).text).toContain(id);
      proof!.event!.bytes = Buffer.from(
        Buffer.from(proof!.event!.bytes, "base64").toString().replace("login", "logim"),
      ).toString("base64");
      writeFileSync(file, JSON.stringify(proof));
      expect(runPython(file, world.key).text).toContain("the event is not in the line");
    },
  );
});

describe("proofs", () => {
  test("A15 a proof goes through three trees and discloses no other tenant and no other event", async () => {
    world = await small();
    const id = (11).toString(16).padStart(24, "0");
    const proofs = await proveEvent(world.store, { event: id });
    expect(proofs).toHaveLength(1);
    const checked = checkProof(JSON.parse(JSON.stringify(proofs[0])), parseVerifier(world.key));
    expect(checked.line.organization).toBe(B);
    expect(checked.event!.toString()).toContain(id);
    const text = JSON.stringify(proofs[0]);
    for (const other of [A, C, (10).toString(16).padStart(24, "0"), (12).toString(16).padStart(24, "0")])
      expect(text).not.toContain(other);
  });

  test("A16 sizes come from the level above: a proof with another index, or cut short, fails at its step", async () => {
    world = await small();
    const [proof] = await proveEvent(world.store, { event: (11).toString(16).padStart(24, "0") });
    const key = parseVerifier(world.key);
    for (const [level, message] of [
      ["event", "The event is not"],
      ["line", "The line is not"],
      ["entry", "it is entry|The log entry is not"],
    ] as const) {
      const changed = structuredClone(proof!);
      changed[level]!.index += 1;
      expect(() => checkProof(changed, key), level).toThrow(new RegExp(message));
      const cut = structuredClone(proof!);
      cut[level]!.proof.pop();
      expect(() => checkProof(cut, key), level).toThrow(new RegExp(message));
    }
    expect(() =>
      checkProof(
        proof,
        parseVerifier("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"),
      ),
    ).toThrow("not signed");
  });

  test("A16 the number of events comes from the line, for every place in it", async () => {
    world = await small();
    for (const number of [10, 11, 12]) {
      const [proof] = await proveEvent(world.store, { event: number.toString(16).padStart(24, "0") });
      expect(checkProof(proof, parseVerifier(world.key)).event!.toString()).toContain('"timestamp"');
    }
  });

  test("A17 the same event has another hash in another archive, and the secret is in its organization's range alone", async () => {
    world = await small();
    const [first] = await proveEvent(world.store, { event: (11).toString(16).padStart(24, "0") });
    const root = JSON.parse(first!.line.text).events_root;
    world.end();
    world = await small();
    const [second] = await proveEvent(world.store, { event: (11).toString(16).padStart(24, "0") });
    expect(second!.event!.bytes).toBe(first!.event!.bytes);
    expect(JSON.parse(second!.line.text).events_root).not.toBe(root);
    expect(world.db.prepare("SELECT COUNT(*) FROM archive_plans").pluck().get()).toBe(0);
  });

  test("A11 ids_sha256 can be computed from the events by its public definition", async () => {
    world = await small();
    const identities = await identitiesOfA();
    expect(identities.length).toBe(6);
    const leaf = world.archive.leaves().find((one) => one.kind === "day")!;
    const [entry] = await readEntries(world.store, leaf);
    if (!("line" in entry!)) throw new Error("no line");
    expect(identitiesHash(identities)).toBe(entry.line.ids_sha256);
  });
});

describe("the service and the archive", () => {
  test("A11 as many events on both sides are not the same events: identities decide", async () => {
    world = await small();
    const held = await identitiesOfA();
    expect(held.length).toBe(6);
    const result = await reconcileArchive(
      world.store,
      async function* (_accounts, organization, fromMs) {
        if (organization !== A || fromMs !== Date.parse(DAY)) return;
        for (const identity of held.slice(1)) yield { identity, id: "known" };
        yield { identity: "0".repeat(32), id: "unknown" };
      },
      { from: DAY, to: DAY, organizations: new Set([A]), keptFromMs: 0, isErased: () => false },
      new AbortController().signal,
    );
    expect(result).toMatchObject({ returned: 6, held: 6, onlyHeld: 1, missing: 1 });
    expect(result.incomplete).toMatchObject([{ organization: A, missingIds: ["unknown"] }]);
  });
});

describe("verify", () => {
  test("A20 without a pinned key it says that the archive only agrees with itself", async () => {
    world = await small();
    expect(await world.verify({ key: undefined })).toMatchObject({ isValid: true, isPinned: false });
    const other = parseVerifier("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k");
    expect((await world.verify({ key: other })).findings[0]!.message).toContain("never signed");
  });

  test("A21 it fails when the newest entry is older than allowed", async () => {
    world = await small();
    expect((await world.verify({ maxAgeMs: 1000 })).isValid).toBe(true);
    world.nowMs += 3_600_000;
    expect((await world.verify({ maxAgeMs: 1000 })).findings).toMatchObject([
      { check: "age", subject: "log entry 3" },
    ]);
  });

  test("A21 it fails when the newest entry is dated in the future: its age is not known then", async () => {
    world = await small();
    const newestMs = Date.parse(world.archive.leaves().at(-1)!.time);
    const at = async (nowMs: number) => (await world.verify({ maxAgeMs: 3_600_000, nowMs })).findings;
    expect(await at(newestMs - 600_000)).toEqual([]);
    expect(await at(newestMs - 600_001)).toMatchObject([
      { check: "age", message: expect.stringContaining("in the future") },
    ]);
    expect((await world.verify({ nowMs: newestMs - 86_400_000 })).isValid).toBe(true);
  });

  test("A13 it rejects a frame that somebody inserted, although zstdcat prints it", async () => {
    world = await small();
    const leaf = world.archive.leaves().find((one) => one.kind === "day")!;
    const path = join(world.storeFolder, leaf.data);
    const frame = createCompressor()(Buffer.from('{"forged":true}\n'));
    writeFileSync(path, Buffer.concat([frame, readFileSync(path)]));
    const { findings } = await world.verify();
    expect(findings.length).toBeGreaterThan(0);
    for (const { subject } of findings) expect(subject).toContain(leaf.data);
  });

  test("A29 quick reads no data file; a full one goes on where it stopped", async () => {
    world = await small();
    const leaf = world.archive.leaves().find((one) => one.kind === "day")!;
    const path = join(world.storeFolder, leaf.data);
    const bytes = readFileSync(path);
    bytes[50]! ^= 1;
    writeFileSync(path, bytes);
    expect((await world.verify({ quick: true })).isValid).toBe(true);
    expect((await world.verify()).isValid).toBe(false);
    const seen: number[] = [];
    await world.verify({ onPart: (index) => seen.push(index) });
    expect((await world.verify({ isDone: ({ index }) => seen.includes(index) })).parts.checked).toBe(0);
    rmSync(path);
    expect((await world.verify({ quick: true })).findings).toMatchObject([{ subject: leaf.data }]);
  });
});
