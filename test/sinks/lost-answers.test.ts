import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery, type Delivery } from "../../src/delivery/deliver.ts";
import { filterOf, type SinkRoute } from "../../src/delivery/filter.ts";
import { clickhouse } from "../../src/sinks/clickhouse.ts";
import { http } from "../../src/sinks/http.ts";
import { parseConfig } from "../contract/drive.ts";
import { never } from "../delivery/support.ts";
import { openFixture } from "../journal/support.ts";
import { createFakeClock } from "../support/clock.ts";
import { rawFormat } from "../support/events.ts";
import { eventText, eventTexts, FETCHED_MS, pageOf } from "../support/pages.ts";
import { runs } from "../support/runs.ts";

/** What becomes of a request. All but "taken" and "lost" store nothing. */
type Fate = "taken" | "lost" | "busy" | "too large" | "refused" | "killed" | "taken and killed";

/** The answers of each to a request that it refuses because of an event in it. */
const KINDS = [
  { definition: http, config: { batchEventsMax: 20 }, refusal: 422 },
  {
    definition: clickhouse,
    config: { table: "events", gzip: false, batchEventsMax: 20, batchAgeMax: "0s" },
    refusal: 500,
  },
] as const;

interface Request {
  readonly key: string;
  readonly numbers: readonly number[];
}

/** A receiver that drops what it knows by its key, and the program that delivers to it. */
async function makeWorld({ definition, config, refusal }: (typeof KINDS)[number]) {
  const clock = createFakeClock(FETCHED_MS);
  const fixture = openFixture(clock);
  const stored: number[] = [];
  const keys = new Set<string>();
  const state = { killed: false, fateOf: (_: Request): Fate => "taken", route: {} as SinkRoute };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    response.setHeader("x-clickhouse-query-id", "1");
    if (request.method === "GET") return void response.end();
    const numbers = [
      ...Buffer.concat(parts)
        .toString()
        .matchAll(/\\?"number\\?":\s*(\d+)/g),
    ];
    const { headers, url } = request;
    const token = new URL(url!, "http://receiver").searchParams.get("insert_deduplication_token");
    const received = {
      key: String(headers["idempotency-key"] ?? token),
      numbers: numbers.map((n) => +n[1]!),
    };
    // It answers what it has taken before as taken, whatever it thinks of such requests now.
    const isKnown = keys.has(received.key);
    const fate = state.fateOf(received);
    const takes = isKnown || fate.startsWith("taken") || fate === "lost";
    if (takes && !isKnown) stored.push(...received.numbers);
    if (takes) keys.add(received.key);
    if (fate.endsWith("killed")) {
      fixture.reopen();
      state.killed = true;
    }
    if (fate.endsWith("killed") || fate === "lost") return void request.socket.destroy();
    if (fate === "busy") response.statusCode = 503;
    else if (!takes) response.statusCode = fate === "refused" ? refusal : 413;
    response.end(
      !takes && fate === "refused" ? "Code: 469. DB::Exception: a constraint. (version 25.8)" : "",
    );
  }

  const server = createServer((request, response) => void answer(request, response).catch(() => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function start(): Promise<Delivery> {
    const { journal } = fixture;
    return createDelivery({
      ...{ name: "sink", definition, config: parseConfig({ definition, config: { url, ...config } }) },
      ...{ format: rawFormat, clock, log: silentLog, journal: journal.id },
      ...{ route: state.route, wants: filterOf(state.route) },
      ...{ reader: await journal.reader("sink"), end: () => journal.end(), draining: () => true },
      ...{ alarms: createAlarms(clock, silentLog), metrics: silentMetrics, stdout: new PassThrough() },
      wake: createWake(clock),
    });
  }

  return {
    ...{ state, stored, start },
    appendMixed: (count: number) =>
      fixture.journal.append(
        pageOf(allBut(count, []).map((n) => eventText(n, n % 3 === 0 ? { event_type: "logout" } : {}))),
      ),
    append: (from: number, count: number) => fixture.journal.append(pageOf(eventTexts(from, count))),
    letters: async () => (await fixture.journal.reader("sink")).deadLettersAfter({ ...START }),
    async deliverAll(): Promise<void> {
      let delivery = await start();
      for (let step = 0; step < 3000; step++) {
        const end = await delivery.step(never).catch(() => "again");
        if (state.killed) {
          await delivery.close().catch(() => {});
          delivery = await start();
          state.killed = false;
        } else if (end === "idle") {
          const { position } = delivery.status();
          const last = fixture.journal.end();
          if (position.page === last.page && position.event === last.event) return delivery.close();
          clock.advance(60_000);
        }
      }
      throw new Error(`It does not come to an end: ${JSON.stringify(delivery.status())}`);
    },
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      fixture.close();
    },
  };
}

