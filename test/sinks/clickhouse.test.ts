import { afterEach, describe, expect, test } from "vitest";
import { PausedError, RejectedEventsError, RetryableError } from "../../src/core/errors.ts";
import { clickhouse } from "../../src/sinks/clickhouse.ts";
import { attempt, drive, openSink, probeSink } from "../contract/drive.ts";
import { testSink } from "../contract/sink.ts";
import { startClickhouse } from "../stand-ins/clickhouse.ts";
import { makeBatch, makeEvents } from "../support/events.ts";

const SECRETS = { PASSWORD: "cl1ckh0use-password" };

async function startDestination(config: Record<string, unknown> = {}) {
  const standIn = await startClickhouse({ password: SECRETS.PASSWORD, table: "audit.events" });
  const own = { url: standIn.server.url, database: "audit", table: "events", username: "writer" };
  return {
    definition: clickhouse,
    config: { ...own, password: { env: "PASSWORD" }, batchAgeMax: "0s", batchBytesMax: "1MB", ...config },
    secrets: SECRETS,
    standIn,
    largestBody: () => Math.max(...standIn.server.received.map(({ body }) => body.length)),
    read: async () => standIn.rows().map(({ event }) => event!),
    unavailable: () => standIn.fail(202, "Too many simultaneous queries"),
    unauthorized() {
      standIn.state.password = "another";
    },
    refuses(ids: readonly string[]) {
      standIn.state.refusedIds = ids;
    },
    missing: () => ({ table: "missing" }),
    hangs: () => standIn.server.hang(),
    storesAndCuts: () => standIn.server.cutNext(),
    normal() {
      standIn.server.normal();
      Object.assign(standIn.state, { password: SECRETS.PASSWORD, refusedIds: [] });
    },
    close: () => standIn.server.close(),
  };
}

testSink("clickhouse, against a stand-in", {
  can: [
    "largestBody",
    "unavailable",
    "unauthorized",
    "refuses",
    "hangs",
    "storesAndCuts",
    "missing",
    "dated",
  ],
  start: () => startDestination(),
});

