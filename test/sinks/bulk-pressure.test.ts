import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import { opensearch } from "../../src/sinks/bulk/opensearch.ts";
import { createTurns, pressureOf, requestParts, sendParts } from "../../src/sinks/bulk/pressure.ts";
import { attempt, drive, openSink } from "../contract/drive.ts";
import { type StandInServer, startServer } from "../stand-ins/server.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch, makeEvent, makeEvents, positionAfter } from "../support/events.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";

describe("the pressure on a cluster", () => {
  const most = { requests: 4, bytes: 1_000_000 };

  test("no more requests run at once than the width at that moment, and each has its turn", async () => {
    let width = 3;
    const inTurn = createTurns(() => width);
    const ends: (() => void)[] = [];
    const works = Array.from({ length: 6 }, () =>
      inTurn(() => new Promise<void>((resolve) => ends.push(resolve))),
    );
    await expect.poll(() => ends.length).toBe(3);
    width = 1;
    ends[0]!();
    ends[1]!();
    await Promise.all(works.slice(0, 2));
    await new Promise((resolve) => setImmediate(resolve));
    expect(ends).toHaveLength(3);
    for (let at = 2; at < 6; at++) {
      ends[at]!();
      await works[at];
      await expect.poll(() => ends.length).toBe(Math.min(6, at + 2));
    }
  });

  test("grows with quick answers, and shrinks with 429 and slow ones, across openings", () => {
    const memory = new Map<string, unknown>();
    const pressure = pressureOf(memory, most);
    expect(pressure.width).toBe(2);
    for (let at = 0; at < 5; at++) pressure.answered(100);
    expect([pressure.width, pressure.bytesMax]).toEqual([4, 1_000_000]);
    pressure.refused(new RetryableError("429"));
    expect([pressure.width, pressure.bytesMax]).toEqual([2, 500_000]);
    const again = pressureOf(memory, most);
    expect([again.width, again.bytesMax]).toEqual([2, 500_000]);
    again.answered(20_000);
    again.refused(new TooLargeError("413"));
    expect([again.width, again.bytesMax]).toEqual([2, 125_000]);
    for (let at = 0; at < 9; at++) again.refused(new RetryableError("time-out"));
    expect([again.width, again.bytesMax]).toEqual([1, 100_000]);
  });

  test("parts stay below the bytes and the number of records", () => {
    expect(requestParts([5, 5, 5, 20, 1], 10, 100)).toEqual([[0, 1], [2], [3], [4]]);
    expect(requestParts([1, 1, 1, 1, 1], 10, 2)).toEqual([[0, 1], [2, 3], [4]]);
  });

  test("the errors of parts become one error with places in the whole batch", async () => {
    const parts = [
      [0, 1],
      [2, 3],
      [4, 5],
    ];
    const error = await sendParts(parts, 1, async ([first]) => {
      if (first === 0) throw new RejectedEventsError("x", [{ index: 1, reason: "bad" }], { remaining: [0] });
      if (first === 2) throw new RetryableError("429", { remaining: [1], retryAfterMs: 5 });
    }).catch((thrown) => thrown);
    expect(error).toMatchObject({ rejected: [{ index: 1, reason: "bad" }], remaining: [0, 3, 4, 5] });
    const retried = await sendParts(parts, 3, async ([first]) => {
      if (first !== 4) throw new RetryableError("429", { retryAfterMs: first });
    }).catch((thrown) => thrown);
    expect(retried).toMatchObject({ remaining: [0, 1, 2, 3], retryAfterMs: 2 });
  });
});

