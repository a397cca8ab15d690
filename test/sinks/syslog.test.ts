import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { explain, PausedError, RejectedEventsError, RetryableError } from "../../src/core/errors.ts";
import type { Sink } from "../../src/core/sink.ts";
import { syslog } from "../../src/sinks/syslog/sink.ts";
import { attempt, drive, openSink, type Target } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { skipUnless } from "../support/components.ts";
import { cefFormat, makeBatch, makeEvent, makeEvents } from "../support/events.ts";
import { findRsyslog, startRsyslog } from "../support/rsyslog.ts";
import { paddedEvent } from "./limits.ts";

const program = findRsyslog();
const skip = skipUnless("rsyslog", program, "install rsyslog, rsyslog-gnutls and openssl");
const signal = new AbortController().signal;

let folder: string;
let certificates: Certificates;
/** For the same names, by an untrusted authority. */
let strangers: Certificates;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-syslog-"));
  for (const name of ["ours", "strangers"]) mkdirSync(join(folder, name));
  if (skip) return;
  certificates = await makeCertificates(join(folder, "ours"));
  strangers = await makeCertificates(join(folder, "strangers"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function startDestination(config: Record<string, unknown>) {
  const isTls = config.transport === "tls";
  const rsyslog = await startRsyslog(program!, isTls ? certificates : undefined);
  let isKilled = false;
  return {
    definition: syslog,
    config: {
      host: "localhost",
      port: rsyslog.port,
      ...(isTls && { tls: { ca: certificates.ca, ...certificates.client } }),
      ...config,
    },
    rsyslog,
    read: async (count: number) => (await rsyslog.messages(count)).map(({ msg }) => msg),
    async unavailable(sent: number) {
      // Messages that it took and did not write yet would be lost with it, as the promise says.
      await rsyslog.messages(sent);
      await rsyslog.kill();
      isKilled = true;
    },
    async normal() {
      if (isKilled) await rsyslog.restart();
      isKilled = false;
    },
    close: () => rsyslog.close(),
  } satisfies Destination & { rsyslog: unknown };
}

describe.each(["octet_counting", "lf"])("framed by %s", (framing) => {
  testSink("syslog over TCP, against a real rsyslog", {
    skip,
    can: ["unavailable"],
    start: () => startDestination({ transport: "tcp", framing }),
  });
  testSink("syslog over TLS, against a real rsyslog", {
    skip,
    can: ["unavailable"],
    start: () => startDestination({ transport: "tls", framing }),
  });
});

describe.skipIf(skip)("the syslog sink, against a real rsyslog", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  let sink: Sink | undefined;

  async function open(config: Record<string, unknown>): Promise<Sink> {
    destination = await startDestination(config);
    sink = await openSink(destination);
    return sink;
  }

  afterEach(async () => {
    await sink?.close();
    sink = undefined;
    await destination.close();
  });

  test("rsyslog reads every part of the header, and the identity from the structured data", async () => {
    const opened = await open({
      transport: "tcp",
      facility: "audit",
      severity: "notice",
      hostname: "exporter-1",
      appName: "directory",
    });
    const event = makeEvent({
      organization: 'a"b\\c]d\n',
      eventType: "user create é and a name that is much too long",
      timestamp: "2026-03-14T15:09:26.535897123Z",
    });
    await opened.write(makeBatch(opened, [event]), signal);
    const [message] = await destination.rsyslog.messages(1);
    expect(message).toEqual({
      facility: "audit",
      severity: "notice",
      timestamp: "2026-03-14T15:09:26.535897Z",
      hostname: "exporter-1",
      app: "directory",
      msgid: "user_create___and_a_name_that_is",
      data: `[tidemark@32473 identity="${event.identity}" account="acme" organization="a\\"b\\\\c\\]d " service="directory"]`,
      msg: Buffer.from(event.bytes).toString(),
    });
  });

  test("a text format is the message itself", async () => {
    destination = await startDestination({ transport: "tcp" });
    const events = makeEvents(3);
    await drive({ ...destination, format: cefFormat }, events);
    expect(await destination.read(3)).toEqual(events.map((event) => cefFormat.encode(event)));
  });

  test("a message of exactly messageBytesMax arrives, one byte more is rejected and the rest remains", async () => {
    const opened = await open({ transport: "tcp" });
    const { body } = makeBatch(opened, [paddedEvent(0, 0)]).records[0]!;
    const fits = paddedEvent(0, 8192 - body.length);
    const exceeds = paddedEvent(1, 8192 - body.length + 1);
    expect(opened.limits.recordBytesMax).toBe(8192);
    expect(makeBatch(opened, [fits]).records[0]!.body.length).toBe(8192);
    const error = (await attempt(opened, makeBatch(opened, [fits, exceeds]))) as RejectedEventsError;
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error.rejected).toEqual([
      { index: 1, reason: "the message has 8193 bytes and messageBytesMax is 8192" },
    ]);
    expect(error.remaining).toEqual([0]);
    await opened.write(makeBatch(opened, [fits]), signal);
    expect(await destination.read(1)).toEqual([Buffer.from(fits.bytes).toString()]);
  });

  test("connects again when the receiver was restarted between batches", async () => {
    const opened = await open({ transport: "tls" });
    const events = makeEvents(20);
    await opened.write(makeBatch(opened, events.slice(0, 10)), signal);
    await destination.read(10);
    await destination.rsyslog.kill();
    await destination.rsyslog.restart();
    expect(await attempt(opened, makeBatch(opened, events.slice(10)))).toBeUndefined();
    expect(await destination.read(20)).toHaveLength(20);
  });

  test("a certificate of the receiver that is not trusted pauses", async () => {
    destination = await startDestination({ transport: "tls" });
    const tls = { ca: strangers.ca, ...certificates.client };
    const error = await openSink({ ...destination, config: { ...destination.config, tls } }).catch((e) => e);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.remedy).toContain("tls.ca");
  });

  test("a name that the receiver's certificate is not made out to pauses", async () => {
    destination = await startDestination({ transport: "tls" });
    const tls = { ca: certificates.ca, ...certificates.client, serverName: "elsewhere.example" };
    const error = await openSink({ ...destination, config: { ...destination.config, tls } }).catch((e) => e);
    expect(error).toBeInstanceOf(PausedError);
  });

  test.each(["a stranger's certificate", "no certificate"])(
    "nothing is sent when the receiver refuses %s",
    async (which) => {
      destination = await startDestination({ transport: "tls" });
      const own = which === "no certificate" ? {} : strangers.client;
      const tls = { ca: certificates.ca, ...own };
      const error = await openSink({ ...destination, config: { ...destination.config, tls } }).catch(
        (e) => e,
      );
      expect(["PausedError", "RetryableError"]).toContain(error.name);
      expect(await destination.read(0)).toEqual([]);
    },
  );
});

