import { afterEach, beforeEach, expect, test } from "vitest";
import { openStateForReading } from "../../src/journal/database.ts";
import { createWindows } from "../../src/journal/windows.ts";
import { type JournalFixture, openFixture } from "./support.ts";

let fixture: JournalFixture;
beforeEach(() => {
  fixture = openFixture();
});
afterEach(() => fixture.close());

const put = (key: string) => fixture.db.prepare("INSERT INTO meta (key, value) VALUES (?, '')").run(key);

test("changes run one after the other, each in a transaction of its own, and give what their work gives", async () => {
  const seen: string[] = [];
  const results = await Promise.all(
    ["k1", "k2", "k3"].map((key) =>
      fixture.db.change(() => {
        seen.push(`${key} ${fixture.db.inTransaction}`);
        return put(key).changes;
      }),
    ),
  );
  expect(results).toEqual([1, 1, 1]);
  expect(seen).toEqual(["k1 true", "k2 true", "k3 true"]);
});

test("a change that throws changes nothing, and the next one runs", async () => {
  const failing = fixture.db.change(() => {
    put("k1");
    throw new Error("no");
  });
  const next = fixture.db.change(() => put("k2"));
  await expect(failing).rejects.toThrow("no");
  await next;
  expect(fixture.db.prepare("SELECT key FROM meta WHERE key LIKE 'k%'").pluck().all()).toEqual(["k2"]);
});

test("a stream whose commit failed is not taken for the next one, which would get its number", async () => {
  const windows = createWindows(fixture.db, { add: () => [], fill: () => {}, meet: () => {} });
  const streamOf = (organization: string) =>
    windows.stream({ account: "acme", provider: null, organizations: [organization], services: ["all"] });
  const failing = fixture.db.change(() => {
    streamOf("a".repeat(24));
    throw new Error("database or disk is full");
  });
  await expect(failing).rejects.toThrow("full");
  const stream = await fixture.db.change(() => streamOf("b".repeat(24)));
  expect(stream.organizations).toEqual(["b".repeat(24)]);
  const stored = fixture.db.prepare("SELECT organizations FROM streams WHERE id = ?").pluck();
  expect(stored.get(stream.id)).toBe(JSON.stringify(["b".repeat(24)]));
});

test("a state file that was opened for reading takes no change", async () => {
  const reading = openStateForReading(fixture.file);
  try {
    await expect(reading.change(() => reading.exec("DELETE FROM meta"))).rejects.toThrow("readonly");
  } finally {
    reading.close();
  }
});
