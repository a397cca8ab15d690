import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { signClosing } from "../../src/archive/log/closing.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { openS3 } from "../../src/archive/store/s3.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { type Verification, verifyArchive } from "../../src/archive/verify/verify.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { skipUnless } from "../support/components.ts";
import { runs } from "../support/runs.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
} from "../support/versitygw.ts";
import { A, B, DAY, never, ORIGIN, openWorld, type World, type WorldOptions } from "./world.ts";

const signer = parseSigner(newSignerText(ORIGIN));
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function open(options: WorldOptions = {}): Promise<World> {
  const world = await openWorld({ signer, ...options });
  closers.push(() => world.end());
  return world;
}

/** Every so many requests of a verification; TIDEMARK_RUNS=8 tries each of them. */
const STEP = Math.ceil(8 / runs(1));

const dayAt = (at: number) => new Date(Date.parse(DAY) + at * DAY_MS).toISOString().slice(0, 10);

/** A day of two organizations that can be closed. */
async function fill(world: World, at: number): Promise<void> {
  await world.events(A, dayAt(at), at * 10, 2);
  await world.events(B, dayAt(at), at * 10 + 5, 2);
  await world.seal([A, B], dayAt(at), 4);
}

function deletionsOf(world: World) {
  const clock = { now: () => world.nowMs, sleep: systemClock.sleep };
  const { archive, store, state } = world;
  const workFolder = join(world.folder, "deleting");
  return createDeletions({ archive, store, state, clock, config: { keep: "400d", classes: [] }, workFolder });
}

function later() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve: () => resolve() };
}

/** Everything that changes an archive: a closing, a hold, an erasure that rewrites a part, one that ends it. */
const changes: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  async closing(world) {
    await fill(world, 1);
    await world.closeAll();
  },
  async hold(world) {
    const body = { case: "a case", organizations: [B], from: null, to: null };
    await deletionsOf(world).release(await deletionsOf(world).hold(body, never), never);
  },
  async erasure(world) {
    for (const organization of [A, B])
      await deletionsOf(world).erase({ organization, from: null, to: null, reason: "asked" }, never);
  },
};

/** Calls `before` ahead of every request of one kind. */
function hooked(store: ArchiveStore, kind: "reads" | "writes", before: () => Promise<void>): ArchiveStore {
  const hook =
    <Values extends unknown[], Result>(call: (...values: Values) => Promise<Result>) =>
    async (...values: Values) => {
      await before();
      return call(...values);
    };
  if (kind === "writes")
    return {
      ...store,
      create: hook(store.create),
      replace: hook(store.replace),
      remove: hook(store.remove),
    };
  return {
    ...store,
    read: hook(store.read),
    stat: hook(store.stat),
    async *list(prefix) {
      await before();
      for await (const file of store.list(prefix)) {
        yield file;
        await before();
      }
    },
  };
}

describe("a verification beside a change of the archive", () => {
  test.each(Object.keys(changes))("begun before each write of: %s: all is valid", async (name) => {
    const looks: Promise<Verification>[] = [];
    const changed = later();
    let isChanging = false;
    const world = await open({
      openStore: async (folder) => {
        const store = await openDirectory(folder);
        return hooked(store, "writes", async () => {
          if (!isChanging) return;
          const waits = later();
          const sleep = () => {
            waits.resolve();
            return changed.promise;
          };
          const look = verifyArchive(store, { key: signer.verifier, nowMs: world.nowMs, sleep });
          looks.push(look);
          // The write goes on when the verification has ended, or waits for a second look.
          await Promise.race([look, waits.promise]);
        });
      },
    });
    await fill(world, 0);
    await world.closeAll();
    isChanging = true;
    await changes[name]!(world);
    isChanging = false;
    changed.resolve();
    expect(looks.length).toBeGreaterThan(5);
    for (const look of looks) expect((await look).findings).toEqual([]);
    const after = await world.verify();
    expect(after).toMatchObject({ findings: [], closing: undefined });
  });

  test.each(Object.keys(changes))("%s within it, at its reads: all is valid", async (name) => {
    let isReached = true;
    for (let at = 1; isReached; at += STEP) {
      const world = await openWorld({ signer });
      try {
        await fill(world, 0);
        await world.closeAll();
        let reads = 0;
        const store = hooked(world.store, "reads", async () => {
          if (++reads === at) await changes[name]!(world);
        });
        const result = await verifyArchive(store, { key: signer.verifier, nowMs: world.nowMs });
        expect(result.findings, `at request ${at}`).toEqual([]);
        isReached = reads >= at;
      } finally {
        world.end();
      }
    }
  });

  test("a closing that begins after its note was looked for and ends while the log is looked at again: all is valid", async () => {
    const hangs = later();
    const reached = later();
    let isChanging = false;
    const world = await open({
      openStore: async (folder) => {
        const store = await openDirectory(folder);
        return {
          ...store,
          async replace(path, bytes) {
            if (isChanging && path === "log/checkpoint") {
              reached.resolve();
              await hangs.promise;
            }
            return store.replace(path, bytes);
          },
        };
      },
    });
    await fill(world, 0);
    await world.closeAll();
    await fill(world, 1);
    isChanging = true;
    let closing: Promise<unknown> | undefined;
    let noteReads = 0;
    let isLookedAtAgain = false;
    const end = async () => {
      hangs.resolve();
      await closing;
    };
    const store: ArchiveStore = {
      ...world.store,
      async read(path, range) {
        // Whichever of the two is read first then.
        const isEnd = noteReads === 1 && isLookedAtAgain && path.startsWith("log/c");
        const bytes = await world.store.read(path, range);
        if (path === "log/closing" && ++noteReads === 1) {
          closing = world.closeAll();
          await reached.promise;
        }
        if (isEnd) await end();
        return bytes;
      },
      async *list(prefix) {
        yield* world.store.list(prefix);
        isLookedAtAgain = true;
      },
    };
    const result = await verifyArchive(store, { key: signer.verifier, nowMs: world.nowMs });
    await end();
    expect(noteReads).toBeGreaterThan(1);
    expect(result.findings).toEqual([]);
    expect(await world.verify()).toMatchObject({ findings: [], days: { valid: 2, total: 2 } });
  });

  test("again and again until many days are closed: all is valid, and no day is left out at the end", async () => {
    // Days are closed one after the other, so that there are many checkpoints.
    await closeBeside(await open({ eventsMax: 1 }));
  });
});

