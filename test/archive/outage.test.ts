import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { readLog } from "../../src/archive/evidence/read.ts";
import { isPart } from "../../src/archive/log/leaf.ts";
import { openS3 } from "../../src/archive/store/s3.ts";
import { verifyArchive } from "../../src/archive/verify/verify.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { skipUnless } from "../support/components.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
} from "../support/versitygw.ts";
import { openRunning } from "./running.ts";
import { A, DAY, openWorld, type World } from "./world.ts";

const versitygw = await findVersitygw();
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

type Line = "up" | "away";
/** As often as the client tries a request before it gives up. */
const TRIES = 3;

/** A line to the S3 server that can be cut, or that loses the answers to writes. */
async function startLine(url: string) {
  const { hostname, port } = new URL(url);
  let state: Line = "up";
  // Answers to writes that pass, then those that are lost.
  let [passing, losing, lost] = [0, 0, 0];
  const server = createServer((client) => {
    if (state === "away") return void client.destroy();
    const upstream = connect(Number(port), hostname);
    let isWrite = false;
    client.on("data", (chunk) => {
      if (chunk.subarray(0, 4).toString() === "PUT ") isWrite = true;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      const isContinue = chunk.subarray(0, 12).toString() === "HTTP/1.1 100";
      const isAnswer = isWrite && !isContinue;
      if (isAnswer) isWrite = false;
      if (isAnswer && losing > 0 && --passing < 0) {
        losing--;
        lost++;
        client.destroy();
        upstream.destroy();
      } else client.write(chunk);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    set: (to: Line) => {
      state = to;
    },
    /** Loses all answers to one write, with those to its repetitions. */
    loseAfter: (writes: number) => {
      [passing, losing] = [writes, TRIES];
    },
    lost: () => lost,
  };
}

async function open() {
  const gateway = await startVersitygw(versitygw!);
  closers.push(() => gateway.close());
  (await openBucket(gateway, "evidence")).destroy();
  const line = await startLine(gateway.url);
  const world = await openWorld();
  closers.push(() => world.end());
  const place = { bucket: "evidence", region: "us-east-1", pathStyle: true };
  const secrets = { accessKeyId: secretOf(S3_ACCESS_KEY), secretAccessKey: secretOf(S3_SECRET_KEY) };
  const archive = await openRunning(world, { s3: { ...place, endpoint: line.url } }, secrets);
  closers.push(() => archive.close());
  const store = await openS3({ ...place, ...secrets, endpoint: gateway.url, timeout: 60_000 }, systemClock);
  closers.push(() => store.close());
  return { world, archive, line, store };
}

async function fill(world: World, archive: { answer(atMs: number): Promise<void> }): Promise<void> {
  await world.events(A, DAY, 0, 20);
  await world.seal([A], DAY, 20);
  await archive.answer(world.nowMs);
}

const skips = skipUnless("versitygw", versitygw, "set TIDEMARK_REQUIRE=versitygw to build it with Go");

describe.skipIf(skips)("S3 that fails while days are closed", () => {
  test("away for a day: an alarm says so, and everything is closed once when it is back", async () => {
    const { world, archive, line, store } = await open();
    await fill(world, archive);
    line.set("away");
    for (let hour = 0; hour < 24; hour += 6) {
      expect(await archive.drain()).toBe(false);
      expect(archive.alarms()).toMatchObject([
        { kind: "archive_failing", remedy: expect.stringContaining("that the store can be reached") },
      ]);
      world.nowMs += DAY_MS / 4;
      await archive.answer(world.nowMs);
    }
    line.set("up");
    expect(await archive.drain()).toBe(true);
    expect(archive.alarms()).toEqual([]);
    const result = await verifyArchive(store, { key: archive.verifier, nowMs: world.nowMs });
    expect(result).toMatchObject({ findings: [], events: 20 });
    expect((await readLog(store)).leaves.filter(isPart)).toHaveLength(1);
  });

  test("answers to writes are lost, one after the other: nothing is closed twice", async () => {
    const { world, archive, line, store } = await open();
    await fill(world, archive);
    let days = 1;
    for (let writes = 0; ; writes++) {
      const before = line.lost();
      line.loseAfter(writes);
      const isClosed = await archive.drain();
      if (line.lost() === before) break;
      line.loseAfter(Number.POSITIVE_INFINITY);
      if (!isClosed) expect(await archive.drain()).toBe(true);
      const day = new Date(Date.parse(DAY) + days++ * DAY_MS).toISOString().slice(0, 10);
      await world.events(A, day, days * 100, 20);
      await world.seal([A], day, 20);
    }
    // Data file, manifest, tiles, checkpoints.
    expect(days).toBeGreaterThan(5);
    expect(await archive.drain()).toBe(true);
    expect(archive.alarms()).toEqual([]);
    const result = await verifyArchive(store, { key: archive.verifier, nowMs: world.nowMs });
    expect(result).toMatchObject({ findings: [], events: days * 20 });
    expect((await readLog(store)).leaves.filter(isPart)).toHaveLength(days);
  });
});