describe("the clickhouse sink, against a stand-in", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  afterEach(() => destination.close());

  test("a repeated batch carries the same token and is stored once", async () => {
    destination = await startDestination();
    const events = makeEvents(30);
    destination.standIn.server.cutNext();
    const driven = await drive(destination, events, { batchEvents: 30 });
    expect(driven.errors).toHaveLength(1);
    expect(destination.standIn.rows()).toHaveLength(30);
    expect(destination.standIn.inserts()).toBe(2);
  });

  test("a batch that was begun is one block, though it is larger than what is allowed now", async () => {
    destination = await startDestination({ batchEventsMax: 10 });
    await drive(destination, makeEvents(30), { batchEvents: 30 });
    const sizes = destination.standIn.server.received.map(({ query }) => query.get("max_insert_block_size"));
    expect(sizes.filter(Boolean)).toEqual(["30"]);
  });

  test("a row has the columns that the guide's table has", async () => {
    destination = await startDestination();
    const [event] = makeEvents(1);
    await drive(destination, [event!]);
    expect(destination.standIn.rows()).toEqual([
      {
        time: new Date(event!.timestampMs).toISOString(),
        identity: event!.identity,
        account: "acme",
        organization: event!.organization,
        service: event!.service,
        event_type: "user_update",
        event: Buffer.from(event!.bytes).toString(),
      },
    ]);
  });

  test("a probe finds that the user may not insert", async () => {
    destination = await startDestination();
    destination.standIn.state.mayInsert = false;
    const error = await probeSink(destination).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.remedy).toContain("GRANT INSERT ON audit.events TO writer");
  });

  test("a missing table pauses when the sink is opened", async () => {
    destination = await startDestination({ table: "missing" });
    const error = await openSink(destination).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.message).toContain("Code: 60");
  });

  test.each([
    [252, RetryableError],
    [241, RetryableError],
    [242, RetryableError],
    [497, PausedError],
    [516, PausedError],
  ])("code %i has its meaning", async (code, kind) => {
    destination = await startDestination();
    const sink = await openSink(destination);
    destination.standIn.fail(code, "words");
    expect(await attempt(sink, makeBatch(sink, makeEvents(3)))).toBeInstanceOf(kind);
    await sink.close();
  });

  test.each([243, 999, 319, 286, 394, 1002])(
    "a 500 with code %i is about the server: the rows are sent again",
    async (code) => {
      destination = await startDestination();
      const sink = await openSink(destination);
      destination.standIn.fail(code, "Cannot reserve 1.00 MiB, not enough space");
      const error = await attempt(sink, makeBatch(sink, makeEvents(3)));
      expect(error).toBeInstanceOf(RetryableError);
      expect(String(error)).toContain(`Code: ${code}`);
      await sink.close();
    },
  );

  test("a 500 with a code that is about rows is a refusal", async () => {
    destination = await startDestination();
    const sink = await openSink(destination);
    destination.standIn.fail(469, "Constraint `c` is violated at row 1");
    expect(await attempt(sink, makeBatch(sink, makeEvents(3)))).toBeInstanceOf(RejectedEventsError);
    await sink.close();
  });

  test("a value that the server quotes is in the answer of a dead letter, not in its reason", async () => {
    destination = await startDestination();
    const sink = await openSink(destination);
    destination.standIn.fail(27, `Cannot parse input: expected '"' before: 'jo.doe SECRET': at row 0`);
    const error = (await attempt(sink, makeBatch(sink, makeEvents(1)))) as RejectedEventsError;
    const { reason, answer } = error.rejected[0]!;
    expect(reason).toContain("Cannot parse input");
    expect(reason).not.toContain("SECRET");
    expect(answer).toContain("SECRET");
    await sink.close();
  });

  test.each([
    ["an exception block", 243, lateException, RetryableError],
    ["an exception block of a code that pauses", 497, lateException, PausedError],
    ["an exception block of a code about rows", 117, lateException, RejectedEventsError],
    ["the text of older versions", 243, oldException, RetryableError],
    ["a break before the text", 243, (text: string) => `\r\n${text}`, RetryableError],
  ])("a 200 with %s does not count as inserted (code %i)", async (_, code, bodyOf, kind) => {
    destination = await startDestination();
    const sink = await openSink(destination);
    const body = bodyOf(`Code: ${code}. DB::Exception: words. (WORDS) (version 25.8)`);
    destination.standIn.late(body);
    const error = await attempt(sink, makeBatch(sink, makeEvents(3)));
    expect(error).toBeInstanceOf(kind);
    if (error instanceof RetryableError) expect(String(error)).toContain(`Code: ${code}`);
    await sink.close();
  });

  test("a 200 with other words does not count as inserted, and does not bring them into the log", async () => {
    destination = await startDestination();
    const sink = await openSink(destination);
    destination.standIn.late("Ok.\n");
    const error = await attempt(sink, makeBatch(sink, makeEvents(3)));
    expect(error).toBeInstanceOf(RetryableError);
    expect(String(error)).toMatch(/answered 200 .* instead of the empty body of an insert/);
    destination.standIn.late("\n");
    expect(await attempt(sink, makeBatch(sink, makeEvents(3)))).toBeUndefined();
    await sink.close();
  });

  test("events whose insert failed behind a 200 arrive later, and none is refused", async () => {
    destination = await startDestination();
    const { standIn } = destination;
    standIn.late(lateException("Code: 243. DB::Exception: not enough space."));
    const driven = await drive(destination, makeEvents(60), {
      batchEvents: 20,
      onError: () => standIn.server.normal(),
    });
    expect(driven.errors).toHaveLength(1);
    expect(driven.deadLetters.size).toBe(0);
    expect(standIn.rows()).toHaveLength(60);
  });
});

/** As the documentation describes it, with the tag of the header X-ClickHouse-Exception-Tag. */
function lateException(text: string): string {
  const tag = "dmrdfnujjqvszhav";
  return `\r\n__exception__\r\n${tag}\r\n${text}\n${text.length + 1} ${tag}\r\n__exception__\r\n`;
}

function oldException(text: string): string {
  return `${text.replace(".", ", e.displayText() =")}\n`;
}
