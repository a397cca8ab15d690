import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { platform, tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { explain, PausedError, RejectedEventsError, RetryableError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Sink } from "../../src/core/sink.ts";
import { syslog } from "../../src/sinks/syslog/sink.ts";
import { unacknowledgedBytes } from "../../src/sinks/syslog/unacknowledged.ts";
import { attempt, drive, openSink, parseConfig, type Target } from "../contract/drive.ts";
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

describe("the syslog sink and a receiver that ends connections", () => {
  let server: Server;
  let sink: Sink | undefined;
  const sockets: Socket[] = [];

  /** The identities of all whole messages that a receiver has read, in their order, and its connections. */
  interface Received {
    readonly identities: string[];
    connections: number;
  }

  /** Reads messages with their lengths in front; `onMessages` gets how many the connection has brought. */
  async function receive(
    config: Record<string, unknown>,
    onMessages: (socket: Socket, count: number, connection: number) => void = () => {},
  ): Promise<{ target: Target; received: Received }> {
    const received: Received = { identities: [], connections: 0 };
    server = createServer((socket) => {
      const connection = ++received.connections;
      let rest = Buffer.alloc(0);
      let count = 0;
      sockets.push(socket);
      socket.on("error", () => {});
      socket.on("data", (chunk) => {
        rest = Buffer.concat([rest, chunk]);
        for (let frame = frameOf(rest); frame !== undefined; frame = frameOf(rest)) {
          rest = rest.subarray(frame.end);
          received.identities.push(/identity="([^"]*)"/.exec(frame.text)![1]!);
          onMessages(socket, ++count, connection);
          if (socket.destroyed || socket.isPaused()) return;
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const base = { host: "127.0.0.1", port, transport: "tcp" };
    return { target: { definition: syslog, config: { ...base, ...config } }, received };
  }

  function frameOf(bytes: Buffer): { text: string; end: number } | undefined {
    const space = bytes.indexOf(" ");
    const end = space + 1 + Number(bytes.subarray(0, space));
    return space < 0 || bytes.length < end
      ? undefined
      : { text: bytes.subarray(space + 1, end).toString(), end };
  }

  /** As delivery writes: all batches at once, then those that failed again; checks what counts as delivered. */
  async function deliver(open: Sink, events: readonly JournalEvent[], received: Received): Promise<number> {
    let failures = 0;
    let left: (readonly JournalEvent[])[] = [];
    for (let at = 0; at < events.length; at += 50) left.push(events.slice(at, at + 50));
    for (let attempts = 0; left.length > 0 && attempts < 20; attempts++) {
      const outcomes = await Promise.all(
        left.map(async (part) => {
          const error = await attempt(open, makeBatch(open, part));
          if (error === undefined) expect(received.identities).toEqual(expect.arrayContaining(idsOf(part)));
          else expect(error).toBeInstanceOf(RetryableError);
          return error === undefined;
        }),
      );
      failures += outcomes.filter((isDone) => !isDone).length;
      left = left.filter((_, at) => !outcomes[at]);
    }
    expect(left).toEqual([]);
    return failures;
  }

  function idsOf(events: readonly JournalEvent[]): string[] {
    return events.map(({ identity }) => identity);
  }

  afterEach(async () => {
    await sink?.close();
    sink = undefined;
    for (const socket of sockets.splice(0)) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  test.each(["ends", "resets"])(
    "what a receiver had not read when it %s its connection does not count, and is sent again",
    async (how) => {
      const { target, received } = await receive({}, (socket, count, connection) => {
        if (connection > 3 || count < 150) return;
        if (how === "ends") socket.destroy();
        else socket.resetAndDestroy();
      });
      sink = await openSink(target);
      const events = makeEvents(1000);
      expect(await deliver(sink, events, received)).toBeGreaterThan(0);
      expect(new Set(received.identities)).toEqual(new Set(idsOf(events)));
      expect(received.connections).toBeGreaterThan(3);
    },
  );

  test("a receiver that stops reading and is restarted much later loses nothing", async () => {
    let hung: Socket | undefined;
    const { target, received } = await receive({ timeout: "2s" }, (socket, count, connection) => {
      if (connection > 1 || count < 10) return;
      socket.pause();
      hung = socket;
    });
    sink = await openSink(target);
    const events = makeEvents(200);
    expect(String(await attempt(sink, makeBatch(sink, events)))).toContain("did not end the connection");
    hung!.resetAndDestroy();
    await deliver(sink, events, received);
    expect(new Set(received.identities)).toEqual(new Set(idsOf(events)));
  });

  test("batches share a connection and arrive in their order", async () => {
    const { target, received } = await receive({});
    sink = await openSink(target);
    const events = makeEvents(1000);
    expect(await deliver(sink, events, received)).toBe(0);
    await deliver(sink, events.slice(0, 50), received);
    expect(received.identities).toEqual(idsOf([...events, ...events.slice(0, 50)]));
    expect(received.connections).toBe(2);
  });

  test("an abort ends all writes promptly, and nothing of them counts", async () => {
    const { target } = await receive({}, (socket) => socket.pause());
    sink = await openSink(target);
    const controller = new AbortController();
    const events = makeEvents(40);
    const writes = [events.slice(0, 20), events.slice(20)].map((part) =>
      attempt(sink!, makeBatch(sink!, part), controller.signal),
    );
    await new Promise((resolve) => setImmediate(resolve));
    const reason = new Error("stopped by the test");
    controller.abort(reason);
    expect(await Promise.all(writes)).toEqual([reason, reason]);
  });

  test("with confirm: write, a message counts when the kernel has taken it, over one connection", async () => {
    const { target, received } = await receive({ confirm: "write" });
    sink = await openSink(target);
    const events = makeEvents(30);
    for (let at = 0; at < 30; at += 10)
      expect(await attempt(sink, makeBatch(sink, events.slice(at, at + 10)))).toBeUndefined();
    await vi.waitFor(() => expect(received.identities).toEqual(idsOf(events)), { timeout: 60_000 });
    expect(received.connections).toBe(1);
    expect(syslog.promiseOf!(parseConfig(target))).toContain("while the connection holds");
  });

  test.skipIf(platform() !== "linux")(
    "bytes that the receiver's machine has not taken are seen",
    async () => {
      const { target } = await receive({});
      const { host, port } = target.config as { host: string; port: number };
      const socket = connect(port, host);
      await new Promise((resolve) => socket.once("connect", resolve));
      await vi.waitFor(() => expect(sockets).toHaveLength(1), { timeout: 60_000 });
      sockets[0]!.pause();
      expect(await unacknowledgedBytes(socket)).toBe(0);
      socket.write(Buffer.alloc(50_000_000));
      await vi.waitFor(async () => expect(await unacknowledgedBytes(socket)).toBeGreaterThan(0), {
        timeout: 60_000,
      });
      socket.destroy();
    },
  );
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
