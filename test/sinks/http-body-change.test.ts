import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery } from "../../src/delivery/deliver.ts";
import { http } from "../../src/sinks/http.ts";
import { parseConfig } from "../contract/drive.ts";
import { stepUntilIdle } from "../delivery/support.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { rawFormat } from "../support/events.ts";
import { eventTexts, FETCHED_MS, pageOf } from "../support/pages.ts";

describe("R19 http: `body` is changed while a batch is under way", () => {
  let server: Server;
  let clock: FakeClock;
  let fixture: JournalFixture;
  let came: { key: string; body: string }[];
  let fate: "loses" | "refuses" | "takes";

  beforeEach(async () => {
    came = [];
    server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const key = String(request.headers["idempotency-key"]);
        came.push({ key, body: Buffer.concat(parts).toString() });
        if (fate === "loses") return response.destroy();
        response.writeHead(fate === "takes" ? 200 : 404).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    clock = createFakeClock(FETCHED_MS);
    fixture = openFixture(clock);
    await fixture.journal.append(pageOf(eventTexts(0, 3)));
  });
  afterEach(async () => {
    fixture.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  /** A process of its own. */
  async function live(body: string, how: typeof fate): Promise<void> {
    fate = how;
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const config = parseConfig({ definition: http, config: { url, body, gzip: false } });
    const journal = fixture.reopen();
    const delivery = createDelivery({
      ...{ name: "hook", definition: http, config, format: rawFormat, clock, log: silentLog },
      ...{ reader: await journal.reader("hook"), journal: journal.id, wants: () => true },
      ...{ alarms: createAlarms(clock, silentLog), metrics: silentMetrics, stdout: new PassThrough() },
      ...{ wake: createWake(clock), end: () => journal.end(), draining: () => true },
    });
    await stepUntilIdle(delivery);
    await delivery.close();
  }

  test("after a lost answer the receiver gets the same bytes again under the same key", async () => {
    await live("json_array", "loses");
    await live("ndjson", "takes");
    expect(came).toHaveLength(2);
    expect(came[0]!.body).toMatch(/^\[/);
    expect(came[1]).toEqual(came[0]);
  });

  test("after a refusal alone it gets the body that the config says now", async () => {
    await live("json_array", "refuses");
    await live("ndjson", "takes");
    expect(came).toHaveLength(2);
    expect(came[1]!.body).not.toMatch(/^\[/);
    expect(came[1]!.key).toBe(came[0]!.key);
  });
});
