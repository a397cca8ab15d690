import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { afterEach, describe, expect, test } from "vitest";
import { readEntries, readLog } from "../../src/archive/evidence/read.ts";
import { currentParts } from "../../src/archive/log/current-parts.ts";
import { newSignerText, parseSigner, type Verifier } from "../../src/archive/log/note.ts";
import { openRange } from "../../src/archive/part/range.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { openS3 } from "../../src/archive/store/s3.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { verifyArchive } from "../../src/archive/verify/verify.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { newWindow } from "../../src/core/window.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { skipUnless } from "../support/components.ts";
import { eventText, pageOf } from "../support/pages.ts";
import {
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";

/*
 * A process closes days and kills itself with SIGKILL at its n-th operation on the state or the store: before it, in
 * the middle of it, or after it. n grows from kill to kill, so the kills run through all steps, whatever the speed of
 * the machine. The next process goes on. Once all is closed, the archive must verify and hold every event exactly
 * once, and the campaign starts again with a new archive. TIDEMARK_ARCHIVE_KILLS sets how many kills there are.
 */
const KILLS = Number(process.env.TIDEMARK_ARCHIVE_KILLS ?? 10);
const MODES = ["before", "during", "after"] as const;
/** A new archive needs more operations than this until it is closed; the test asserts it. */
const STEPS = 60;
const ORIGIN = "example.com/kills";
const ORGANIZATIONS = ["aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb", "cccccccccccccccccccccccc"];
const FIRST_MS = Date.parse("2026-03-01");
const DAYS = 60;
const versitygw = await findVersitygw();

let fixture: JournalFixture;
let gateway: Versitygw | undefined;
afterEach(async () => {
  fixture.close();
  await gateway?.close();
  gateway = undefined;
});

/** Pages of several days and organizations each, all sealed. */
async function fill(): Promise<Set<string>> {
  const texts = new Set<string>();
  for (let day = 0; day < DAYS; day += 3) {
    const events = Array.from({ length: 30 }, (_, at) => {
      const timestamp = new Date(FIRST_MS + (day + (at % 3)) * DAY_MS + at * 60_000).toISOString();
      return eventText(day * 1000 + at, { organization: ORGANIZATIONS[at % 2]!, timestamp });
    });
    for (const text of events) texts.add(text);
    await fixture.journal.append(
      pageOf(events, { organizations: ORGANIZATIONS, fetchedAtMs: FIRST_MS + DAYS * DAY_MS }),
    );
  }
  const stream = await fixture.journal.stream({
    account: "acme",
    provider: null,
    organizations: ORGANIZATIONS,
    services: ["all"],
  });
  const toMs = FIRST_MS + DAYS * DAY_MS;
  await fixture.journal.changeWindows({
    add: [
      newWindow(stream, FIRST_MS, toMs, {
        state: "sealed",
        askedMs: toMs,
        sweeps: 3,
        apiCount: 600,
        heldCount: 600,
      }),
    ],
  });
  return texts;
}

interface World {
  readonly store: ArchiveStore;
  /** The driver opens its store with this. */
  readonly driver: object;
}

/** Kills and restarts until everything is closed, at most `killsMax` times; says how many kills there were. */
async function closeWithKills({ store, driver }: World, firstKill: number, killsMax: number) {
  const key = newSignerText(ORIGIN);
  const options = {
    file: fixture.file,
    journal: fixture.journal.id,
    key,
    origin: ORIGIN,
    nowMs: FIRST_MS + (DAYS + 2) * DAY_MS,
    work: join(fixture.folder, "work"),
    staging: join(fixture.folder, "staging"),
    ...driver,
  };
  const texts = await fill();
  fixture.db.close();
  let kills = 0;
  for (;;) {
    const at = firstKill + kills;
    const kill = { killAt: 1 + (at % STEPS), mode: MODES[Math.floor(at / STEPS + at) % MODES.length] };
    const wanted = kills < killsMax ? kill : {};
    const child = fork(
      join(import.meta.dirname, "close-driver.js"),
      [JSON.stringify({ ...options, ...wanted })],
      {
        stdio: ["ignore", "ignore", "pipe", "ipc"],
      },
    );
    let said = "";
    child.stderr!.on("data", (data) => (said += data));
    const [code, signal] = await once(child, "exit");
    if (signal === "SIGKILL") {
      kills++;
      continue;
    }
    expect(code, said).toBe(0);
    break;
  }
  fixture.reopen();
  await checkArchive(store, parseSigner(key).verifier, options.nowMs, texts);
  return kills;
}

async function checkArchive(
  store: ArchiveStore,
  key: Verifier,
  nowMs: number,
  texts: Set<string>,
): Promise<void> {
  const verification = await verifyArchive(store, { key, nowMs });
  expect(verification.findings).toEqual([]);
  expect(verification.days).toEqual({ valid: DAYS, total: DAYS });
  const found: string[] = [];
  const log = await readLog(store);
  for (const { files } of currentParts(log.leaves))
    for (const entry of await readEntries(store, files!))
      if ("line" in entry)
        for await (const { slice } of (await openRange(store, files!.data, entry.line)).slices())
          found.push(slice!.toString());
  expect(found.length).toBe(texts.size);
  expect(new Set(found)).toEqual(texts);
  expect(fixture.db.prepare("SELECT COUNT(*) FROM archive_open").pluck().get()).toBe(0);
}

async function campaign(newWorld: () => Promise<World>): Promise<void> {
  for (let kills = 0; kills < KILLS; ) {
    fixture = openFixture();
    const world = await newWorld();
    const more = await closeWithKills(world, kills, KILLS - kills);
    // Each archive has more operations than STEPS, so the first process in it is always killed.
    expect(more).toBeGreaterThan(0);
    kills += more;
    await world.store.close();
    if (kills < KILLS) fixture.close();
  }
}

describe("A12 kill -9 while days are closed", () => {
  test("a directory holds every event once, and verifies", async () => {
    await campaign(async () => {
      const folder = join(fixture.folder, "archive");
      mkdirSync(folder);
      return { store: await openDirectory(folder), driver: { store: folder } };
    });
  }, 7_200_000);

  test.skipIf(skipUnless("versitygw", versitygw, "set TIDEMARK_REQUIRE=versitygw to build it with Go"))(
    "S3 holds every event once, and verifies",
    async () => {
      gateway = await startVersitygw(versitygw!);
      let buckets = 0;
      await campaign(() => newBucket(gateway!.url, `evidence-${++buckets}`));
    },
    7_200_000,
  );
});

async function newBucket(endpoint: string, bucket: string): Promise<World> {
  const common = { bucket, region: "us-east-1", endpoint, pathStyle: true, timeout: 60_000 };
  const credentials = { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY };
  const client = new S3Client({ region: "us-east-1", endpoint, forcePathStyle: true, credentials });
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  client.destroy();
  const secrets = { accessKeyId: secretOf(S3_ACCESS_KEY), secretAccessKey: secretOf(S3_SECRET_KEY) };
  const store = await openS3({ ...common, ...secrets }, systemClock);
  return { store, driver: { s3: { ...common, ...credentials } } };
}
