import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { createDeletions } from "../../src/archive/deletion/deletion.ts";
import { checkProof, proveEvent } from "../../src/archive/evidence/prove.ts";
import { readEntries, readLog } from "../../src/archive/evidence/read.ts";
import { reconcileArchive } from "../../src/archive/evidence/reconcile.ts";
import { currentParts } from "../../src/archive/log/current-parts.ts";
import { parseVerifier } from "../../src/archive/log/note.ts";
import { systemClock } from "../../src/core/clock.ts";
import { heldEvents } from "../../src/core/held-event.ts";
import { pageOf } from "../support/pages.ts";
import { identitiesHash } from "./public-identity.ts";
import { A, DAY, never, openWorld, type World } from "./world.ts";

let world: World;
afterEach(() => world.end());

/** How an id is written in the event, and the text that a person looks for. */
const IDS = [
  ['"plain-1"', "plain-1"],
  ['"a\\/b-2"', "a/b-2"],
  ['"\\u0041bc-3"', "Abc-3"],
  ["12345678901234567890", "12345678901234567890"],
  ["12345678901234567891", "12345678901234567891"],
  ["77", "77"],
  ["1.50", "1.50"],
] as const;

const TEXTS = IDS.map(
  ([id], at) =>
    `{"id":${id},"event_type":"x","timestamp":"${DAY}T00:00:0${at}Z","service":"sso","organization":"${A}"}`,
);
const EVENTS = heldEvents(
  A,
  TEXTS.map((text) => Buffer.from(text)),
);

async function closed(): Promise<void> {
  world = await openWorld();
  await world.journal.append(pageOf(TEXTS, { organizations: [A], fetchedAtMs: world.nowMs }));
  await world.seal([A], DAY, TEXTS.length);
  await world.closeAll();
}

function erase(event: string): Promise<string> {
  const { archive, store, state } = world;
  const deletions = createDeletions({
    ...{ archive, store, state },
    clock: { now: () => world.nowMs, sleep: systemClock.sleep },
    config: { keep: "400d", classes: [] },
    workFolder: join(world.folder, "deleting"),
  });
  return deletions.erase({ organization: A, from: null, to: null, event, reason: "asked" }, never);
}

const provedOf = async (event: string) =>
  (await proveEvent(world.store, { event })).map(
    (proof) => `${checkProof(proof, parseVerifier(world.key)).event}`,
  );

test("A15 an event is proved by its id, however the service spells it, and by its identity", async () => {
  await closed();
  for (const [at, [, id]] of IDS.entries()) {
    expect(await provedOf(id), id).toEqual([TEXTS[at]]);
    expect(await provedOf(EVENTS[at]!.identity), id).toEqual([TEXTS[at]]);
    expect(await provedOf(EVENTS[at]!.identity.toUpperCase()), id).toEqual([TEXTS[at]]);
  }
  // A number is its digits: another one that has the same value as a double is another event.
  expect(await provedOf("12345678901234567000")).toEqual([]);
  expect(await provedOf("1.5")).toEqual([]);
});

test("an erasure of one event erases that one, and the rest keeps its identities", async () => {
  await closed();
  expect(await erase("12345678901234567000")).toContain("Nothing matches");
  for (const id of ["12345678901234567890", "Abc-3"])
    expect(await erase(id)).toContain("1 events of 1 parts were erased");
  for (const [at, [, id]] of IDS.entries()) {
    const isErased = ["12345678901234567890", "Abc-3"].includes(id);
    expect(await provedOf(id), id).toEqual(isErased ? [] : [TEXTS[at]]);
  }
  const { files } = currentParts((await readLog(world.store)).leaves)[0]!;
  const [entry] = await readEntries(world.store, files!);
  const left = EVENTS.filter((_, at) => at !== 2 && at !== 3).map(({ identity }) => identity);
  expect("line" in entry! && entry.line.ids_sha256).toBe(identitiesHash(left));
  expect((await world.verify()).isValid).toBe(true);
});

test("a dead letter is erased by a number that no double can hold", async () => {
  await closed();
  const insert = world.db.prepare(
    `INSERT INTO dead_letters (id, reader, page, event, identity, reason, stored_ms, account, organization, provider,
       service, event_type, timestamp, fetched_ms, bytes, reason_group)
     VALUES (?, 'siem', 1, ?, ?, 'refused', 0, 'acme', ?, NULL, 'sso', 'x', ?, ?, ?, 'refused')`,
  );
  for (const [at, text] of TEXTS.entries())
    insert.run(at + 1, at, EVENTS[at]!.identity, A, `${DAY}T00:00:00Z`, world.nowMs, Buffer.from(text));
  expect(await erase("12345678901234567891")).toContain("and 1 dead letters.");
  expect(world.db.prepare("SELECT id FROM dead_letters ORDER BY id").pluck().all()).toEqual([
    1, 2, 3, 4, 6, 7,
  ]);
});

test("A11 a comparison with the service finds the same identities on both sides", async () => {
  await closed();
  const result = await reconcileArchive(
    world.store,
    async function* () {
      for (const { identity, id } of EVENTS) yield { identity, id: id! };
    },
    { from: DAY, to: DAY, organizations: new Set([A]), keptFromMs: 0, isErased: () => false },
    never,
  );
  expect(result).toMatchObject({ returned: TEXTS.length, held: TEXTS.length, onlyHeld: 0, missing: 0 });
});
