import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { newWindow } from "../../src/core/window.ts";
import { createJournal, type SqliteJournal } from "../../src/journal/journal.ts";
import { openLane } from "../../src/journal/replication/open.ts";
import { openFixture, temporaryFolder } from "../journal/support.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { eventTexts, pageOf } from "../support/pages.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();
const never = new AbortController().signal;
/** Events that no sink has delivered; 1,000,000 for the figures in docs/cluster.md. */
const EVENTS = Number(process.env.TIDEMARK_TAKEOVER_EVENTS ?? 10_000);
const PAGE = Math.min(EVENTS, 5000);
const SMALL = 50;
/** A month of windows, one for each day and organization: a lane of 10,000 organizations in 16 lanes has 625 of these. */
const DAYS = 30;
const ORGANIZATIONS = EVENTS < 1_000_000 ? 20 : 625;
const DAY_MS = 86_400_000;

describe.skipIf(suite.skip)("taking over a lane", () => {
  test("a lane is taken over from nothing and from a local copy, with every undelivered event", async () => {
    const { changelog } = await newCluster(suite.address, 1);
    const folder = temporaryFolder();
    const file = (machine: string) => join(folder.path, `${machine}.db`);
    const open = (machine: string) =>
      openLane({ file: file(machine), changelog, lane: 0, machine, signal: never });
    try {
      const owner = await open("one");
      const journal = createJournal(owner.state, systemClock);
      await journal.reader("sink");
      await addMonth(journal);
      for (let at = 0; at < EVENTS; at += PAGE) await journal.append(pageOf(eventTexts(at, PAGE)));
      const commitMs = await median(SMALL, (at) => journal.append(pageOf(eventTexts(EVENTS + at, 1))));
      await owner.close();

      const fromNothingMs = Date.now();
      const second = await open("two");
      const rebuiltMs = Date.now() - fromNothingMs;
      expect(second.replay.kind).toBe("rebuilt");
      await createJournal(second.state, systemClock).append(pageOf(eventTexts(EVENTS + SMALL, 1)));
      await second.close();

      const fromCopyMs = Date.now();
      const back = await open("one");
      const continuedMs = Date.now() - fromCopyMs;
      expect(back.replay.kind).toBe("continued");
      const held = back.state.prepare("SELECT SUM(events) FROM pages").pluck().get();
      expect(held).toBe(EVENTS + SMALL + 1);
      expect(back.state.prepare("SELECT COUNT(*) FROM bodies").pluck().get()).toBe(EVENTS / PAGE + SMALL + 1);
      expect(back.state.prepare("SELECT COUNT(*) FROM windows").pluck().get()).toBe(DAYS * ORGANIZATIONS);
      await back.close();

      const single = openFixture();
      const singleMs = await median(SMALL, (at) => single.journal.append(pageOf(eventTexts(at, 1))));
      single.close();
      process.stderr.write(
        `takeover: ${EVENTS} events and ${DAYS * ORGANIZATIONS} windows, from nothing ${rebuiltMs} ms, from a copy ${continuedMs} ms; median commit ${commitMs.toFixed(1)} ms, on one machine ${singleMs.toFixed(1)} ms\n`,
      );
    } finally {
      folder.remove();
    }
  }, 900_000);
});

async function addMonth(journal: SqliteJournal): Promise<void> {
  const fromMs = Date.parse("2026-02-01T00:00:00Z");
  for (let number = 0; number < ORGANIZATIONS; number++) {
    const organizations = [number.toString(16).padStart(24, "a")];
    const stream = await journal.stream({
      account: "acme",
      provider: null,
      organizations,
      services: ["all"],
    });
    const windows = Array.from({ length: DAYS }, (_, day) => {
      const start = fromMs + day * DAY_MS;
      return newWindow(stream, start, start + DAY_MS);
    });
    await journal.changeWindows({ add: windows });
  }
}

async function median(count: number, work: (at: number) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let at = 0; at < count; at++) {
    const start = performance.now();
    await work(at);
    times.push(performance.now() - start);
  }
  return times.toSorted((a, b) => a - b)[Math.floor(count / 2)]!;
}
