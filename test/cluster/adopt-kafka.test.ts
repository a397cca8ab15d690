import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { adopt } from "../../src/app/cluster/adopt.ts";
import { connectKafka } from "../../src/app/cluster/connect-kafka.ts";
import { openApp } from "../../src/app.ts";
import { createKafkaChangelog } from "../../src/cluster/kafka-changelog.ts";
import { loadConfig } from "../../src/config/load.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { shareOf } from "../../src/core/shard.ts";
import { openState } from "../../src/journal/database.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { openLane } from "../../src/journal/replication/open.ts";
import { createRoster } from "../../src/journal/roster.ts";
import { temporaryFolder } from "../journal/support.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { eventText, ORGANIZATION, OTHER_ORGANIZATION, pageOf } from "../support/pages.ts";

const suite = await useKafka();
const never = new AbortController().signal;
const LANES = 2;
const BOTH = [ORGANIZATION, OTHER_ORGANIZATION];

/** A row of the state does not fit its checksum any more, or fits it again. */
function damage(file: string, by: number): void {
  const db = openState(file);
  db.exec(`UPDATE readers SET row_checksum = row_checksum + ${by}`);
  db.close();
}

describe.skipIf(suite.skip)("adopting a state into Kafka", () => {
  test("C16 nothing adopted is new to its lane, the old file is marked, and a damaged file and a second adoption are refused", async () => {
    const folder = temporaryFolder();
    const name = `adopt-${randomBytes(4).toString("hex")}`;
    const old = join(folder.path, "old.db");
    const events = BOTH.flatMap((organization, of) =>
      Array.from({ length: 20 }, (_, at) => eventText(of * 100 + at, { organization })),
    );
    const source = openState(old);
    const journal = createJournal(source, systemClock);
    await createRoster(source).seen(
      "acme",
      BOTH.map((id) => ({ id, name: id })),
      1,
    );
    await journal.append(pageOf(events, { organizations: BOTH }));
    await (await journal.reader("lake")).commit(journal.end(), undefined);
    source.close();
    const file = join(folder.path, "tidemark.yaml");
    const lines = [
      "accounts: [{ name: acme, region: us, apiKey: { env: KEY }, organizations: all }]",
      `state: ${join(folder.path, "lanes")}`,
      `cluster: { name: ${name}, brokers: ['${suite.address}'], trial: true }`,
      `sinks: [{ name: lake, type: kafka, brokers: ['${suite.address}'], topic: events }]`,
    ];
    writeFileSync(file, lines.join("\n"), { mode: 0o600 });
    const { config } = loadConfig(file, { KEY: "k".repeat(40) });
    const cluster = config.cluster!;
    const run = () =>
      adopt(
        { ...config, cluster },
        [old],
        { lanes: LANES, replication: 1 },
        { log: silentLog, signal: never },
      );
    try {
      damage(old, 12_345);
      await expect(run()).rejects.toThrow("is damaged");
      damage(old, -12_345);
      const id = await run();
      const connect = connectKafka(cluster, systemClock, silentLog);
      const changelog = createKafkaChangelog({ name, connect, transactionTimeoutMs: 10_000 });
      for (let lane = 0; lane < LANES; lane++) {
        const opened = await openLane({
          ...{ file: join(folder.path, `lane-${lane}.db`), changelog, lane, machine: "m", signal: never },
        });
        expect(opened.birth).toMatchObject({ cluster: id, lane, lanes: LANES });
        const own = createJournal(opened.state, systemClock);
        for (const [of, organization] of BOTH.entries()) {
          const again = pageOf(events.slice(of * 20, of * 20 + 20), { organizations: [organization] });
          const isOwn = shareOf(organization, LANES) === lane;
          expect((await own.append(again)).fresh, `lane ${lane}, ${organization}`).toBe(isOwn ? 0 : 20);
        }
        await opened.close();
      }
      const alone = { ...config, cluster: undefined, state: old };
      await expect(openApp({ config: alone, log: silentLog, stdout: new PassThrough() })).rejects.toThrow(
        `was adopted by the cluster "${name}"`,
      );
      const marked = openState(old);
      expect(marked.prepare("SELECT COUNT(*) FROM identities").pluck().get()).not.toBe(0);
      marked.close();
      await expect(run()).rejects.toThrow("already");
    } finally {
      folder.remove();
    }
  });
});