describe("the syslog sink and a receiver in trouble", () => {
  let server: Server;
  let sink: Sink | undefined;
  const sockets: Socket[] = [];

  async function listen(onConnection: (socket: Socket) => void): Promise<Target> {
    server = createServer((socket) => {
      sockets.push(socket);
      socket.on("error", () => {});
      onConnection(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    return { definition: syslog, config: { host: "127.0.0.1", port, transport: "tcp", timeout: "5s" } };
  }

  afterEach(async () => {
    await sink?.close();
    for (const socket of sockets.splice(0)) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  /** More than the kernel's buffers take. */
  const large = () => Array.from({ length: 40 }, (_, at) => paddedEvent(at, 400_000));

  test("an abort while the receiver does not read rejects promptly with the signal's reason", async () => {
    const to = await listen((socket) => socket.pause());
    sink = await openSink({ ...to, config: { ...to.config, messageBytesMax: "1MB" } });
    const controller = new AbortController();
    const failed = attempt(sink, makeBatch(sink, large()), controller.signal);
    await new Promise((resolve) => setImmediate(resolve));
    const reason = new Error("stopped by the test");
    controller.abort(reason);
    expect(await failed).toBe(reason);
  });

  test("a receiver that does not read any more is a time-out to be retried", async () => {
    const to = await listen((socket) => socket.pause());
    sink = await openSink({ ...to, config: { ...to.config, messageBytesMax: "1MB", timeout: "200ms" } });
    expect(await attempt(sink, makeBatch(sink, large()))).toBeInstanceOf(RetryableError);
  });

  test("a connection that is cut amid a batch is an error, and the next attempt uses a new one", async () => {
    let connections = 0;
    const received: Buffer[] = [];
    const to = await listen((socket) => {
      if (++connections === 1) socket.once("data", () => socket.resetAndDestroy());
      else socket.on("data", (chunk) => received.push(chunk));
    });
    sink = await openSink({ ...to, config: { ...to.config, messageBytesMax: "1MB", framing: "lf" } });
    expect(await attempt(sink, makeBatch(sink, large()))).toBeInstanceOf(RetryableError);
    expect(await attempt(sink, makeBatch(sink, large()))).toBeUndefined();
    await sink.close();
    const ended = sockets.at(-1)!;
    if (!ended.closed) await new Promise((resolve) => ended.once("close", resolve));
    expect(Buffer.concat(received).toString().split("\n")).toHaveLength(41);
  });

  test("a line break in a body does not start a new message", async () => {
    const received: Buffer[] = [];
    const to = await listen((socket) => socket.on("data", (chunk) => received.push(chunk)));
    sink = await openSink({ ...to, config: { ...to.config, framing: "lf" } });
    const event = makeEvent({ bytes: Buffer.from('{\n"a":1}\r\n<13>1 forged') });
    await sink.write(makeBatch(sink, [event]), signal);
    await sink.close();
    if (!sockets[0]!.closed) await new Promise((resolve) => sockets[0]!.once("close", resolve));
    const text = Buffer.concat(received).toString();
    expect(text.indexOf("\n")).toBe(text.length - 1);
  });
});

describe.skipIf(skip)("the syslog sink and TLS 1.3", () => {
  test("a refusal of the client's certificate that comes after the handshake loses nothing", async () => {
    const received: Buffer[] = [];
    const server = createTlsServer(
      {
        ca: readFileSync(certificates.ca),
        cert: readFileSync(certificates.server.cert),
        key: readFileSync(certificates.server.key),
        requestCert: true,
        rejectUnauthorized: true,
        minVersion: "TLSv1.3",
      },
      (socket) => socket.on("data", (chunk) => received.push(chunk)),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const tls = { ca: certificates.ca, ...strangers.client };
    const error = await openSink({ definition: syslog, config: { host: "localhost", port, tls } }).catch(
      (e) => e,
    );
    expect(["PausedError", "RetryableError"]).toContain(error.name);
    expect(explain(error)).toMatch(/certificate|tls\.cert/);
    expect(received).toEqual([]);
    await new Promise((resolve) => server.close(resolve));
  });
});
