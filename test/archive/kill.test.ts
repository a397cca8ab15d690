import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { afterEach, describe, expect, test } from "vitest";
import { readEntries, readLog } from "../../src/archive/evidence/read.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { openRange } from "../../src/archive/part/range.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { openS3 } from "../../src/archive/store/s3.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { currentParts, verifyArchive } from "../../src/archive/verify/verify.ts";
import { DAY_MS } from "../../src/core/archive.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
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
 * A process closes days and is killed with SIGKILL after a random time, again and again, until all is closed. Then
 * the archive must verify and hold every event exactly once. TIDEMARK_ARCHIVE_KILLS sets how many kills there are.
 */
const KILLS = Number(process.env.TIDEMARK_ARCHIVE_KILLS ?? 12);
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

async function campaign(store: ArchiveStore, driver: object): Promise<{ kills: number }> {
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
  for (let isDone = false; !isDone; ) {
    const child = fork(join(import.meta.dirname, "close-driver.js"), [JSON.stringify(options)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    let said = "";
    child.stderr!.on("data", (data) => (said += data));
    const ended = once(child, "exit");
    const opened = Promise.race([once(child, "message"), ended]);
    if (kills < KILLS) {
      // Half of the kills hit the opening itself.
      if (kills % 2 === 0) await opened;
      await sleep(kills % 2 === 0 ? Math.random() * 150 : 100 + Math.random() * 400);
      child.kill("SIGKILL");
      kills++;
    }
    const [code, signal] = await ended;
    if (signal === null) expect(code, said).toBe(0);
    isDone = signal === null && code === 0 && kills >= KILLS;
    if (signal === null && code === 0 && kills < KILLS) break;
  }
  fixture.reopen();
  const verification = await verifyArchive(store, { key: parseSigner(key).verifier, nowMs: options.nowMs });
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
  return { kills };
}

describe("A12 kill -9 while days are closed", () => {
  test("a directory holds every event once, and verifies", async () => {
    fixture = openFixture();
    const folder = join(fixture.folder, "archive");
    mkdirSync(folder);
    const { kills } = await campaign(await openDirectory(folder), { store: folder });
    expect(kills).toBeGreaterThan(3);
  }, 900_000);

  test.skipIf(skipUnless("versitygw", versitygw, "set TIDEMARK_REQUIRE=versitygw to build it with Go"))(
    "S3 holds every event once, and verifies",
    async () => {
      fixture = openFixture();
      gateway = await startVersitygw(versitygw!);
      const common = {
        bucket: "evidence",
        region: "us-east-1",
        endpoint: gateway.url,
        pathStyle: true,
        timeout: 60_000,
      };
      const credentials = { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY };
      const client = new S3Client({
        region: "us-east-1",
        endpoint: gateway.url,
        forcePathStyle: true,
        credentials,
      });
      await client.send(new CreateBucketCommand({ Bucket: "evidence" }));
      client.destroy();
      const store = await openS3(
        { ...common, accessKeyId: secretOf(S3_ACCESS_KEY), secretAccessKey: secretOf(S3_SECRET_KEY) },
        systemClock,
      );
      const { kills } = await campaign(store, { s3: { ...common, ...credentials } });
      expect(kills).toBeGreaterThan(3);
      await store.close();
    },
    900_000,
  );
});
