import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openState } from "../../src/journal/database.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { temporaryFolder } from "../journal/support.ts";
import { eventTexts, pageOf } from "../support/pages.ts";
import { startProgram } from "../support/program.ts";

/*
 * A slow receiver that drops repeats by their key, and a process that is killed while it delivers. Each event has to be
 * there once, and the receiver has to see several requests at once.
 */
const KILLS = Number(process.env.TIDEMARK_KILLS ?? 5);
const EVENTS = 1_200;
const DRIVER = join(import.meta.dirname, "delivery-driver.js");

/** How long a request waits for others at most. */
const WAIT_MS = 500;

/** Keeps the rows of each key once. Answers when so many requests wait, or after a while. */
async function startReceiver(atOnce: number) {
  const keys = new Set<string>();
  const identities: string[] = [];
  const seen = { open: 0, openMax: 0, repeats: 0, requests: 0 };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url!, "http://receiver");
    const parts: Buffer[] = [];
    try {
      for await (const part of request) parts.push(part as Buffer);
    } catch {
      // The sender was killed amid its request.
      return;
    }
    response.setHeader("x-clickhouse-query-id", "1");
    if (request.method === "GET") return void response.end();
    const key = String(
      request.headers["idempotency-key"] ?? url.searchParams.get("insert_deduplication_token"),
    );
    seen.requests++;
    seen.openMax = Math.max(seen.openMax, ++seen.open);
    if (keys.has(key)) seen.repeats++;
    else
      for (const line of Buffer.concat(parts).toString().split("\n").filter(Boolean)) {
        const row = JSON.parse(line) as { identity?: string; tidemark_identity?: string };
        identities.push(row.identity ?? row.tidemark_identity!);
      }
    keys.add(key);
    for (let waitedMs = 0; seen.open < atOnce && waitedMs < WAIT_MS; waitedMs += 5) await sleep(5);
    await sleep(5);
    seen.open--;
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    ...{ url: `http://127.0.0.1:${port}`, identities, seen },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const CONFIGS = {
  http: { body: "ndjson", addIdentity: true, batchEventsMax: 20, plainHttp: true },
  clickhouse: { table: "events", gzip: false, batchEventsMax: 20, batchAgeMax: "0s", plainHttp: true },
} as const;

describe.each([
  ["http", {}, 4],
  ["http", { requestsMax: 1 }, 1],
  ["clickhouse", {}, 2],
] as const)("%s %o to a slow receiver", (type, more, atOnce) => {
  const folder = temporaryFolder();
  afterEach(() => folder.remove());

  test("R19 gets as many requests at once as it takes, and every event once for all kills", async () => {
    const file = join(folder.path, "state.db");
    const db = openState(file);
    const journal = createJournal(db, systemClock);
    for (let from = 0; from < EVENTS; from += 300) await journal.append(pageOf(eventTexts(from, 300)));
    db.close();
    const receiver = await startReceiver(atOnce);
    const config = { url: receiver.url, ...CONFIGS[type], ...more };
    const start = () => startProgram([JSON.stringify({ file, type, config })], {}, DRIVER);
    try {
      for (let kill = 0; kill < KILLS; kill++) {
        const program = start();
        const before = receiver.seen.requests;
        // Killed after some of its requests, wherever it is then.
        const enough = before + 1 + Math.floor(Math.random() * 8);
        while (receiver.seen.requests < enough && program.child.exitCode === null) await sleep(1);
        await sleep(Math.random() * 20);
        await program.kill();
      }
      const last = start();
      expect(await last.ended(), last.stderr()).toBe(0);
      expect(new Set(receiver.identities).size).toBe(EVENTS);
      expect(receiver.identities).toHaveLength(EVENTS);
      expect(receiver.seen.openMax).toBeGreaterThanOrEqual(atOnce);
      if (atOnce > 1) expect(receiver.seen.repeats).toBeGreaterThan(0);
    } finally {
      await receiver.close();
    }
  });
});
