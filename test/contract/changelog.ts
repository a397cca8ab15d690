import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type Changelog,
  FencedError,
  type LaneLog,
  type LogName,
  type LogRecord,
  type StoredRecord,
} from "../../src/core/changelog.ts";

/** A changelog for one test, with two lanes that were just made. */
export interface OpenedChangelog {
  readonly changelog: Changelog;
  close(): Promise<void>;
}

const never = new AbortController().signal;
const record = (key: string, value: string | null): LogRecord => ({
  key: JSON.stringify([key]),
  value: value === null ? null : Buffer.from(value),
});

export async function readAll(log: LaneLog, name: LogName, from = 0): Promise<readonly StoredRecord[]> {
  const records: StoredRecord[] = [];
  for await (const slice of log.read(name, from, never)) records.push(...slice);
  return records;
}

function texts(records: readonly StoredRecord[]): readonly string[] {
  return records
    .filter(({ key }) => !key.startsWith('["~'))
    .map(({ key, value }) => `${JSON.parse(key)[0]}=${value === null ? "gone" : Buffer.from(value)}`);
}

/** The suite that every changelog passes; it knows nothing but the contract. */
export function testChangelog(name: string, open: () => Promise<OpenedChangelog>, skip = false): void {
  describe.skipIf(skip)(`the contract of a changelog: ${name}`, () => {
    let opened: OpenedChangelog;
    const logs: LaneLog[] = [];
    beforeEach(async () => {
      opened = await open();
    });
    afterEach(async () => {
      for (const log of logs.splice(0)) await log.close();
      await opened.close();
    });
    async function openLog(lane = 0): Promise<LaneLog> {
      const log = await opened.changelog.open(lane, never);
      logs.push(log);
      return log;
    }

    test("C7 a lane has its birth record, and a lane that was never made has none", async () => {
      expect(await opened.changelog.birth(1, never)).toMatchObject({ lane: 1, lanes: 2 });
      expect(await opened.changelog.birth(7, never)).toBeUndefined();
    });

    test("gives back rows and bodies in order, removals included, and tells their offsets", async () => {
      const log = await openLog();
      const one = await log.commit({
        rows: [record("a", "1"), record("b", "2")],
        bodies: [record("x", "11")],
      });
      const two = await log.commit({ rows: [record("a", null)], bodies: [] });
      expect(two.bodyOffset).toBeUndefined();
      const rows = await readAll(log, "rows");
      expect(texts(rows)).toEqual(["a=1", "b=2", "a=gone"]);
      expect(rows.map(({ offset }) => offset)).toContain(one.rowOffset);
      expect(rows.at(-1)!.offset).toBe(two.rowOffset);
      expect(texts(await readAll(log, "rows", one.rowOffset + 1))).toEqual(["a=gone"]);
      const bodies = await readAll(log, "bodies");
      expect(texts(bodies)).toEqual(["x=11"]);
      expect(bodies[0]!.offset).toBe(one.bodyOffset);
      expect(await readAll(log, "rows", two.rowOffset + 1000)).toEqual([]);
    });

    test("lanes do not see each other's records", async () => {
      const [zero, one] = [await openLog(0), await openLog(1)];
      await zero.commit({ rows: [record("a", "zero")], bodies: [] });
      await one.commit({ rows: [record("a", "one")], bodies: [] });
      expect(texts(await readAll(zero, "rows"))).toEqual(["a=zero"]);
      expect(texts(await readAll(one, "rows"))).toEqual(["a=one"]);
    });

    test("C5 a second opening fences the first: nothing that the first commits afterwards is read", async () => {
      const first = await openLog();
      await first.commit({ rows: [record("a", "1")], bodies: [] });
      const second = await openLog();
      await expect(
        first.commit({ rows: [record("a", "zombie")], bodies: [record("x", "zombie")] }),
      ).rejects.toBeInstanceOf(FencedError);
      await second.commit({ rows: [record("a", "2")], bodies: [] });
      expect(texts(await readAll(second, "rows"))).toEqual(["a=1", "a=2"]);
      expect(texts(await readAll(second, "bodies"))).toEqual([]);
    });

    test("C8 a commit of many rows and large bodies stays below the limit of a message", async () => {
      const log = await openLog();
      const large = "x".repeat(600_000);
      const rows = Array.from({ length: 6 }, (_, at) => record(`r${at}`, large));
      await log.commit({ rows, bodies: rows });
      const read = await readAll(log, "rows");
      expect(read.filter(({ value }) => value?.length === 600_000)).toHaveLength(6);
      expect(await readAll(log, "bodies")).toHaveLength(6);
    });

    test("C8 bodies before an offset are dropped, later ones stay", async () => {
      const log = await openLog();
      await log.commit({ rows: [record("a", "1")], bodies: [record("x", "1")] });
      const later = await log.commit({ rows: [record("a", "2")], bodies: [record("y", "2")] });
      await log.dropBodies(later.bodyOffset!);
      expect(texts(await readAll(log, "bodies"))).toEqual(["y=2"]);
      expect(texts(await readAll(log, "rows"))).toEqual(["a=1", "a=2"]);
    });
  });
}
