import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Sqlite } from "../../../src/core/sqlite.ts";
import { DAY_MS } from "../../../src/core/time.ts";
import { newWindow } from "../../../src/core/window.ts";
import { migrations } from "../../../src/journal/migrations.ts";
import { beginPass } from "../../../src/polling/read/pass.ts";
import { contentOf, type LaneFixture, laneFixture } from "./support.ts";

const START_MS = Date.UTC(2026, 2, 10);
const TOKEN = JSON.stringify([1_773_100_800_123, "token-0123456789"]);

let fixture: LaneFixture;
let before: ReturnType<typeof contentOf>;
let told: string[];
beforeEach(async () => {
  told = [];
  fixture = laneFixture();
  const lane = await fixture.open();
  const { journal } = lane;
  const stream = await journal.stream({
    account: "acme",
    provider: null,
    organizations: ["a".repeat(24)],
    services: ["all"],
  });
  const pass = { ...beginPass(START_MS, START_MS + DAY_MS, 1000, { begunMs: START_MS }), cursor: TOKEN };
  await journal.changeWindows({ add: [newWindow(stream, START_MS, START_MS + DAY_MS, { pass })] });
  const reader = await journal.reader("siem");
  await reader.commit({ ...reader.position, page: 3, event: 2, hash: "0123abcd" }, undefined);
  await lane.close();
  before = contentOf(fixture.fileOf("one"));
});
afterEach(() => fixture.close());

type Lane = Awaited<ReturnType<LaneFixture["open"]>>;
const open = (machine = "one", options = {}) =>
  fixture.open(machine, {
    damagedCopy: (problems) => told.push(...problems.map((problem) => `copy: ${problem}`)),
    repaired: (rows) => told.push(...rows.map((row) => `log: ${row}`)),
    ...options,
  });

/** Changes the closed file as a disk does: no trigger runs. */
function onDisk(sql: string): void {
  const db = new Sqlite(fixture.fileOf("one"));
  const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all() as {
    name: string;
    sql: string;
  }[];
  db.unsafeMode(true);
  db.pragma("foreign_keys = OFF");
  for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
  db.exec(sql);
  for (const { sql: trigger } of triggers) db.exec(trigger);
  db.close();
}

/** Writes a damaged row to the log: the columns change, and the checksum stays. */
async function inLog(sql: string, table: string): Promise<void> {
  const lane = await fixture.open();
  const { state } = lane;
  await state.change(() => {
    const checksum = state.prepare(`SELECT row_checksum FROM ${table}`).pluck().get();
    state.prepare(sql).run();
    state.prepare(`UPDATE ${table} SET row_checksum = ?`).run(checksum);
  });
  await lane.close();
}

async function contentNow(lane: Lane): Promise<ReturnType<typeof contentOf>> {
  await lane.close();
  return contentOf(fixture.fileOf("one"));
}

describe("R37 a damaged copy of a lane is built anew from its log", () => {
  test.each([
    ["the cursor of a window", `UPDATE windows SET pass = replace(pass, 'token-', 'tokeo-')`],
    ["several bits of a window", "UPDATE windows SET from_ms = from_ms + 12345678"],
    ["the position of a sink", "UPDATE readers SET event = event + 1024 WHERE name = 'siem'"],
    ["the id of a stream", "UPDATE streams SET id = id + 16"],
    ["the list of migrations", "UPDATE migrations SET number = 3 WHERE number = 1"],
    [
      "an index",
      `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '(state', '(stream') WHERE name = 'windows_by_state'`,
    ],
  ])("%s", async (_, sql) => {
    onDisk(sql);
    const lane = await open();
    expect(lane.replay.kind).toBe("rebuilt");
    expect(await contentNow(lane)).toEqual(before);
    expect(told.join()).toMatch(/^copy: /);
    told = [];
    expect((await open()).replay.kind).toBe("continued");
    expect(told).toEqual([]);
  });

  test.each(["hash", "sequence", "bodyOffset"])(
    "the %s of its tip: that is no loss of the log",
    async (field) => {
      onDisk(
        `UPDATE replica_tip SET tip = json_set(tip, '$.${field}', ${field === "hash" ? "'0a'" : `json_extract(tip, '$.${field}') + 4096`})`,
      );
      const lane = await open();
      expect(lane.replay.kind).toBe("rebuilt");
      expect(await contentNow(lane)).toEqual(before);
    },
  );

  test("where its caller found the damage", async () => {
    const lane = await open("one", { anew: true });
    expect(lane.replay.kind).toBe("rebuilt");
    expect(await contentNow(lane)).toEqual(before);
  });
});

describe("R37 a damaged row in the log of a lane", () => {
  test("is turned back where one bit is wrong, on every machine", async () => {
    await inLog(`UPDATE windows SET from_ms = ${Number(BigInt(START_MS) ^ 4096n)}`, "windows");
    for (const machine of ["one", "two"]) {
      told = [];
      const lane = await open(machine);
      const [window] = await lane.journal.windows({});
      expect(window).toMatchObject({ fromMs: START_MS });
      expect(told).toContain("log: windows 1");
      await lane.close();
    }
  });

  test("stops the lane where more are wrong: it must not be used, nor written with a right checksum by an upgrade", async () => {
    await inLog("UPDATE windows SET from_ms = from_ms + 12345678", "windows");
    const later = [
      ...migrations(),
      { number: 9001, name: "9001-later", sql: "UPDATE windows SET row_checksum = NULL" },
    ];
    for (const options of [{}, { migrations: later }, {}])
      for (const machine of ["one", "two"])
        await expect(open(machine, options)).rejects.toThrow(
          /lane 0 in Kafka is damaged \(the row 1 of windows does not fit its checksum\)/,
        );
  });
});
