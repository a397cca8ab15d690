import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createImports } from "../../src/imports/create-imports.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import type { StartAnswer } from "../../src/imports/source.ts";
import { createJob, startImport } from "../../src/imports/start.ts";
import { backUp, restore, restoredMs } from "../../src/journal/backup.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { temporaryFolder } from "../journal/support.ts";
import {
  definitionOf,
  eventOf,
  forever,
  type HandClock,
  handClock,
  heardLog,
  jobsOf,
  sourceOf,
  startContext,
  worker,
} from "./support.ts";

const started = (serviceJob: string): StartAnswer => ({ kind: "started", serviceJob });

let folder: ReturnType<typeof temporaryFolder>;
let file: string;
let copy: string;
let db: State;
let clock: HandClock;

beforeEach(() => {
  folder = temporaryFolder();
  file = join(folder.path, "state.db");
  copy = join(folder.path, "copy.db");
  db = openState(file);
  clock = handClock("2026-02-01T01:00:00Z");
  createJournal(db, clock);
});
afterEach(() => {
  db.close();
  folder.remove();
});

function run(source: ReturnType<typeof sourceOf>, changes = {}) {
  return createImports({
    ...{ db, clock, definitions: [definitionOf(changes)], source: () => source, accounts: ["acme"] },
    log: heardLog(),
    restoredMs: restoredMs(db),
  });
}

const backup = () => backUp(file, copy, { nowMs: clock.now(), signal: forever });

async function putBack(): Promise<void> {
  db.close();
  await restore(file, copy, clock.now());
  db = openState(file);
}

it("R28 a scheduled run that started after the copy was made is not started again after the restore", async () => {
  const source = sourceOf([started("j1"), started("j2")]);
  await run(source).step(forever);
  await backup();
  clock.set("2026-02-01T02:00:00Z");
  await run(source).step(forever);
  expect(source.starts).toHaveLength(1);
  clock.set("2026-02-01T02:10:00Z");
  await putBack();
  const imports = run(source);
  await imports.step(forever);
  expect(source.starts).toHaveLength(1);
  const [missed] = jobsOf(db).store.runs.list({ limit: 9 });
  expect(missed).toMatchObject({ local: "2026-02-01T02:00", outcome: "missed" });
  expect(missed!.reason).toContain("may have run before");
  clock.set("2026-02-02T02:00:00Z");
  await imports.step(forever);
  expect(source.starts).toHaveLength(2);
});

it("R28 an import that waited when the copy was made is not sent after the restore, and its events resolve it", async () => {
  const busy: StartAnswer = { kind: "unavailable", reason: "429", retryAfterMs: 60_000 };
  const source = sourceOf([busy, started("j1")], undefined, [worker("ada")]);
  const order = orderOf(definitionOf({ schedule: undefined }));
  await startImport(startContext(db, source, clock, heardLog()), order, forever);
  await backup();
  clock.advance(70_000);
  await run(source, { schedule: undefined }).step(forever);
  expect(source.starts).toHaveLength(2);
  clock.advance(10 * 60_000);
  await putBack();
  const imports = run(source, { schedule: undefined });
  await imports.step(forever);
  expect(source.starts).toHaveLength(2);
  expect(jobsOf(db).list({})).toMatchObject([{ state: "uncertain" }]);
  const event = eventOf({
    ...{ id: "e1", event_type: "user_create", timestamp: "2026-02-01T01:01:20Z", service: "directory" },
    ...{ organization: "o1", correlation: { id: "j1", type: "user_import" }, application: { id: "app1" } },
    ...{ resource: { type: "user", id: "u1", username: "ada" }, success: true },
  });
  await imports.apply([event]);
  await imports.step(forever);
  expect(jobsOf(db).job(1)).toMatchObject({ serviceJob: "j1", state: "finished" });
});

it("R28 an import whose users were not read yet when the copy was made is not sent after the restore", async () => {
  const source = sourceOf([started("j1")]);
  const context = startContext(db, source, clock, heardLog());
  await context.store.change(() => createJob(context, orderOf(definitionOf())));
  await backup();
  clock.advance(10 * 60_000);
  await putBack();
  await run(source).step(forever);
  expect(source.starts).toEqual([]);
  expect(jobsOf(db).list({})).toMatchObject([{ state: "uncertain" }]);
});

it("a list that was stored in part when the copy was made does not keep its events from resolving the import", async () => {
  const context = startContext(db, sourceOf([]), clock, heardLog());
  await context.store.change(() => {
    const { id } = createJob(context, orderOf(definitionOf()));
    const slice = [{ user: worker("ada"), part: 0, skipped: null, isPosted: false }];
    context.store.users.offer(id, slice);
  });
  await backup();
  clock.advance(60_000);
  await putBack();
  const imports = run(sourceOf([]), { schedule: undefined });
  const event = eventOf({
    ...{ id: "e1", event_type: "user_create", timestamp: "2026-02-01T01:01:20Z", service: "directory" },
    ...{ organization: "o1", correlation: { id: "j1", type: "user_import" }, application: { id: "app1" } },
    ...{ resource: { type: "user", id: "u2", username: "bob" }, success: true },
  });
  clock.advance(10 * 60_000);
  await imports.apply([event]);
  await imports.step(forever);
  expect(jobsOf(db).job(1)).toMatchObject({ serviceJob: "j1", counts: { created: 1, pending: 0 } });
});

it("a part whose time has not come at the restore is sent", async () => {
  const busy: StartAnswer = { kind: "unavailable", reason: "429", retryAfterMs: 600_000 };
  const source = sourceOf([busy, started("j1")], undefined, [worker("ada")]);
  const order = orderOf(definitionOf({ schedule: undefined }));
  await startImport(startContext(db, source, clock, heardLog()), order, forever);
  await backup();
  clock.advance(60_000);
  await putBack();
  clock.advance(600_000);
  await run(source, { schedule: undefined }).step(forever);
  expect(source.starts).toHaveLength(2);
});
