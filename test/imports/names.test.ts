import { readdirSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { silentLog } from "../../src/core/log.ts";
import { Sqlite } from "../../src/core/sqlite.ts";
import { chooseUsers, limitToOperations } from "../../src/imports/choose.ts";
import { createImports } from "../../src/imports/create-imports.ts";
import { choiceSchema } from "../../src/imports/job.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import { startImport } from "../../src/imports/start.ts";
import type { ImportState } from "../../src/imports/store/open.ts";
import { createChange } from "../../src/journal/change.ts";
import {
  definitionOf,
  eventOf,
  forever,
  handClock,
  jobsOf,
  openState,
  sourceOf,
  startContext,
  worker,
} from "./support.ts";

const clock = handClock("2026-02-01T01:00:00Z");
let db: ImportState;
beforeEach(() => {
  db = openState();
});
afterEach(() => db.close());

const importsOf = (state: ImportState) =>
  createImports({
    ...{ db: state, definitions: [], source: () => sourceOf([]), accounts: ["acme"], clock, log: silentLog },
  });

const created = (resource: object) =>
  eventOf({
    ...{ id: JSON.stringify(resource), timestamp: "2026-02-01T01:00:01Z", organization: "o1" },
    ...{ event_type: "user_create", correlation: { id: "j1", type: "user_import" } },
    resource: { type: "user", ...resource },
  });

const NAMES: [string, string][] = [
  ["Jo.MÜLLER", "jo.müller"],
  ["jo.müller", "Jo.MÜLLER"],
  ["Zoë".normalize("NFD"), "zoë".normalize("NFC")],
  ["ZOË".normalize("NFC"), "zoë".normalize("NFD")],
  ["ΝΙΚΟΣ", "νικοσ"],
  ["İnci", "inci"],
  ["ЖАННА", "жанна"],
  ["Ann.Smith", "ann.smith"],
];

it.each(NAMES)(
  "the offered user %s is the user %s of an event, by username and by e-mail",
  async (offered, told) => {
    const offer = [worker(offered, { email: undefined }), { email: `${offered}@x.test`, attributes: [] }];
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, offer);
    const { id } = await startImport(
      startContext(db, source, clock, silentLog),
      orderOf(definitionOf()),
      forever,
    );
    const imports = importsOf(db);
    await imports.apply([created({ username: told }), created({ email: `${told}@x.test` })]);
    await imports.step(forever);
    const { store } = jobsOf(db);
    expect(store.job(id)!.summary).toBe("2 offered: 2 created, 0 unaccounted");
    expect(store.users.names(id)[0]).toEqual(
      store.users.names(id)[1]!.map((name) => name.replace("@x.test", "")),
    );
  },
);

it.each(NAMES)("%s is excluded as %s, found as an existing user, and offered once", (offered, told) => {
  const choice = choiceSchema.parse({ exclude: [told] });
  expect(chooseUsers([worker(offered)], choice, undefined)[0]!.skipped).toBe("excluded");
  const existing = [{ ...worker(told), id: "u1" }];
  expect(limitToOperations([worker(offered)], ["users.create"], existing)[0]!.skipped).toMatch(
    /^exists already/,
  );
  const twice = chooseUsers([worker(offered), worker(told)], choiceSchema.parse({}), undefined);
  expect(twice[1]!.skipped).toBe("the source offers the same user more than once");
  const listed = limitToOperations([worker(offered), worker(told)], ["users.create"], undefined);
  expect(listed.map(({ skipped }) => skipped)).toEqual([
    null,
    "the source offers the same user more than once",
  ]);
});

it("users that an earlier version stored are found by any of their letters", async () => {
  const folder = new URL("../../src/journal/migrations/", import.meta.url);
  const files = readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .sort();
  const plain = new Sqlite(":memory:");
  const old = Object.assign(plain, { change: createChange(plain) });
  const run = (names: string[]) => {
    for (const name of names) old.exec(readFileSync(new URL(name, folder), "utf8"));
  };
  run(files.filter((name) => name < "0031"));
  old.exec(
    `INSERT INTO jobs (id, account, organization, kind, source, request, origin, requested_by, requested_ms,
       answer_by_ms, service_job, state, state_ms, quiet_after_ms, finish_after_ms, active_ms, offered_ms)
     VALUES (1, 'acme', 'o1', 'application', 'app1', '{}', 'command', 'ann', ${clock.now()}, ${clock.now()}, 'j1',
       'running', ${clock.now()}, 120000, 900000, ${clock.now()}, ${clock.now()});
     INSERT INTO job_parts (job, part, account, state, service_job, at_ms) VALUES (1, 0, 'acme', 'taken', 'j1', 0)`,
  );
  const insert = old.prepare(
    `INSERT INTO job_users (job, username, email, outcome, told_by, number, part)
     VALUES (1, ?, ?, 'pending', 'events', ?, 0)`,
  );
  insert.run("Jo.MÜLLER", null, 0);
  insert.run("Ann.Smith", null, 1);
  insert.run(null, "ZOË@x.test", 2);
  insert.run(null, "Bob@x.test", 3);
  run(files.filter((name) => name >= "0031"));
  const imports = importsOf(old);
  await imports.apply([
    created({ username: "ann.smith" }),
    created({ username: "jo.müller" }),
    created({ email: "zoë@x.test" }),
    created({ email: "bob@x.test" }),
  ]);
  await imports.step(forever);
  expect(jobsOf(old).job(1)).toMatchObject({
    state: "finished",
    summary: "4 offered: 4 created, 0 unaccounted",
  });
  old.close();
});
