// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { PausedError } from "../../src/core/errors.ts";
import { googleSecops } from "../../src/sinks/google/secops.ts";
import { drive, openSink, probeSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { startSecops } from "../stand-ins/secops.ts";
import { makeBatch, makeEvents } from "../support/events.ts";
import { measured } from "./limits.ts";

async function startDestination(config: Record<string, unknown> = {}) {
  const standIn = await startSecops();
  const { url } = standIn.server;
  return {
    definition: googleSecops,
    config: {
      ...{ project: "p1", location: "eu", instance: "i1", logType: "DIRECTORY", forwarder: "f1" },
      ...{ endpoint: url, credentials: { env: "GOOGLE" }, metadataUrl: url },
      ...config,
    },
    secrets: { GOOGLE: standIn.tokens.keyOf(url) },
    standIn,
    read: async () => standIn.texts(),
    missing: () => ({ forwarder: "other" }),
    unavailable() {
      standIn.state.isBusy = true;
    },
    unauthorized() {
      standIn.tokens.state.refuses = true;
      standIn.tokens.state.valid.clear();
    },
    takesAtMost(events: number) {
      standIn.state.logsMax = events;
    },
    refuses(ids: readonly string[]) {
      standIn.state.refusedIds = ids;
    },
    hangs: () => standIn.server.hang(),
    storesAndCuts: () => standIn.server.cutNext(),
    normal() {
      standIn.server.normal();
      standIn.tokens.state.refuses = false;
      Object.assign(standIn.state, { refusedIds: [], logsMax: Number.POSITIVE_INFINITY, isBusy: false });
    },
    close: () => standIn.server.close(),
  } satisfies Destination & { standIn: unknown };
}

testSink("google_secops, against a stand-in", {
  can: [
    "unavailable",
    "unauthorized",
    "takesAtMost",
    "refuses",
    "hangs",
    "storesAndCuts",
    "missing",
    "dated",
  ],
  start: () => startDestination(),
});

describe("the google_secops sink, against a stand-in", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  afterEach(() => destination.close());

  test("a log has its bytes, both times, and the identity as a label", async () => {
    destination = await startDestination({ namespace: "prod" });
    const [event] = makeEvents(1);
    await drive(destination, [event!]);
    expect(JSON.parse(destination.standIn.logs()[0]!)).toEqual({
      data: Buffer.from(event!.bytes).toString("base64"),
      logEntryTime: new Date(event!.timestampMs).toISOString(),
      collectionTime: new Date(event!.fetchedAtMs).toISOString(),
      environmentNamespace: "prod",
      labels: {
        tidemark_identity: { value: event!.identity },
        account: { value: "acme" },
        organization: { value: event!.organization },
        service: { value: "directory" },
      },
    });
  });

  test("what delivery measures is what goes over the wire", async () => {
    destination = await startDestination();
    const sink = await openSink(destination);
    const batch = makeBatch(sink, makeEvents(50));
    await sink.write(batch, new AbortController().signal);
    const bodies = batch.records.map(({ body }) => body);
    expect(destination.standIn.server.received.at(-1)!.body.length).toBe(measured(sink.limits, bodies));
    await sink.close();
  });

  test("without credentials the metadata server gives the token", async () => {
    destination = await startDestination({ credentials: undefined });
    await drive(destination, makeEvents(3));
    expect(destination.standIn.texts()).toHaveLength(3);
    expect(destination.standIn.server.received[0]!.path).toContain("/computeMetadata/");
  });

  test("workload identity federation exchanges the token in a file, anew when it was renewed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tidemark-wif-"));
    const file = join(folder, "token");
    writeFileSync(file, "token-of-the-cluster\n");
    destination = await startDestination();
    const { server, tokens } = destination.standIn;
    const target = { ...destination, secrets: { GOOGLE: tokens.federationOf(server.url, file) } };
    await drive(target, makeEvents(3));
    tokens.state.valid.clear();
    tokens.state.subjectToken = "the-next-one";
    writeFileSync(file, "the-next-one");
    await drive(target, makeEvents(3, 3));
    expect(destination.standIn.texts()).toHaveLength(6);
    rmSync(file);
    const error = await openSink(target).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.message).toContain(file);
    rmSync(folder, { recursive: true });
  });

  test("a token that was revoked is replaced once, without a failed batch", async () => {
    destination = await startDestination();
    const sink = await openSink(destination);
    destination.standIn.tokens.state.valid.clear();
    const driven = await drive(destination, makeEvents(3));
    expect(driven.errors).toEqual([]);
    await sink.close();
  });

  test("a probe finds a missing right", async () => {
    destination = await startDestination();
    destination.standIn.state.isForbidden = true;
    const error = await probeSink(destination).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.remedy).toContain("chronicle.logs.import");
  });

  test.each([
    "no json",
    '{"type":"authorized_user"}',
    '{"type":"service_account","client_email":"a","private_key":"x"}',
  ])("credentials of another kind pause: %s", async (text) => {
    destination = await startDestination();
    const error = await openSink({ ...destination, secrets: { GOOGLE: text } }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.message).not.toContain(text);
  });
});
