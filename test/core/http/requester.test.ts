import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { PausedError, RetryableError } from "../../../src/core/errors.ts";
import { makeRequester, type Requester, transportError } from "../../../src/core/http/requester.ts";
import { type TlsConfig, VERIFIED } from "../../../src/core/http/tls.ts";
import { secretOf } from "../../../src/core/secret.ts";
import { type StandInServer, startServer } from "../../stand-ins/server.ts";
import { type Certificates, makeCertificates } from "../../support/certificates.ts";
import { programOnPath } from "../../support/components.ts";

const signal = new AbortController().signal;
let requester: Requester | undefined;

async function make(tls?: TlsConfig, timeoutMs = 5000): Promise<Requester> {
  const secrets = [secretOf("s3cret-word"), secretOf("ab")];
  requester = await makeRequester({ destination: "the test", clock: systemClock, timeoutMs, tls, secrets });
  return requester;
}

afterEach(() => requester?.close());

describe("a request", () => {
  let server: StandInServer;

  afterEach(() => server.close());

  test.each([
    [200, 2, undefined],
    [200, 4, 3 * 2 ** 20],
    [200, 17, 2 ** 30],
    [500, 2, 2 ** 30],
    [400, 2, undefined],
  ])(
    "of a %i answer that is too large, only the beginning is kept in memory",
    async (status, megabytes, answerBytesMax) => {
      server = await startServer(() => ({ status, body: "x".repeat(megabytes * 2 ** 20) }));
      const more = answerBytesMax === undefined ? {} : { answerBytesMax };
      const answer = await (await make()).send({ url: server.url, headers: {}, body: "", ...more }, signal);
      expect(answer.isWhole).toBe(false);
      expect(answer.text).toMatch(/^x+$/);
      expect(answer.text.length).toBeLessThanOrEqual(2 ** 20);
      const again = await requester!.send({ url: server.url, headers: {}, body: "" }, signal);
      expect(again.status).toBe(status);
    },
  );

  test.each([{ method: "POST", answerBytesMax: 2 ** 24 }, { method: "GET" }] as const)(
    "a large answer that says something about each event, and a list, is read whole",
    async (asked) => {
      server = await startServer(() => ({ status: 200, body: "x".repeat(15 * 2 ** 20) }));
      const answer = await (await make()).send({ url: server.url, headers: {}, ...asked }, signal);
      expect(answer.isWhole).toBe(true);
      expect(answer.text.length).toBe(15 * 2 ** 20);
    },
  );

  test("hides secrets in the answer, and leaves words too short to be one", async () => {
    server = await startServer(() => ({ status: 400, body: "about s3cret-word and s3cret-word" }));
    const answer = await (await make()).send({ url: server.url, headers: {}, body: "" }, signal);
    expect(answer.text).toBe("about [secret] and [secret]");
  });

  test("hides secrets in a binary answer without changing its length", async () => {
    const headers = { "content-type": "application/x-protobuf" };
    server = await startServer(() => ({ status: 200, headers, body: Buffer.from("\x0bs3cret-word") }));
    const answer = await (await make()).send({ url: server.url, headers: {}, body: "" }, signal);
    expect(answer.text).toBe("\x0b***********");
  });

  test("does not follow a redirect, so that a token never reaches another origin", async () => {
    const other = await startServer(() => ({ status: 200 }));
    server = await startServer(() => ({ status: 307, headers: { location: other.url } }));
    const answer = await (await make()).send(
      { url: server.url, headers: { authorization: "t" }, body: "" },
      signal,
    );
    expect(answer.status).toBe(307);
    expect(other.received).toHaveLength(0);
    await other.close();
  });

  test("a connection that is refused is retried", async () => {
    server = await startServer(() => ({ status: 200 }));
    await server.close();
    const failed = (await make()).send({ url: server.url, headers: {}, body: "" }, signal);
    await expect(failed).rejects.toBeInstanceOf(RetryableError);
    server = await startServer(() => ({ status: 200 }));
  });
});

