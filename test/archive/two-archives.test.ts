// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type App, openApp } from "../../src/app.ts";
import { openArchive } from "../../src/archive/archive.ts";
import { newSignerText, parseSigner } from "../../src/archive/log/note.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { verifyArchive } from "../../src/archive/verify/verify.ts";
import { loadConfig } from "../../src/config/load.ts";
import { silentLog } from "../../src/core/log.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { openArchiveState } from "../../src/journal/archive/state.ts";
import { openWorld as openProgramWorld, type World as ProgramWorld } from "../support/world.ts";
import { A, B, DAY, never, openWorld, RETENTION_MS, type World } from "./world.ts";

let world: World | undefined;
let program: ProgramWorld | undefined;
let app: App | undefined;
afterEach(async () => {
  await app?.close();
  await program?.close();
  world?.end();
  [world, program, app] = [undefined, undefined, undefined];
});

/** A second archive of the same journal, which closes its days a month later. */
async function openSecond({ db, journal, folder }: World, now: () => number) {
  const state = await openArchiveState(db, {
    name: "second",
    journal: journal.id,
    retentionMs: RETENTION_MS,
    stagingFolder: join(folder, "staging-2"),
  });
  const store = await openDirectory(join(folder, "archive-2"));
  const signer = parseSigner(newSignerText("example.com/second"));
  const options = {
    origin: "example.com/second",
    signer,
    settleMs: 30 * DAY_MS,
    classOf: () => "default",
    policy: "{}",
    workFolder: join(folder, "work-2"),
  };
  const archive = await openArchive(state, store, { now, sleep: async () => {} }, options, never);
  return {
    state,
    async closeAll() {
      while ((await archive.closeStep(never)) === "again");
    },
    verify: () => verifyArchive(store, { key: signer.verifier, nowMs: now() }),
  };
}

describe("A4 two archives of one journal", () => {
  test("each stages a page in its own place, and the journal keeps its bytes until both have", async () => {
    world = await openWorld();
    const own = world;
    const second = await openSecond(own, () => own.nowMs);
    await own.events(A, DAY, 0, 20);
    await own.archive.closeStep(never);
    await second.closeAll();
    const reader = await own.journal.reader("disk");
    await own.events(B, "2026-03-29", 0, 1);
    await own.closeAll();
    await second.closeAll();
    await reader.commit(own.journal.end(), undefined);
    const bodies = () => own.db.prepare("SELECT page FROM bodies").pluck().all();
    const staged = (folder: string) => existsSync(join(own.folder, folder, "1.page"));
    await own.state.stage(10);
    expect(bodies()).toContain(1);
    expect(await own.state.stage(1)).toBe(false);
    await second.state.stage(10);
    expect(bodies()).not.toContain(1);
    expect([staged("staging"), staged("staging-2")]).toEqual([true, true]);
    expect([own.state.backlog().stagedPages, second.state.backlog().stagedPages]).toEqual([1, 1]);

    await own.seal([A], DAY, 20);
    await own.closeAll();
    expect([staged("staging"), staged("staging-2")]).toEqual([false, true]);
    own.nowMs += 30 * DAY_MS;
    await second.closeAll();
    expect(staged("staging-2")).toBe(false);
    expect(await own.verify()).toMatchObject({ findings: [], events: 20 });
    expect(await second.verify()).toMatchObject({ findings: [], events: 20 });
  });

  test("two archive sinks in one config, one with a longer settle, both hold every event", async () => {
    program = await openProgramWorld({ organizations: 3, events: 0, days: 20 });
    const { simulator, at } = program;
    const nowMs = Date.now();
    for (let number = 0; number < 300; number++) {
      const timestamp = new Date(nowMs - (4 + (number % 12)) * DAY_MS + number * 1000).toISOString();
      const detail = randomBytes(20_000).toString("base64");
      simulator.control.append(simulator.organizations[number % 3]!.id, [
        { id: `event-${number}`, service: "directory", event_type: "user_update", timestamp, detail },
      ]);
    }
    for (const name of ["one", "two"])
      await program.run(["archive", "keys", "new", at(`${name}.key`), "--origin", `example.com/${name}`]);
    const open = async (settles: readonly string[]) => {
      const sinks = ["one", "two"].map(
        (name, index) =>
          `{ name: ${name}, type: archive, origin: example.com/${name}, key: { file: ${at(`${name}.key`)} }, store: { directory: ${at(`${name}-store`)} }, settle: ${settles[index]} }`,
      );
      const file = program!.configure({
        account: "organizations: all, since: 20d",
        polling: "interval: 1s, pageSize: 10, pagesInFlight: 1, concurrency: 1",
        sinks,
      });
      const { config } = loadConfig(file, { KEY: simulator.apiKey });
      app = await openApp({
        config: { ...config, journal: { budget: 3_000_000 } },
        log: silentLog,
        stdout: process.stdout,
      });
      await app.once(new AbortController().signal);
    };
    const verify = async (name: string) =>
      verifyArchive(await openDirectory(at(`${name}-store`)), { nowMs: Date.now() });

    await open(["0s", "10d"]);
    expect(await verify("one")).toMatchObject({ findings: [], events: 300 });
    const before = await verify("two");
    expect(before.findings).toEqual([]);
    expect(before.events).toBeLessThan(300);
    expect(readdirSync(at("two.archive/pages")).length).toBeGreaterThan(0);
    await app!.close();
    await open(["0s", "0s"]);
    expect(await verify("two")).toMatchObject({ findings: [], events: 300 });
    expect(readdirSync(at("two.archive/pages"))).toEqual([]);
  });
});
