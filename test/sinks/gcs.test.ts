import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DecisionNeededError, PausedError, RetryableError } from "../../src/core/errors.ts";
import { gcs } from "../../src/sinks/google/gcs.ts";
import { attempt, drive, openSink, probeSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { googleTokenStandIn } from "../stand-ins/google-tokens.ts";
import { type Received, type Reply, startServer } from "../stand-ins/server.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch, makeEvents } from "../support/events.ts";
import { type FakeGcs, findFakeGcs, startFakeGcs } from "../support/fake-gcs.ts";
import { startHttpProxy } from "../support/http-proxy.ts";

const program = await findFakeGcs();
const skip = skipUnless("fake_gcs", program, "run once with TIDEMARK_REQUIRE=fake_gcs to build it (Go)");

let real: FakeGcs;
let bucketNumber = 0;

beforeAll(async () => {
  if (!skip) real = await startFakeGcs(program!);
});
afterAll(() => real?.close());

async function makeBucket(): Promise<string> {
  const name = `events-${++bucketNumber}`;
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${real.url}/storage/v1/b?project=p`, {
    method: "POST",
    headers,
    body: JSON.stringify({ name }),
  });
  expect(answer.status).toBe(200);
  return name;
}

interface Listed {
  readonly name: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly contentType: string;
}

async function objectsOf(bucket: string): Promise<readonly Listed[]> {
  const { items = [] } = (await (await fetch(`${real.url}/storage/v1/b/${bucket}/o`)).json()) as {
    items?: Listed[];
  };
  return items;
}

async function linesOf(bucket: string): Promise<string[]> {
  const lines: string[] = [];
  for (const { name } of await objectsOf(bucket)) {
    const url = `${real.url}/storage/v1/b/${bucket}/o/${encodeURIComponent(name)}?alt=media`;
    const bytes = Buffer.from(await (await fetch(url)).arrayBuffer());
    const text = (name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString();
    lines.push(...text.split("\n").slice(0, -1));
  }
  return lines;
}

/** In front of the emulator, which takes every token: checks it, and answers testPermissions. */
async function startDestination(config: Record<string, unknown> = {}) {
  const bucket = await makeBucket();
  const tokens = googleTokenStandIn();
  const state = { granted: ["storage.objects.create", "storage.objects.get"], isSignIn: false };
  const front = await startServer(async (received: Received): Promise<Reply> => {
    const given = tokens.answer(received);
    if (given) return given;
    if (!tokens.isAuthorized(received))
      return { status: 401, body: { error: { code: 401, message: "Invalid Credentials" } } };
    if (received.path.endsWith("/iam/testPermissions"))
      return { status: 200, body: { permissions: state.granted } };
    if (state.isSignIn && received.method === "GET")
      return { status: 200, headers: { "content-type": "text/html" }, body: "<html>Sign in</html>" };
    const query = received.query.size > 0 ? `?${received.query}` : "";
    const answer = await fetch(`${real.url}${received.path}${query}`, {
      method: received.method,
      headers: { "content-type": received.headers["content-type"] ?? "application/json" },
      ...(received.body.length > 0 && { body: new Uint8Array(received.body) }),
    });
    return { status: answer.status, body: await answer.text() };
  });
  return {
    definition: gcs,
    bucket,
    state,
    tokens,
    config: { bucket, endpoint: front.url, credentials: { env: "GOOGLE" }, ...config },
    secrets: { GOOGLE: tokens.keyOf(front.url) },
    read: () => linesOf(bucket),
    missing: () => ({ bucket: "no-such-bucket" }),
    unavailable: () =>
      front.answerAll({ status: 503, body: { error: { code: 503, message: "backendError" } } }),
    unauthorized() {
      tokens.state.refuses = true;
      tokens.state.valid.clear();
    },
    hangs: () => front.hang(),
    storesAndCuts: () => front.cutNext(),
    normal() {
      front.normal();
      tokens.state.refuses = false;
    },
    close: () => front.close(),
  } satisfies Destination & Record<string, unknown>;
}

testSink("gcs, against fake-gcs-server", {
  skip,
  can: ["unavailable", "unauthorized", "hangs", "missing", "dated"],
  start: () => startDestination(),
});

describe.skipIf(skip)("the gcs sink, against fake-gcs-server", () => {
  test("R17 loses nothing and doubles nothing when the connection is cut after the object was stored", async () => {
    const destination = await startDestination();
    const events = makeEvents(40);
    await drive(destination, events.slice(0, 20), { batchEvents: 20 });
    destination.storesAndCuts();
    const driven = await drive(destination, events.slice(20), { batchEvents: 20 });
    expect(driven.errors).toHaveLength(1);
    expect(await linesOf(destination.bucket)).toHaveLength(40);
    await destination.close();
  });

  test("R26 an object of other content under the same name needs a person, and is not replaced", async () => {
    const destination = await startDestination();
    const events = makeEvents(20);
    const sink = await openSink(destination);
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    const others = events.map((event) => ({ ...event, bytes: Buffer.from('{"other":1}') }));
    expect(await attempt(sink, makeBatch(sink, others))).toBeInstanceOf(DecisionNeededError);
    expect(await linesOf(destination.bucket)).toHaveLength(20);
    await sink.close();
    await destination.close();
  });

  test("R26 a sign-in page in answer to the question for an object is no other content", async () => {
    const destination = await startDestination();
    const sink = await openSink(destination);
    const events = makeEvents(20);
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    destination.state.isSignIn = true;
    expect(await attempt(sink, makeBatch(sink, events))).toBeInstanceOf(RetryableError);
    destination.state.isSignIn = false;
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    await sink.close();
    await destination.close();
  });

  test("objects survive a kill of the server, and are in partitions with digest and bounds", async () => {
    const destination = await startDestination({ partition: "dt={date}", compression: "none" });
    const events = makeEvents(900);
    await drive(destination, events, { batchEvents: 900 });
    await real.kill();
    await real.restart();
    const objects = await objectsOf(destination.bucket);
    expect(objects.map(({ name }) => name.split("/")[1]).toSorted()).toEqual([
      "dt=2026-03-14",
      "dt=2026-03-15",
    ]);
    for (const { name, metadata } of objects) {
      expect(name).toMatch(/^tidemark\/dt=[\d-]+\/test\..+\.jsonl$/);
      expect(metadata["tidemark-sha256"]).toMatch(/^[0-9a-f]{64}$/);
    }
    expect((await linesOf(destination.bucket)).toSorted()).toEqual(
      events.map(({ bytes }) => Buffer.from(bytes).toString()).toSorted(),
    );
    await destination.close();
  });

  test("an answer of 503 to one upload in ten does not end the attempt at many objects", async () => {
    const destination = await startDestination({ partition: "org={organization}" });
    const proxy = await startHttpProxy(destination.config.endpoint);
    proxy.decide(({ path, number }) =>
      path.startsWith("/upload/") && number % 10 === 0 ? { status: 503, body: "{}" } : "pass",
    );
    const events = makeEvents(60).map((event, at) => ({ ...event, organization: `tenant${at}` }));
    const target = { ...destination, config: { ...destination.config, endpoint: proxy.url } };
    const driven = await drive(target, events, { batchEvents: events.length });
    expect(driven.errors).toEqual([]);
    expect(proxy.seen.filter(({ status }) => status === undefined).length).toBeGreaterThan(4);
    expect(await linesOf(destination.bucket)).toHaveLength(60);
    await proxy.close();
    await destination.close();
  });

  test("a probe finds a missing right on the bucket", async () => {
    const destination = await startDestination();
    destination.state.granted = ["storage.objects.get"];
    const error = await probeSink(destination).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.message).toContain("storage.objects.create");
    await destination.close();
  });
});