async function closeBeside(world: World, days = 12): Promise<void> {
  for (let at = 0; at < days; at++) await fill(world, at);
  let isClosing = true;
  const closed = world.closeAll().finally(() => {
    isClosing = false;
  });
  try {
    for (let looks = 0; isClosing || looks < 2; looks++) {
      const { findings } = await world.verify({ sleep: systemClock.sleep });
      expect(findings).toEqual([]);
    }
  } finally {
    await closed;
  }
  expect(await world.verify()).toMatchObject({ findings: [], days: { valid: days, total: days } });
}

describe("a closing that takes long", () => {
  /** The witness does not answer until it is let go. */
  async function openHanging(options: WorldOptions = {}) {
    let [hangs, asked] = [Promise.resolve(), () => {}];
    const world = await open({
      ...options,
      async cosign() {
        asked();
        await hangs;
        return [];
      },
    });
    await fill(world, 0);
    await world.closeAll();
    const { promise, resolve } = later();
    hangs = promise;
    const reached = new Promise<void>((done) => {
      asked = done;
    });
    await fill(world, 1);
    const closing = world.closeAll();
    await reached;
    return {
      world,
      async letGo() {
        resolve();
        await closing;
      },
    };
  }

  test("its files are named as being closed; at the end they are days", async () => {
    const { world, letGo } = await openHanging();
    const during = await world.verify();
    expect(during).toMatchObject({ isValid: true, findings: [], days: { valid: 1, total: 1 } });
    expect(during.closing!.sinceMs).toBe(world.nowMs);
    expect(during.closing!.paths).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^events\/2026\/03\/11\./),
        expect.stringMatching(/^manifests\/2026\/03\/11\./),
        "log/tile/0/000.p/4",
        "log/tile/entries/000.p/4",
      ]),
    );
    await letGo();
    expect(await world.verify()).toMatchObject({
      isValid: true,
      days: { valid: 2, total: 2 },
      closing: undefined,
    });
  });

  test("a foreign file beside it is named", async () => {
    const { world, letGo } = await openHanging();
    const foreign = "events/2026/03/11.002.00000000.jsonl.zst";
    writeFileSync(join(world.storeFolder, foreign), "x");
    for (const end of [async () => {}, letGo]) {
      await end();
      expect(await world.verify({ sleep: async () => {} })).toMatchObject({
        isValid: false,
        findings: [{ check: "unexpected files", subject: foreign }],
      });
    }
  });

  test("a note of another key, or of an earlier closing, explains nothing", async () => {
    const { world, letGo } = await openHanging();
    const earlier = readFileSync(join(world.storeFolder, "log/closing"));
    const copy = join(world.folder, "copy");
    cpSync(world.storeFolder, copy, { recursive: true });
    const verifyCopy = async () =>
      (await verifyArchive(await openDirectory(copy), { key: signer.verifier, nowMs: world.nowMs })).findings;
    expect(await verifyCopy()).toEqual([]);
    const stranger = parseSigner(newSignerText(ORIGIN));
    const paths = ["events/foreign"];
    const size = world.state.head()!.size;
    const forged = signClosing({ origin: ORIGIN, size, timeMs: world.nowMs, paths }, [stranger]);
    writeFileSync(join(copy, "events/foreign"), "x");
    writeFileSync(join(copy, "log/closing"), forged);
    const subjects = (await verifyCopy()).map(({ subject }) => subject);
    expect(subjects).toEqual(expect.arrayContaining(["events/foreign", "log/closing"]));
    await letGo();
    // Left behind, for example by a crash: it is the archive's own, and its time is over.
    writeFileSync(join(world.storeFolder, "log/closing"), earlier);
    expect((await world.verify()).findings).toEqual([]);
    writeFileSync(join(world.storeFolder, "log/tile/0/000.p/99"), "x");
    expect((await world.verify()).findings).toMatchObject([{ subject: "log/tile/0/000.p/99" }]);
  });
});

const versitygw = await findVersitygw();
const skips = skipUnless("versitygw", versitygw, "set TIDEMARK_REQUIRE=versitygw to build it with Go");

describe.skipIf(skips)("over S3", () => {
  test("verifications beside a closing of many days find nothing, and a foreign file is named", async () => {
    const gateway = await startVersitygw(versitygw!);
    closers.push(() => gateway.close());
    const client = await openBucket(gateway, "evidence");
    closers.push(() => client.destroy());
    const place = { bucket: "evidence", region: "us-east-1", pathStyle: true, endpoint: gateway.url };
    const keys = { accessKeyId: secretOf(S3_ACCESS_KEY), secretAccessKey: secretOf(S3_SECRET_KEY) };
    const openStore = () => openS3({ ...place, ...keys, timeout: 60_000 }, systemClock);
    const world = await open({ openStore, eventsMax: 1 });
    await closeBeside(world, 4);
    await world.store.create("events/foreign", { bytes: Buffer.from("x") });
    expect((await world.verify()).findings).toMatchObject([{ subject: "events/foreign" }]);
  });
});