describe("opensearch signed for AWS", () => {
  let server: StandInServer;
  afterEach(async () => {
    await server.close();
    for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) delete process.env[name];
  });

  test("an index that was deleted is created again with the next attempt", async () => {
    let isThere = false;
    server = await startServer(({ path, method }) => {
      if (method === "PUT" && path === "/events") isThere = true;
      const error = { type: "index_not_found_exception", reason: "no such index [events]" };
      const item = isThere ? { status: 201 } : { status: 404, error };
      const items = Array.from({ length: 5 }, () => ({ create: item }));
      return { status: 200, body: path === "/_bulk" ? { took: 1, errors: !isThere, items } : {} };
    });
    const target = { definition: opensearch, config: { url: server.url, index: "events" } };
    const sink = await openSink(target);
    expect(await attempt(sink, makeBatch(sink, makeEvents(5)))).toBeUndefined();
    isThere = false;
    expect(await attempt(sink, makeBatch(sink, makeEvents(5)))).toBeInstanceOf(PausedError);
    expect(await attempt(sink, makeBatch(sink, makeEvents(5)))).toBeUndefined();
    await sink.close();
  });

  test("every request carries a signature over its compressed body", async () => {
    process.env.AWS_ACCESS_KEY_ID = "AKIDEXAMPLE";
    process.env.AWS_SECRET_ACCESS_KEY = "secret-of-the-test";
    const items = Array.from({ length: 5 }, () => ({ create: { status: 201 } }));
    server = await startServer(() => ({ status: 200, body: { took: 1, errors: false, items } }));
    const sink = await openSink({
      definition: opensearch,
      config: { url: server.url, aws: { region: "eu-west-1" } },
    });
    expect(await attempt(sink, makeBatch(sink, makeEvents(5)))).toBeUndefined();
    await sink.close();
    expect(server.received.length).toBeGreaterThanOrEqual(3);
    for (const { headers } of server.received) {
      expect(headers.authorization).toMatch(
        /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d{8}\/eu-west-1\/es\/aws4_request, SignedHeaders=.*host.*, Signature=[0-9a-f]{64}$/,
      );
      expect(headers["x-amz-content-sha256"]).toMatch(/^[0-9a-f]{64}$/);
    }
  });
});

const folder = await findOpenSearch();
const skip = skipUnless(
  "opensearch",
  folder,
  "run once with TIDEMARK_REQUIRE=opensearch to fetch it (Maven)",
);

describe.skipIf(skip)("the indexes of opensearch by default, against the real server", () => {
  let real: OpenSearch;
  beforeAll(async () => {
    real = await startOpenSearch(folder!);
  });
  afterAll(() => real.close());

  const target = (config: Record<string, unknown> = {}) => ({
    definition: opensearch,
    config: { url: real.url, ...config },
    memory: new Map<string, unknown>(),
  });

  async function indexes(): Promise<readonly string[]> {
    const { body } = await real.request("GET", "/_cat/indices/tidemark-*?format=json&h=index");
    return (body as { index: string }[]).map(({ index }) => index).toSorted();
  }

  const days = ["2026-01-31", "2026-02-01", "2026-02-28"];
  const events = days.map((day, index) =>
    makeEvent({
      ...{ timestamp: `${day}T10:00:00Z`, timestampMs: Date.parse(`${day}T10:00:00Z`) },
      ...{ index, id: `${index}` },
    }),
  );

  test("are one per month, created ahead, and remembered in the state", async () => {
    const driven = await drive(target(), events);
    expect(driven.errors).toEqual([]);
    expect(await indexes()).toEqual(["tidemark-2026-01", "tidemark-2026-02"]);
    expect(driven.committed.state).toEqual({ index: "tidemark-{month}" });
  });

  test("a state of the first version that has written daily indexes keeps them", async () => {
    const position = positionAfter(events.at(-1)!);
    await drive(target({ index: "tidemark-{date}" }), events);
    const first = await drive(target(), events, { committed: { position, state: undefined } });
    expect(first.committed.state).toEqual({ index: "tidemark-{date}" });
    await real.request("POST", "/tidemark-*/_refresh");
    const { body } = await real.request("GET", "/_cat/count/tidemark-2026-01-31?format=json&h=count");
    expect(body).toEqual([{ count: "1" }]);
    await drive(target(), events, { committed: { ...first.committed, position } });
    for (const day of days) await real.request("DELETE", `/tidemark-${day}`);
  });

  test("a sink that has written nothing there before gets months although its position is not the first", async () => {
    const position = positionAfter(events.at(-1)!);
    const driven = await drive(target(), events, { committed: { position, state: undefined } });
    expect(driven.committed.state).toEqual({ index: "tidemark-{month}" });
  });

  test("the indexes of three years in one batch are created ahead, without a time-out", async () => {
    const many = Array.from({ length: 120 }, (_, at) => {
      const timestampMs = Date.parse("2024-01-01T10:00:00Z") + at * 9 * 86_400_000;
      return makeEvent({
        ...{ timestamp: new Date(timestampMs).toISOString(), timestampMs, index: at, id: `d${at}` },
      });
    });
    const years = target({ index: "years-{month}", timeout: "60s" });
    const driven = await drive(years, many, { batchEvents: 120 });
    expect(driven.errors).toEqual([]);
    await real.request("POST", "/years-*/_refresh");
    const { body } = await real.request("GET", "/_cat/count/years-*?format=json&h=count");
    expect(body).toEqual([{ count: "120" }]);
  });
});
