import { hash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { CreateBucketCommand, ListObjectVersionsCommand, S3Client } from "@aws-sdk/client-s3";
import { afterEach, describe, expect, test } from "vitest";
import { differingOf } from "../../src/archive/close/differing.ts";
import { archiveSchema } from "../../src/archive/config.ts";
import { createDeletions, type Deletions } from "../../src/archive/deletion/deletion.ts";
import { checkProof, proveEvent } from "../../src/archive/evidence/prove.ts";
import { reconcileArchive } from "../../src/archive/evidence/reconcile.ts";
import { reportHtml } from "../../src/archive/evidence/report.ts";
import { currentParts } from "../../src/archive/log/current-parts.ts";
import { filesNamedBy } from "../../src/archive/log/leaf.ts";
import { newSignerText, parseSigner, parseVerifier } from "../../src/archive/log/note.ts";
import { openConfigured } from "../../src/archive/open.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { openS3 } from "../../src/archive/store/s3.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { systemClock } from "../../src/core/clock.ts";
import { startOf } from "../../src/core/position.ts";
import { secretOf } from "../../src/core/secret.ts";
import { Sqlite } from "../../src/core/sqlite.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { erasuresOf } from "../../src/journal/archive/erasures.ts";
import { migrations } from "../../src/journal/migrations.ts";
import { skipUnless } from "../support/components.ts";
import { eventText, pageOf } from "../support/pages.ts";
import {
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { publicIdentityOf } from "./public-identity.ts";
import { A, B, C, DAY, never, ORIGIN, openWorld, type World } from "./world.ts";

const versitygw = await findVersitygw();
let world: World;
let gateway: Versitygw | undefined;
afterEach(async () => {
  world.end();
  await gateway?.close();
  gateway = undefined;
});

function deletions(
  keep = "400d",
  classes: Parameters<typeof createDeletions>[0]["config"]["classes"] = [],
): Deletions {
  const { archive, store, state } = world;
  const clock = { now: () => world.nowMs, sleep: systemClock.sleep };
  return createDeletions({
    archive,
    store,
    state,
    clock,
    config: { keep, classes },
    workFolder: join(world.folder, "deleting"),
  });
}

async function closed(): Promise<void> {
  for (const [at, organization] of [A, B, C].entries()) await world.events(organization, DAY, at * 10, 4);
  await world.seal([A, B, C], DAY, 12);
  await world.closeAll();
}

test("an erasure without an end that an earlier version stored ends with the upgrade, and says why", async () => {
  world = await openWorld();
  const db = new Sqlite(":memory:");
  for (const { number, sql } of migrations()) {
    if (number === 26) {
      const insert = db.prepare("INSERT INTO archive_tombstones VALUES ('evidence', ?, ?, '', ?)");
      insert.run(A, "", "9999-12-31");
      insert.run(A, idOf(1), "9999-12-31");
      insert.run(B, "", "2026-01-31");
    }
    db.exec(sql);
  }
  const rows = db.prepare("SELECT owner, event, to_day, reason FROM archive_tombstones").all() as {
    to_day: string;
    reason: string;
  }[];
  const [all, one, limited] = rows;
  expect(all!.to_day).toMatch(/^20\d\d-\d\d-\d\d$/);
  expect(Date.parse(all!.to_day)).toBeLessThanOrEqual(Date.now());
  expect(one!.to_day).toBe("9999-12-31");
  expect(limited!.to_day).toBe("2026-01-31");
  expect(JSON.parse(all!.reason)).toMatchObject({ salt: expect.stringMatching(/^[0-9a-f]{32}$/) });
  db.close();
});

const skipsS3 = skipUnless("versitygw", versitygw, "set TIDEMARK_REQUIRE=versitygw to build it with Go");

function s3Client(endpoint: string): S3Client {
  const credentials = { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY };
  return new S3Client({ region: "us-east-1", endpoint, forcePathStyle: true, credentials });
}

function s3Config(bucket: string, endpoint: string) {
  return {
    bucket,
    region: "us-east-1",
    endpoint,
    pathStyle: true,
    timeout: 600_000,
    accessKeyId: secretOf(S3_ACCESS_KEY),
    secretAccessKey: secretOf(S3_SECRET_KEY),
  };
}

const idOf = (number: number) => number.toString(16).padStart(24, "0");
const files = () =>
  readdirSync(join(world.storeFolder, "events"), { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".zst"),
  );

const currentFiles = () =>
  currentParts(world.archive.leaves()).flatMap((part) =>
    part.files ? [part.files.data, part.files.manifest] : [],
  );

async function readAll(): Promise<string> {
  const { readLog, readEntries } = await import("../../src/archive/evidence/read.ts");
  const { openRange } = await import("../../src/archive/part/range.ts");
  let text = "";
  for (const part of currentParts((await readLog(world.store)).leaves))
    for (const entry of part.files ? await readEntries(world.store, part.files) : [])
      if ("line" in entry)
        for await (const { slice } of (await openRange(world.store, part.files!.data, entry.line)).slices())
          text += slice ?? "";
  return text;
}

describe("prune and holds", () => {
  test("A22 prune removes what is past its time after its entry is signed, and everything else verifies", async () => {
    world = await openWorld();
    await closed();
    expect(await deletions().prune({ dryRun: false }, never)).toContain("0 parts were pruned");
    world.nowMs = Date.parse(DAY) + 402 * DAY_MS;
    expect(await deletions().prune({ dryRun: true }, never)).toContain(
      `1 parts are past their retention: ${DAY}.001`,
    );
    expect(files()).toHaveLength(1);
    expect(await deletions().prune({ dryRun: false }, never)).toContain(
      "1 parts were pruned, with 3 days of organizations",
    );
    expect(files()).toHaveLength(0);
    expect(world.archive.leaves().at(-1)).toMatchObject({
      kind: "prune",
      leaf: 2,
      policy: "400d",
      removed_lines: 3,
      replacement: null,
    });
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A22 a file that is partly on hold is written again with the rest, and a later hold is seen", async () => {
    world = await openWorld();
    await closed();
    world.nowMs = Date.parse(DAY) + 402 * DAY_MS;
    const id = await deletions().hold(
      { case: "Case 17: Miller", organizations: [B], from: null, to: null },
      never,
    );
    expect(await deletions().prune({ dryRun: false }, never)).toContain("1 are on hold and stay");
    expect((await world.verify()).findings).toEqual([]);
    expect((await world.verify()).events).toBe(4);
    const [proof] = await proveEvent(world.store, { event: idOf(11) });
    expect(checkProof(proof, parseVerifier(world.key)).line.organization).toBe(B);
    await deletions().release(id, never);
    expect(await deletions().prune({ dryRun: false }, never)).toContain("1 parts were pruned");
    expect(files()).toHaveLength(0);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A22 an organization that got a longer class after its day was closed is kept as long as that class says", async () => {
    world = await openWorld();
    await closed();
    const long = { name: "long", keep: "6y", organizations: [A.toUpperCase()], accounts: [] };
    world.nowMs = Date.parse(DAY) + 402 * DAY_MS;
    expect(await deletions("1d", [long]).prune({ dryRun: true }, never)).toContain(
      `${DAY}.001 (default, 1d)`,
    );
    const said = await deletions("1d", [long]).prune({ dryRun: false }, never);
    expect(said).toContain("with 2 days of organizations; 0 are on hold and stay. 1 stay, because the class");
    expect((await world.verify()).findings).toEqual([]);
    expect((await world.verify()).events).toBe(4);
    expect(await readAll()).toContain(A);
    expect(await deletions("1d", [long]).prune({ dryRun: true }, never)).toContain(
      "0 parts are past their retention: none",
    );
    expect(await deletions("1d", [long]).prune({ dryRun: false }, never)).toContain("0 parts were pruned");
    world.nowMs = Date.parse(DAY) + 7 * 366 * DAY_MS;
    expect(await deletions("1d", [long]).prune({ dryRun: false }, never)).toContain("1 parts were pruned");
    expect(world.archive.leaves().at(-1)).toMatchObject({ kind: "prune", policy: "6y" });
    expect(files()).toHaveLength(0);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A22 a class that closed parts have and the config does not stops prune, and nothing is removed", async () => {
    world = await openWorld({ classOf: ({ organization }) => (organization === A ? "long" : "default") });
    await closed();
    world.nowMs = Date.parse(DAY) + 402 * DAY_MS;
    const renamed = { name: "six-years", keep: "6y", organizations: [A], accounts: [] };
    for (const dryRun of [true, false])
      await expect(deletions("1d", [renamed]).prune({ dryRun }, never)).rejects.toThrow(
        /retention class that is not in the config: long\..*nothing is pruned/,
      );
    expect(files()).toHaveLength(2);
    const both = [renamed, { name: "long", keep: "6y", organizations: [], accounts: [] }];
    expect(await deletions("1d", both).prune({ dryRun: false }, never)).toContain("1 parts were pruned");
    expect(await readAll()).toContain(A);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A18 the case's name is not in the log, and its text beside it can be erased", async () => {
    world = await openWorld();
    await closed();
    await deletions().hold({ case: "Case 17: Miller", organizations: [A], from: null, to: null }, never);
    const again = { case: "Case 17: Miller", organizations: [A], from: null, to: null };
    await deletions().hold(again, never);
    const log = (await world.store.read("log/leaves.jsonl"))!.toString();
    expect(log).not.toContain("Miller");
    // The salt differs, so that nobody can see that both are about one case, nor try names.
    const holds = world.archive.leaves().flatMap((leaf) => (leaf.kind === "hold" ? [leaf.case_hash] : []));
    expect(new Set(holds).size).toBe(2);
    const [text] = readdirSync(join(world.storeFolder, "texts"));
    expect((await world.store.read(`texts/${text}`))!.toString()).toContain("Miller");
    expect((await world.verify()).findings).toEqual([]);
    await world.store.remove(`texts/${text}`);
    expect((await world.verify()).findings).toEqual([]);
  });
});

describe("a crash in the middle of a deletion", () => {
  /** A store whose n-th change fails: before it is done, or after it, as if the answer was lost. */
  function failing(store: ArchiveStore, plan: { left: number; isDone: boolean }): ArchiveStore {
    return new Proxy(store, {
      get(target, name: keyof ArchiveStore) {
        const method = target[name] as (...args: unknown[]) => Promise<unknown>;
        if (!["create", "replace", "remove"].includes(name)) return method;
        return async (...args: unknown[]) => {
          if (--plan.left !== 0) return method(...args);
          if (plan.isDone) await method(...args);
          throw new Error("the process ends here");
        };
      },
    });
  }

  test.each<[string, { event?: string }]>([
    ["an organization", {}],
    ["one event", { event: idOf(1) }],
  ])(
    "A23 erasing %s can be interrupted at every change, and everything verifies after the restart",
    async (_name, which) => {
      for (const isDone of [false, true])
        for (let change = 1; ; change++) {
          const plan = { left: Number.POSITIVE_INFINITY, isDone };
          world = await openWorld({
            openStore: async (folder) => failing(await openDirectory(folder), plan),
          });
          await closed();
          const wanted = { organization: A, from: null, to: null, reason: "contract ended", ...which };
          plan.left = change;
          const isOver = await deletions()
            .erase(wanted, never)
            .then(
              () => true,
              () => false,
            );
          plan.left = Number.POSITIVE_INFINITY;
          await world.restart();
          await deletions().finish(never);
          expect((await world.verify()).findings, `change ${change}`).toEqual([]);
          expect(readdirSync(join(world.folder, "deleting"))).toEqual([]);
          await deletions().erase(wanted, never);
          expect((await world.verify()).findings).toEqual([]);
          expect(await readAll()).not.toContain(which.event ?? A);
          if (isOver) {
            expect(change).toBeGreaterThan(7);
            break;
          }
          world.end();
        }
    },
  );

  test("a deletion asks the store only for files that are there, however many the log has named", async () => {
    const asked: string[] = [];
    const open = async (folder: string) => {
      const store = await openDirectory(folder);
      const remove = (path: string) => {
        if (!path.startsWith("log/")) asked.push(path);
        return store.remove(path);
      };
      return { ...store, remove };
    };
    world = await openWorld({ openStore: open });
    await closed();
    const erase = (number: number) =>
      deletions().erase(
        { organization: A, event: idOf(number), from: null, to: null, reason: "asked" },
        never,
      );
    const before = currentFiles();
    const kept = (await world.store.read(before[0]!))!;
    for (const number of [0, 1, 2]) {
      asked.length = 0;
      const old = currentFiles();
      await erase(number);
      expect(asked).toEqual(old);
    }
    // A file that somebody put back, from a copy or an older version of the object, goes with the next deletion.
    await world.store.create(before[0]!, { bytes: kept });
    asked.length = 0;
    const old = currentFiles();
    await erase(3);
    expect(asked).toEqual([before[0], ...old]);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("files of an erasure that failed are not forgotten when a closing writes the reason of another one", async () => {
    const plan = { left: Number.POSITIVE_INFINITY, isDone: true };
    world = await openWorld({ openStore: async (folder) => failing(await openDirectory(folder), plan) });
    await closed();
    const next = "2026-03-11";
    await world.events(B, next, 50, 2);
    await deletions().erase({ organization: B, from: next, to: next, reason: "contract ended" }, never);
    // The note, the wording, the data file, the manifest.
    plan.left = 4;
    const one = { organization: A, event: idOf(1), from: null, to: null, reason: "asked" };
    await expect(deletions().erase(one, never)).rejects.toThrow("the process ends here");
    await world.seal([B], next, 2);
    await world.closeAll();
    expect(world.archive.leaves().at(-1)).toMatchObject({ kind: "erase", removed_events: 2 });
    await deletions().finish(never);
    expect((await world.verify()).findings).toEqual([]);
    expect(world.state.fact("rewrite")).toBeUndefined();
  });

  test("A22 a hold whose entry cannot be written says that it is in force, and is completed at the next start", async () => {
    const plan = { left: Number.POSITIVE_INFINITY, isDone: false };
    world = await openWorld({ openStore: async (folder) => failing(await openDirectory(folder), plan) });
    await closed();
    plan.left = 1;
    const order = { case: "Case 17", organizations: [A], from: null, to: null };
    await expect(deletions().hold(order, never)).rejects.toThrow(
      /^The hold hold-[0-9a-f]{8} is in force, .*Do not repeat the command\. the process ends here/,
    );
    expect(deletions().holds()).toHaveLength(1);
    plan.left = Number.POSITIVE_INFINITY;
    await world.restart();
    await deletions().finish(never);
    expect(world.archive.leaves().filter(({ kind }) => kind === "hold")).toHaveLength(1);
  });

  test("an erasure that nothing is left to do for leaves no file and no entry", async () => {
    world = await openWorld();
    await closed();
    await deletions().hold({ case: "Case 17", organizations: [A], from: null, to: null }, never);
    const before = world.archive.leaves().length;
    const said = await deletions().erase({ organization: A, from: null, to: null, reason: "typo" }, never);
    expect(said).toContain("1 days are on hold and stay");
    const none = await deletions().erase(
      { organization: "f".repeat(24), from: null, to: null, reason: "typo" },
      never,
    );
    expect(none).toContain("Nothing matches");
    expect(world.archive.leaves()).toHaveLength(before);
    expect((await world.verify()).findings).toEqual([]);
  });
});

describe("erase", () => {
  test("A23 an organization is gone with its secret, and everything else still verifies", async () => {
    world = await openWorld();
    await closed();
    const before = await proveEvent(world.store, { event: idOf(1) });
    const said = await deletions().erase(
      { organization: A, from: null, to: null, reason: "contract ended" },
      never,
    );
    expect(said).toContain("4 events of 1 parts were erased");
    expect(said).toContain("Copies that sinks have delivered are out of reach");
    expect(await readAll()).not.toContain(A);
    expect((await world.verify()).findings).toEqual([]);
    expect((await world.verify()).events).toBe(8);
    expect(await proveEvent(world.store, { event: idOf(1) })).toEqual([]);
    // A proof that was made before still leads to its checkpoint.
    expect(checkProof(before[0], parseVerifier(world.key)).line.organization).toBe(A);
  });

  test("A23 one event is replaced by its leaf hash, its nonce is gone, and its neighbours can still be proved", async () => {
    world = await openWorld();
    await closed();
    await deletions().erase(
      { organization: A, event: idOf(1), from: null, to: null, reason: "a person asked" },
      never,
    );
    const text = await readAll();
    expect(text).not.toContain(idOf(1));
    expect(text).toContain(idOf(2));
    const verification = await world.verify();
    expect(verification.findings).toEqual([]);
    expect(verification.events).toBe(11);
    const [proof] = await proveEvent(world.store, { event: idOf(2) });
    expect(checkProof(proof, parseVerifier(world.key)).line.erased).toMatchObject([[1, expect.any(String)]]);
    await deletions().erase(
      { organization: A, event: idOf(3), from: null, to: null, reason: "another" },
      never,
    );
    expect((await world.verify()).findings).toEqual([]);
    expect((await world.verify()).events).toBe(10);
  });

  test("A23 an event can be proved while an erasure replaces the part that it is in", async () => {
    world = await openWorld();
    await closed();
    let isErased = false;
    const read: ArchiveStore["read"] = async (path, range) => {
      if (!isErased && path.startsWith("manifests/")) {
        isErased = true;
        await deletions().erase({ organization: B, from: null, to: null, reason: "x" }, never);
      }
      return world.store.read(path, range);
    };
    const [proof] = await proveEvent({ ...world.store, read }, { event: idOf(2) });
    expect(isErased).toBe(true);
    expect(checkProof(proof, parseVerifier(world.key)).line.organization).toBe(A);
  });

  test("A11 after an erasure the identities are those of the fields of what is left, also for twins, and the line verifies", async () => {
    world = await openWorld();
    const day = { organization: A, timestamp: `${DAY}T10:00:00.123456Z` };
    const texts = [eventText(1, day), eventText(2, day), eventText(2, { ...day, twin: true })];
    await world.journal.append(pageOf(texts, { organizations: [A], fetchedAtMs: world.nowMs }));
    await world.seal([A], DAY, 3);
    await world.closeAll();
    const lineOf = async () => {
      const [proof] = await proveEvent(world.store, { event: idOf(2) });
      return checkProof(proof, parseVerifier(world.key)).line;
    };
    expect(await lineOf()).toMatchObject({ events: 3, held: 3 });
    await deletions().erase({ organization: A, event: idOf(1), from: null, to: null, reason: "x" }, never);
    const left = publicIdentityOf(A, Buffer.from(texts[1]!));
    expect(await lineOf()).toMatchObject({ held: 1, ids_sha256: hash("sha256", `${left}\n`) });
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A23 an erasure of some days leaves events of other days that came late on the same day", async () => {
    world = await openWorld();
    await closed();
    const next = "2026-03-11";
    await world.seal([A], next, 0);
    await world.closeAll();
    await world.events(A, DAY, 50, 2);
    await world.events(A, next, 60, 3);
    world.nowMs += 2 * DAY_MS;
    await world.closeAll();
    expect(world.archive.leaves().at(-1)).toMatchObject({ kind: "late", events: 5 });
    const erase = (day: string) =>
      deletions().erase({ organization: A, from: day, to: day, reason: "a person asked" }, never);
    expect(await erase(DAY)).toContain("6 events of 2 parts were erased");
    const text = await readAll();
    for (const number of [0, 50, 51]) expect(text).not.toContain(idOf(number));
    for (const number of [60, 61, 62]) expect(text).toContain(idOf(number));
    expect((await world.verify()).findings).toEqual([]);
    // What is left of the addition goes as a whole, with its secret.
    expect(await erase(next)).toContain("3 events of 2 parts were erased");
    expect(await readAll()).not.toContain(A);
    expect(world.archive.leaves().at(-1)).toMatchObject({
      kind: "erase",
      removed_lines: 1,
      replacement: null,
    });
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A23 dead letters of the erased days are gone; those on hold, of other days and of others stay", async () => {
    world = await openWorld();
    const letter = (id: number, organization: string | null, day: string, more: object = {}) =>
      world.db
        .prepare(
          `INSERT INTO dead_letters (id, reader, page, event, identity, reason, stored_ms, account, organization,
             provider, service, event_type, timestamp, fetched_ms, bytes, reason_group)
           VALUES (?, 'siem', 1, ?, ?, 'refused', 0, 'acme', ?, ?, 'sso', 'login', ?, ?, ?, 'refused')`,
        )
        .run(
          ...[id, id, String(id).padStart(32, "0"), organization, organization === null ? "portal" : null],
          ...[
            day && `${day}T10:00:00.123456Z`,
            Date.parse("2026-03-12"),
            Buffer.from(JSON.stringify({ id: `id-${id}`, ...more })),
          ],
        );
    letter(1, A, DAY);
    letter(2, A, "2026-03-11");
    letter(3, B, DAY);
    letter(4, A, DAY, { about: "id-5" });
    letter(5, A, DAY);
    // Without a usable time the day of arrival counts.
    letter(6, A, "");
    letter(7, null, DAY);
    const left = () => world.db.prepare("SELECT id FROM dead_letters ORDER BY id").pluck().all();
    const erase = (more: object) =>
      deletions().erase({ organization: A, from: null, to: null, reason: "asked", ...more }, never);

    expect(await erase({ event: "id-5" })).toContain("and 1 dead letters.");
    expect(left()).toEqual([1, 2, 3, 4, 6, 7]);
    const hold = await deletions().hold(
      { case: "Case 17", organizations: [A], from: "2026-03-11", to: "2026-03-11" },
      never,
    );
    const said = await erase({ to: "2026-03-11" });
    expect(said).toContain("and 2 dead letters.");
    expect(said).toContain(`1 dead letters are on hold (${hold}) and stay.`);
    expect(left()).toEqual([2, 3, 6, 7]);
    await deletions().release(hold, never);
    const all = await deletions().hold(
      { case: "All", organizations: [], from: "2026-03-12", to: null },
      never,
    );
    expect(await erase({})).toContain(`1 dead letters are on hold (${all}) and stay.`);
    expect(left()).toEqual([3, 6, 7]);
    expect(await erase({ organization: "provider:portal" })).toContain("and 1 dead letters.");
    expect(left()).toEqual([3, 6]);
  });

  test("A23 a dead letter whose batch is not delivered stays, is named, and goes when the order is repeated", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 4);
    const reader = await world.journal.reader("siem");
    const page = (await reader.read(reader.position))!;
    const reason = "its 9 bytes are more than the 8 that the destination takes";
    await reader.addDeadLetters([{ event: page.event(0), reason }]);
    const end = page.after(3);
    page.lease.release();
    const erase = () => deletions().erase({ organization: A, from: null, to: null, reason: "asked" }, never);
    const said = await erase();
    expect(said).toContain("and 0 dead letters.");
    expect(said).toContain("1 dead letters stay: a sink has not delivered the events around them yet");
    expect(said).toContain("Repeat the order");
    // The next process leaves the event out of its batch by this letter.
    expect(await reader.deadLettersAfter(reader.position)).toHaveLength(1);
    await reader.commit(end, undefined);
    expect(await erase()).toContain("and 1 dead letters.");
    expect(await reader.deadLettersAfter(startOf(world.journal.id))).toEqual([]);
  });

  test("A23 a tombstone keeps what is still in the journal, or comes again, out of the archive", async () => {
    world = await openWorld();
    await closed();
    await deletions().erase(
      { organization: A, event: idOf(99), from: null, to: null, reason: "a person asked" },
      never,
    );
    const late = [99, 100].map((number) =>
      eventText(number, { organization: A, timestamp: `${DAY}T20:00:0${number % 10}.000Z` }),
    );
    await world.journal.append(pageOf(late, { organizations: [A], fetchedAtMs: world.nowMs }));
    world.nowMs += 2 * DAY_MS;
    await world.closeAll();
    const text = await readAll();
    expect(text).not.toContain(idOf(99));
    expect(text).toContain(idOf(100));
  });

  const contractEnded = { organization: A, from: null, to: null, reason: "contract ended" };
  const caseOf = (organization: string) => ({
    ...{ case: "Case 17", organizations: [organization], from: null, to: null },
  });

  test("A22 events that are not closed yet stay while a hold is in force", async () => {
    world = await openWorld();
    for (const organization of [A, B]) await world.events(organization, DAY, organization === A ? 0 : 10, 4);
    await deletions().hold(caseOf(A), never);
    const said = await deletions().erase(contractEnded, never);
    expect(said).toContain("4 events that are not closed yet are on hold and stay");
    expect(said).toContain("0 events that are not closed yet are left out");
    const one = await deletions().erase({ ...contractEnded, event: idOf(2) }, never);
    expect(one).toContain("1 events that are not closed yet are on hold and stay");
    await world.seal([A, B], DAY, 8);
    await world.closeAll();
    expect((await world.verify()).events).toBe(8);
    // An addition to a closed day, too.
    await world.events(A, DAY, 50, 3);
    world.nowMs += 2 * DAY_MS;
    await world.closeAll();
    expect((await world.verify()).events).toBe(11);
    expect(world.archive.leaves().filter(({ kind }) => kind === "erase")).toEqual([]);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A22 a hold that comes after the erasure, or after the files were built, still counts", async () => {
    for (const isBuilt of [false, true]) {
      world = await openWorld();
      await world.events(A, DAY, 0, 4);
      await deletions().erase(contractEnded, never);
      await world.seal([A], DAY, 4);
      if (isBuilt)
        while (!world.state.plans().some(({ built }) => built !== undefined))
          await world.archive.closeStep(never);
      await deletions().hold(caseOf(A), never);
      await world.closeAll();
      expect((await world.verify()).events, String(isBuilt)).toBe(4);
      expect((await world.verify()).findings).toEqual([]);
      if (!isBuilt) world.end();
    }
  });

  test("A23 an erasure that comes after the files were built still counts", async () => {
    world = await openWorld();
    await world.events(A, DAY, 0, 4);
    await world.seal([A], DAY, 4);
    while (!world.state.plans().some(({ built }) => built !== undefined))
      await world.archive.closeStep(never);
    await deletions().erase(contractEnded, never);
    await world.closeAll();
    expect(await readAll()).not.toContain(A);
    expect((await world.verify()).findings).toEqual([]);
  });

  test("A23 the log names the events that are left out when their day is closed, with the reason", async () => {
    world = await openWorld();
    for (const organization of [A, B]) await world.events(organization, DAY, organization === A ? 0 : 10, 4);
    const said = await deletions().erase(contractEnded, never);
    expect(said).toContain("4 events that are not closed yet are left out");
    await world.seal([A, B], DAY, 8);
    await world.closeAll();
    const leaves = world.archive.leaves();
    const part = leaves.findLast(({ kind }) => kind === "day")!;
    expect(leaves.at(-1)).toMatchObject({ kind: "erase", leaf: part.index, removed_events: 4 });
    // The erasure explains why the line differs from what the service returned.
    expect(differingOf(world.state)).toEqual([]);
    expect((await world.verify()).findings).toEqual([]);
    expect((await world.verify()).events).toBe(4);
    const { html, isValid } = await reportHtml(world.store, {
      key: parseVerifier(world.key),
      nowMs: world.nowMs,
    });
    expect(isValid).toBe(true);
    expect(html).toContain("contract ended");
    expect(html).toContain(`${DAY} to ${DAY}: 4 events`);
    const [proof] = await proveEvent(world.store, { event: idOf(11) });
    expect(checkProof(proof, parseVerifier(world.key)).line.organization).toBe(B);
    // The part can be erased like any other.
    await deletions().erase({ ...contractEnded, organization: B }, never);
    expect((await world.verify()).findings).toEqual([]);
    expect((await world.verify()).events).toBe(0);
  });

  test("A23 an erasure without an end reaches up to its own day, and later events are archived", async () => {
    world = await openWorld();
    const today = new Date(world.nowMs).toISOString().slice(0, 10);
    const tomorrow = new Date(world.nowMs + DAY_MS).toISOString().slice(0, 10);
    expect(await deletions().erase(contractEnded, never)).toContain(`days up to ${today}`);
    await world.events(A, today, 0, 2);
    world.nowMs += 5 * DAY_MS;
    await world.events(A, tomorrow, 20, 3);
    await world.seal([A], today, 2);
    await world.seal([A], tomorrow, 3);
    await world.closeAll();
    const text = await readAll();
    expect(text).not.toContain(idOf(1));
    for (const number of [20, 21, 22]) expect(text).toContain(idOf(number));
  });

  test.skipIf(skipsS3)("A23 in S3 all versions of an erased file are gone", async () => {
    gateway = await startVersitygw(versitygw!);
    const client = s3Client(gateway.url);
    await client.send(new CreateBucketCommand({ Bucket: "versioned", ObjectLockEnabledForBucket: true }));
    const { url } = gateway;
    world = await openWorld({ openStore: () => openS3(s3Config("versioned", url), systemClock) });
    await closed();
    const versions = async () => {
      const { Versions = [], DeleteMarkers = [] } = await client.send(
        new ListObjectVersionsCommand({ Bucket: "versioned", Prefix: "events/" }),
      );
      return [...Versions, ...DeleteMarkers].map(({ Key }) => Key!);
    };
    const before = await versions();
    expect(before).toHaveLength(1);
    await deletions().erase({ organization: A, from: null, to: null, reason: "contract ended" }, never);
    const after = await versions();
    client.destroy();
    expect(after).toHaveLength(1);
    expect(after).not.toEqual(before);
    expect(await readAll()).not.toContain(A);
    expect((await world.verify()).findings).toEqual([]);
  });

  test.skipIf(skipsS3)(
    "A24 under a compliance lock it answers with the date and records the order; partial tiles are not locked",
    async () => {
      gateway = await startVersitygw(versitygw!);
      const client = s3Client(gateway.url);
      await client.send(new CreateBucketCommand({ Bucket: "locked", ObjectLockEnabledForBucket: true }));
      client.destroy();
      const { url } = gateway;
      world = await openWorld({
        openStore: () =>
          openS3({ ...s3Config("locked", url), objectLock: { mode: "compliance", days: 30 } }, systemClock),
      });
      await closed();
      expect((await world.verify()).findings).toEqual([]);
      const said = await deletions().erase(
        { organization: A, from: null, to: null, reason: "contract ended" },
        never,
      );
      expect(said).toMatch(/files are locked by the store until 20\d\d-/);
      expect(JSON.parse(world.state.fact("due")!)).toHaveLength(2);
      await expect(world.store.remove("log/tile/0/000.p/2")).resolves.toBeUndefined();
    },
  );
});

test("the report has one row for an order, with its reason, and for a stretch that many organizations miss", async () => {
  world = await openWorld();
  await closed();
  await world.events(A, "2026-03-11", 100, 2);
  await world.seal([A], "2026-03-11", 2);
  const refused = { state: "refused", reason: "403", askedMs: null, sweeps: 0, apiCount: null } as const;
  const four = ["1", "2", "3", "4"].map((digit) => digit.repeat(24));
  await world.seal(four, "2026-03-13", 0, { ...refused, heldCount: null }, 0);
  world.nowMs = Date.parse("2026-03-13") + 95 * DAY_MS;
  await world.closeAll();
  await deletions().erase({ organization: A, from: null, to: null, reason: "contract <ended>" }, never);
  const { html, isValid } = await reportHtml(world.store, {
    key: parseVerifier(world.key),
    nowMs: world.nowMs,
  });
  expect(isValid).toBe(true);
  expect(html).toContain("2026-03-10 to 2026-03-11: 6 events; 2 whole days of organizations");
  expect(html.match(/contract &lt;ended&gt;/g)).toHaveLength(1);
  expect(html).toContain(`4 organizations, among them ${four[0]}`);
  expect(html).toContain("1 days between them have no entry: 2026-03-12.");
  expect(html).toContain("refused: 403");
});

describe("A18 the wording of a case or a reason", () => {
  const key = () => parseVerifier(world.key);
  const pathOf = (kind: "hold" | "erase") =>
    filesNamedBy(world.archive.leaves().findLast((leaf) => leaf.kind === kind)!).at(-1)!;
  const report = () => reportHtml(world.store, { key: key(), nowMs: world.nowMs });

  async function withOrders(): Promise<void> {
    world = await openWorld();
    await closed();
    await deletions().hold({ case: "Case 17", organizations: [B], from: null, to: null }, never);
    await deletions().erase({ organization: A, from: null, to: null, reason: "contract ended" }, never);
  }

  test.each([
    ["hold", "Case 17"],
    ["erase", "contract ended"],
  ] as const)("of an entry %s can be erased, but not be changed", async (kind, wording) => {
    await withOrders();
    const path = pathOf(kind);
    const bytes = (await world.store.read(path))!;
    expect((await report()).html).toContain(wording);
    const forgeries = [
      Buffer.from(bytes.toString().replace(wording, "ordered by court")),
      Buffer.concat([bytes, Buffer.from("\n")]),
      bytes.subarray(0, -1),
      Buffer.alloc(0),
    ];
    for (const forged of forgeries) {
      await world.store.replace(path, forged);
      for (const quick of [true, false])
        expect((await world.verify({ quick })).findings).toMatchObject([{ check: "texts", subject: path }]);
      const { html, isValid } = await report();
      expect(isValid).toBe(false);
      expect(html).toContain("its wording was changed");
      expect(html).not.toContain("ordered by court");
      expect(html).not.toContain(wording);
    }
    await world.store.remove(path);
    expect((await world.verify()).findings).toEqual([]);
    const { html, isValid } = await report();
    expect(isValid).toBe(true);
    expect(html).toContain("its wording was erased");
    await world.store.replace(path, bytes);
    expect((await world.verify()).findings).toEqual([]);
    expect((await report()).html).toContain(wording);
  });
});

/** The object, with a failure before the step of this number. */
function failing<Target extends object>(target: Target, steps: { left: number }): Target {
  const counted = new Set(["setFact", "propose", "setProposal", "confirm", "create", "replace"]);
  return new Proxy(target, {
    get(object, name) {
      const method = Reflect.get(object, name);
      if (typeof method !== "function" || !counted.has(String(name))) return method;
      return async (...args: unknown[]) => {
        if (steps.left-- <= 0) throw new Error("crash");
        return method.apply(object, args);
      };
    },
  });
}

test("A22 holds in force and the log agree after a crash at any step of a hold and its release", async () => {
  const order = { case: "Case 17", organizations: [A], from: null, to: null };
  let crashes = 0;
  for (const isRelease of [false, true])
    for (let left = 0; ; left++) {
      world = await openWorld();
      const id = isRelease ? await deletions().hold(order, never) : undefined;
      const steps = { left: Number.POSITIVE_INFINITY };
      await world.restart({}, (target) => failing(target, steps));
      steps.left = left;
      const isDone = await (id === undefined
        ? deletions().hold(order, never)
        : deletions().release(id, never)
      )
        .then(() => true)
        .catch(() => false);
      await world.restart();
      await deletions().finish(never);
      const logged = world.archive.leaves();
      const inLog = logged.filter(({ kind }) => kind === "hold").length;
      const released = logged.filter(({ kind }) => kind === "release").length;
      expect(deletions().holds(), `step ${left}`).toHaveLength(inLog - released);
      expect((await world.verify()).findings).toEqual([]);
      const { html } = await reportHtml(world.store, { key: parseVerifier(world.key), nowMs: world.nowMs });
      if (inLog > released) expect(html).toContain("Case 17");
      if (isDone) break;
      crashes++;
      world.end();
    }
  expect(crashes).toBeGreaterThan(15);
});

test("A24 a lock that lasts longer than the days are kept is refused before anything is written", async () => {
  world = await openWorld();
  const config = archiveSchema.parse({
    origin: ORIGIN,
    key: { env: "KEY" },
    keep: "400d",
    store: { s3: { bucket: "b", objectLock: { mode: "compliance", days: 401 } } },
  });
  const open = () =>
    openConfigured(
      config,
      world.state,
      world.store,
      systemClock,
      world.folder,
      () => {},
      async () => undefined,
      never,
    );
  await expect(open()).rejects.toThrow("(401 days) exceeds its shortest `keep` (400 days)");
});

describe("keys", () => {
  test("A20 a key that the old one does not confirm is refused before anything is signed", async () => {
    world = await openWorld();
    await closed();
    const next = parseSigner(newSignerText(ORIGIN));
    await expect(world.restart({ signer: next })).rejects.toThrow(
      "not the one that this archive was signed with",
    );
    await expect(world.restart({ signer: next })).rejects.toThrow("Nothing was signed");
  });

  test("A20 with the old key at hand the new one takes over", async () => {
    const signer = parseSigner(newSignerText(ORIGIN));
    world = await openWorld({ signer });
    await closed();
    const next = parseSigner(newSignerText(ORIGIN));
    await world.restart({ signer: next, previousSigner: signer });
    await world.seal([A], "2026-03-12", 0);
    await world.closeAll();
    await world.restart({ previousSigner: undefined as never });
    expect((await world.verify({ key: signer.verifier })).findings).toEqual([]);
    expect((await world.verify({ key: next.verifier })).findings).toEqual([]);
    expect((await world.store.read("keys.txt"))!.toString()).toBe(
      `${signer.verifier.text}\n${next.verifier.text}\n`,
    );
    // Without the old signature on the checkpoint that introduced it, the new key is not accepted.
    const path = world.archive.leaves().find((leaf) => leaf.kind === "key" && leaf.previous !== null)!;
    const note = (await world.store.read(`log/checkpoint.${path.index + 1}`))!.toString().split("\n");
    await world.store.replace(
      `log/checkpoint.${path.index + 1}`,
      Buffer.from([...note.slice(0, 4), ...note.slice(5)].join("\n")),
    );
    expect((await world.verify({ key: signer.verifier })).findings[0]!.message).toContain(
      "not confirmed by the old one",
    );
  });
});

test("A11 an erased event that the service has deleted too does not hide one that is missing", async () => {
  world = await openWorld();
  const texts = await world.events(A, DAY, 0, 5);
  await world.seal([A], DAY, 5);
  await world.closeAll();
  const { id } = JSON.parse(texts[0]!) as { id: string };
  await deletions().erase({ organization: A, from: null, to: null, event: id, reason: "request" }, never);
  const compare = (returned: readonly string[]) =>
    reconcileArchive(
      world.store,
      async function* () {
        for (const text of returned)
          yield {
            identity: publicIdentityOf(A, Buffer.from(text)),
            id: (JSON.parse(text) as { id: string }).id,
          };
      },
      {
        ...{ from: DAY, to: DAY, organizations: new Set<string>(), keptFromMs: 0 },
        isErased: erasuresOf(world.db, "evidence"),
      },
      never,
    );
  expect(await compare(texts)).toMatchObject({ returned: 5, held: 4, erased: 1, missing: 0 });
  const lost = texts[1]!.replace(/"id":"[^"]*"/, '"id":"lost"');
  expect(await compare([...texts.slice(1), lost])).toMatchObject({
    ...{ returned: 5, held: 4, erased: 0, missing: 1 },
    incomplete: [{ missingIds: ["lost"] }],
  });
});