const START = { journal: "", page: 0, event: 0, hash: "" };
const FEW: SinkRoute = { only: { eventTypes: ["logout"] } };
const sorted = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b);
const allBut = (count: number, refused: readonly number[]) =>
  Array.from({ length: count }, (_, number) => number).filter((number) => !refused.includes(number));

describe.each(KINDS)("$definition.type: requests whose answers are lost", (kind) => {
  let world: Awaited<ReturnType<typeof makeWorld>>;
  beforeEach(async () => {
    world = await makeWorld(kind);
  });
  afterEach(() => world.close());

  test.each(["lost", "taken and killed"] as const)(
    "R19 a part beside a refused event has its key again: %s",
    async (fate) => {
      await world.append(0, 20);
      let isOver = false;
      world.state.fateOf = ({ numbers }) => {
        if (numbers.includes(10)) return "refused";
        if (isOver || numbers.length > 1) return "taken";
        isOver = true;
        return fate;
      };
      await world.deliverAll();
      expect(isOver).toBe(true);
      expect(sorted(world.stored)).toEqual(allBut(20, [10]));
      expect(await world.letters()).toHaveLength(1);
    },
  );

  test.each([
    ["added", {}, FEW],
    ["taken away", FEW, {}],
  ] as const)(
    "R19 a batch that was begun keeps its filter and its key after a kill: one is %s",
    async (_, before, after) => {
      await world.appendMixed(90);
      world.state.route = before;
      let isFirst = true;
      world.state.fateOf = () => {
        if (!isFirst) return "taken";
        isFirst = false;
        world.state.route = after;
        return "taken and killed";
      };
      await world.deliverAll();
      expect(isFirst).toBe(false);
      const wanted = (route: SinkRoute, from: number) =>
        allBut(90, []).filter((number) => number >= from && (route !== FEW || number % 3 === 0));
      // Those of the batches in flight by the filter of before, all others by the new one.
      const possible = [20, 40, 60, 80].map((begun) => {
        const last = Math.max(...wanted(before, 0).slice(0, begun));
        return [...wanted(before, 0).filter((number) => number <= last), ...wanted(after, last + 1)];
      });
      // Or all of it was in flight.
      expect([...possible, wanted(before, 0)]).toContainEqual(sorted(world.stored));
    },
  );

  test("R19 a receiver that takes after a restart what it had refused gets nothing twice", async () => {
    await world.append(0, 20);
    let isStrict = true;
    world.state.fateOf = ({ numbers }) => {
      if (!isStrict || !numbers.includes(10)) return "taken";
      if (numbers.length > 1) return "refused";
      isStrict = false;
      return "killed";
    };
    await world.deliverAll();
    expect(sorted(world.stored)).toEqual(allBut(20, []));
  });

  test("R19 every event is stored once, whatever is refused, lost or killed", async () => {
    const fate = fc.constantFrom<Fate>(
      ...(["taken", "taken", "taken", "lost", "busy", "too large", "killed", "taken and killed"] as const),
    );
    const refusals = fc.uniqueArray(fc.integer({ min: 0, max: 59 }), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(fate, { minLength: 20, maxLength: 60 }), refusals, async (fates, refused) => {
        const tried = await makeWorld(kind);
        try {
          for (let from = 0; from < 60; from += 15) await tried.append(from, 15);
          let requests = 0;
          tried.state.fateOf = ({ numbers }) => {
            const next = fates[requests++] ?? "taken";
            if (numbers.some((number) => refused.includes(number)))
              return next.endsWith("killed") ? "killed" : "refused";
            return next === "too large" && numbers.length === 1 ? "taken" : next;
          };
          await tried.deliverAll();
          expect(sorted(tried.stored)).toEqual(allBut(60, refused));
        } finally {
          await tried.close();
        }
      }),
      { numRuns: runs(12) },
    );
  });
});