describe.skipIf(!programOnPath("openssl"))("a request over TLS", () => {
  let folder: string;
  let certificates: Certificates;
  let server: Server;
  let options: ServerOptions;
  let url: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-request-"));
    certificates = await makeCertificates(folder);
    options = {
      ca: readFileSync(certificates.ca),
      cert: readFileSync(certificates.server.cert),
      key: readFileSync(certificates.server.key),
      requestCert: true,
      rejectUnauthorized: false,
    };
    server = createServer(options, (request, response) => {
      response.end((request.socket as unknown as { authorized: boolean }).authorized ? "known" : "unknown");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `https://127.0.0.1:${(server.address() as { port: number }).port}`;
  });

  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true, force: true });
  });

  test("trusts the configured authority and shows the client's certificate", async () => {
    const answer = await (await make({ ca: certificates.ca, ...certificates.client })).send(
      { url, headers: {} },
      signal,
    );
    expect(answer.text).toBe("known");
    await requester!.close();
    const stranger = await (await make({ ca: certificates.ca })).send({ url, headers: {} }, signal);
    expect(stranger.text).toBe("unknown");
  });

  test.each([
    ["the system's authorities alone", undefined],
    ["another authority", "otherCa"],
  ] as const)("pauses with a remedy when the certificate is not trusted: %s", async (_, ca) => {
    const tls = ca ? { ca: certificates[ca] } : undefined;
    const failed = (await make(tls)).send({ url, headers: {} }, signal);
    await expect(failed).rejects.toMatchObject({
      name: "PausedError",
      remedy: expect.stringContaining("tls.ca"),
    });
  });

  test("pauses when the certificate is made out to another name", async () => {
    const tls = { ca: certificates.ca, serverName: "elsewhere.example" };
    await expect((await make(tls)).send({ url, headers: {} }, signal)).rejects.toBeInstanceOf(PausedError);
  });

  test("an expired certificate of the client is named when the server ends the connection without a reason", async () => {
    const strict = createServer({ ...options, rejectUnauthorized: true }, (_, response) => response.end());
    await new Promise<void>((resolve) => strict.listen(0, "127.0.0.1", resolve));
    const port = (strict.address() as AddressInfo).port;
    try {
      const tls = { ca: certificates.ca, ...certificates.expired };
      const sent = (await make(tls)).send({ url: `https://127.0.0.1:${port}`, headers: {} }, signal);
      const error = await sent.catch((thrown: unknown) => thrown as Error);
      expect(error).toBeInstanceOf(RetryableError);
      expect(String(error)).toMatch(
        /The client's certificate in tls\.cert expired on \d{4}-.*put a renewed one/,
      );
      await requester!.close();
      const stranger = (await make({ ca: certificates.ca })).send(
        { url: `https://127.0.0.1:${port}`, headers: {} },
        signal,
      );
      await expect(stranger).rejects.not.toThrow("expired");
    } finally {
      strict.closeAllConnections();
      await new Promise((resolve) => strict.close(resolve));
    }
  });

  test("a server's alert about the client's certificate pauses with what happened and what to do", () => {
    const alert = Object.assign(new Error("alert"), { code: "ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED" });
    const tls = { ...VERIFIED, cert: readFileSync(certificates.expired.cert, "utf8") };
    expect(transportError("the test", new Error("other side closed", { cause: alert }), tls)).toMatchObject({
      name: "PausedError",
      message: expect.stringMatching(/^the test refuses this client's certificate\. .* expired on/),
      remedy: expect.stringContaining("tls.cert and tls.key"),
    });
  });

  test("a missing PEM file is named with its setting", async () => {
    await expect(make({ ca: join(folder, "missing.pem") })).rejects.toMatchObject({
      name: "PausedError",
      message: expect.stringContaining("tls.ca"),
    });
  });
});
