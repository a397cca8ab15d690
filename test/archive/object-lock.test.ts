import { join } from "node:path";
import {
  CreateBucketCommand,
  ListObjectVersionsCommand,
  PutObjectRetentionCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createDeletions, type Deletions } from "../../src/archive/deletion/deletion.ts";
import { dueOrders } from "../../src/archive/deletion/due.ts";
import { reportHtml } from "../../src/archive/evidence/report.ts";
import { openS3 } from "../../src/archive/store/s3.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { verifyArchive } from "../../src/archive/verify/verify.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { skipUnless } from "../support/components.ts";
import {
  clientOf,
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { openRunning } from "./running.ts";
import { A, B, DAY, never, openWorld, type World } from "./world.ts";

const versitygw = await findVersitygw();
const skipsS3 = skipUnless("versitygw", versitygw, "set TIDEMARK_REQUIRE=versitygw to build it with Go");

const LOCK_DAYS = 1;
const SECRETS = { accessKeyId: secretOf(S3_ACCESS_KEY), secretAccessKey: secretOf(S3_SECRET_KEY) };
const idOf = (number: number) => number.toString(16).padStart(24, "0");

let world: World;
let gateway: Versitygw;
let client: S3Client;
let buckets = 0;
beforeEach(async () => {
  if (skipsS3) return;
  gateway = await startVersitygw(versitygw!);
  client = clientOf(gateway);
});
afterEach(async () => {
  if (skipsS3) return;
  client.destroy();
  await gateway.close();
});

/** Fails at the n-th change, which is done, as if the process was killed before it had the answer. */
interface Crash {
  left: number;
}

function crashing(store: ArchiveStore, crash: Crash): ArchiveStore {
  return new Proxy(store, {
    get(target, name: keyof ArchiveStore) {
      const method = target[name] as (...args: unknown[]) => Promise<unknown>;
      if (!["create", "replace", "remove"].includes(name)) return method;
      return async (...args: unknown[]) => {
        const isLast = --crash.left === 0;
        await method(...args);
        if (isLast) throw new Error("the process ends here");
      };
    },
  });
}

async function newBucket() {
  const bucket = `locked-${++buckets}`;
  await client.send(new CreateBucketCommand({ Bucket: bucket, ObjectLockEnabledForBucket: true }));
  return {
    ...{ bucket, region: "us-east-1", endpoint: gateway.url, pathStyle: true, timeout: 600_000 },
    objectLock: { mode: "governance", days: LOCK_DAYS } as const,
    ...SECRETS,
  };
}

/** A world with a closed day of A and B, in a bucket of its own that locks files. */
async function openLocked(): Promise<Crash & { readonly bucket: string }> {
  const config = await newBucket();
  const crash = { left: Number.POSITIVE_INFINITY, bucket: config.bucket };
  world = await openWorld({ openStore: async () => crashing(await openS3(config, systemClock), crash) });
  await world.events(A, DAY, 0, 4);
  await world.events(B, DAY, 10, 4);
  await world.seal([A, B], DAY, 8);
  await world.closeAll();
  return crash;
}

function deletions(): Deletions {
  const { archive, store, state } = world;
  return createDeletions({
    ...{ archive, store, state, config: { keep: "400d", classes: [] } },
    clock: { now: () => world.nowMs, sleep: systemClock.sleep },
    workFolder: join(world.folder, "deleting"),
  });
}

const eraseEvent = () =>
  deletions().erase({ organization: A, event: idOf(1), from: null, to: null, reason: "asked" }, never);
const eraseB = () =>
  deletions().erase({ organization: B, from: null, to: null, reason: "contract ended" }, never);

/** Ends all locks of a bucket, and moves the archive's clock behind the time that its orders name. */
async function endLocks(bucket: string): Promise<void> {
  const { Versions = [] } = await client.send(new ListObjectVersionsCommand({ Bucket: bucket }));
  let untilMs = 0;
  for (const { Key, VersionId } of Versions) {
    if (!/^(events|manifests|texts)\//.test(Key!)) continue;
    untilMs = Date.now() + 2000;
    await client.send(
      new PutObjectRetentionCommand({
        ...{ Bucket: bucket, Key, VersionId, BypassGovernanceRetention: true },
        Retention: { Mode: "GOVERNANCE", RetainUntilDate: new Date(untilMs) },
      }),
    );
  }
  // The store knows full seconds.
  await expect.poll(() => Date.now()).toBeGreaterThan(untilMs + 1000);
  world.nowMs = Date.now() + (LOCK_DAYS + 1) * DAY_MS;
}

describe.skipIf(skipsS3)("A24 with Object Lock", () => {
  test("an erasure can be interrupted at every change: every file of it that is locked goes when the lock ends", async () => {
    for (let change = 1; ; change++) {
      const crash = await openLocked();
      crash.left = change;
      const isOver = await eraseEvent().then(
        () => true,
        () => false,
      );
      crash.left = Number.POSITIVE_INFINITY;
      await world.restart();
      await deletions().finish(never);
      // The files of the interrupted erasure are locked: that is no finding.
      expect((await world.verify()).findings, `change ${change}`).toEqual([]);
      await eraseEvent();
      await eraseB();
      const { findings: none, locked } = await world.verify({ nowMs: Date.now() });
      expect(none, `change ${change}`).toEqual([]);
      expect(locked.length).toBeGreaterThanOrEqual(4);
      expect(new Set(locked)).toEqual(new Set(dueOrders(world.state)));
      await endLocks(crash.bucket);
      await deletions().prune({ dryRun: false }, never);
      const { findings, events } = await world.verify();
      expect(findings, `change ${change}`).toEqual([]);
      expect(events).toBe(3);
      expect(dueOrders(world.state)).toEqual([]);
      await world.store.close();
      world.end();
      if (isOver) {
        expect(change).toBeGreaterThan(7);
        break;
      }
    }
  });

  test("a process removes files when their lock has ended, and until then the archive is valid", async () => {
    const { bucket, region, endpoint, pathStyle, objectLock } = await newBucket();
    world = await openWorld();
    // The store refuses a lock that ends in the past, so this world has today's time.
    world.nowMs = Date.now();
    const day = new Date(world.nowMs - 5 * DAY_MS).toISOString().slice(0, 10);
    const s3 = { bucket, region, endpoint, pathStyle, objectLock };
    const running = await openRunning(world, { s3 }, SECRETS);
    const store = await openS3({ ...s3, ...SECRETS, timeout: 600_000 }, systemClock);
    const verify = () => verifyArchive(store, { key: running.verifier, nowMs: world.nowMs });
    await world.events(A, day, 0, 4);
    await world.events(B, day, 10, 4);
    await world.seal([A, B], day, 8);
    await running.answer(world.nowMs);
    await running.drain();
    const said = await running.change({
      ...{ kind: "erase", organization: B, from: null, to: null, reason: "contract ended" },
    });
    expect(said).toMatch(/2 files are locked by the store until .*`tidemark run` carries it out then/);
    await running.drain();
    expect(await verify()).toMatchObject({ findings: [], isValid: true, events: 4 });
    expect((await verify()).locked).toHaveLength(2);
    const { html, isValid } = await reportHtml(store, { key: running.verifier, nowMs: world.nowMs });
    expect(isValid).toBe(true);
    expect(html).toContain("Deleted files that the store still locks");
    await endLocks(bucket);
    await running.answer(world.nowMs);
    await running.drain();
    expect(await verify()).toMatchObject({ findings: [], locked: [], events: 4 });
    expect(await store.read("log/locked")).toBeUndefined();
    await store.close();
    await running.close();
    world.end();
  });
});
