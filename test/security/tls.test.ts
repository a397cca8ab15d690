import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { explain } from "../../src/core/errors.ts";
import { secretOf } from "../../src/core/secret.ts";
import { openTransport } from "../../src/directory/transport.ts";
import { sinks } from "../../src/sinks/index.ts";
import { tokenProvider } from "../../src/sinks/kafka/oauth.ts";
import { attempt, openSink } from "../contract/drive.ts";
import { makeCertificates } from "../support/certificates.ts";
import { programOnPath } from "../support/components.ts";
import { makeBatch, makeEvents } from "../support/events.ts";

/** Sinks that open no connection. */
const LOCAL = ["file", "console"];
const KEYS = { accessKeyId: { env: "SECRET" }, secretAccessKey: { env: "SECRET" } };

/** The least config with which each sink connects to a TLS server at this address. */
const LAKE = { bucket: "b", region: "us-east-1", accountId: "123456789012" };

const CONFIGS: Readonly<Record<string, (url: string, port: number) => Record<string, unknown>>> = {
  kafka: (_, port) => ({ brokers: [`127.0.0.1:${port}`], topic: "events", tls: {} }),
  s3: (endpoint) => ({ bucket: "b", endpoint, pathStyle: true, ...KEYS }),
  security_lake: (endpoint) => ({ ...LAKE, endpoint, pathStyle: true, ...KEYS }),
  gcs: (endpoint) => ({ bucket: "bucket", endpoint, metadataUrl: endpoint }),
  azure_blob: (endpoint) => ({ account: "abc", container: "logs", endpoint, accountKey: { env: "SECRET" } }),
  google_secops: (endpoint) => ({
    ...{ project: "p", location: "eu", instance: "i", logType: "L", forwarder: "f" },
    endpoint,
    metadataUrl: endpoint,
  }),
  splunk_hec: (url) => ({ url, token: { env: "SECRET" } }),
  elasticsearch: (url) => ({ url }),
  opensearch: (url) => ({ url }),
  clickhouse: (url) => ({ url, table: "events" }),
  loki: (url) => ({ url, ageMax: "10000d" }),
  syslog: (_, port) => ({ host: "127.0.0.1", port, transport: "tls" }),
  sentinel: (url) => ({
    endpoint: url,
    authority: url,
    ruleId: "dcr-00000000000000000000000000000000",
    stream: "Custom-Events",
    tenantId: "t",
    clientId: "c",
    clientSecret: { env: "SECRET" },
  }),
  datadog: (url) => ({ url, apiKey: { env: "SECRET" } }),
  sumo: () => ({ url: { env: "ADDRESS" } }),
  otlp: (url) => ({ url }),
  http: (url) => ({ url }),
};

describe.skipIf(!programOnPath("openssl"))("NODE_TLS_REJECT_UNAUTHORIZED=0 switches nothing off", () => {
  let folder: string;
  let server: Server;
  let port: number;
  let requests = 0;
  let before: string | undefined;

  beforeAll(async () => {
    before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
    folder = mkdtempSync(join(tmpdir(), "tidemark-tls-"));
    const { server: own } = await makeCertificates(folder);
    server = createServer({ key: readFileSync(own.key), cert: readFileSync(own.cert) }, (_, response) => {
      requests++;
      response.end("{}");
    });
    server.on("secureConnection", (socket) => socket.once("data", () => requests++));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    port = (server.address() as AddressInfo).port;
  });
  afterAll(async () => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true, force: true });
  });

  test("the variable does what it says to code that states nothing", async () => {
    const { get } = await import("node:https");
    const status = await new Promise((resolve, reject) => {
      get(`https://127.0.0.1:${port}/`, { agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).on("error", reject);
    });
    expect(status).toBe(200);
    requests = 0;
  });

  test("every sink that connects is in the table", () => {
    expect(Object.keys(CONFIGS).toSorted()).toEqual(
      sinks
        .map(({ type }) => type)
        .filter((type) => !LOCAL.includes(type))
        .toSorted(),
    );
  });

  test.each(Object.keys(CONFIGS))(
    "for the sink %s: it sends nothing and names the certificate",
    async (type) => {
      requests = 0;
      const url = `https://127.0.0.1:${port}`;
      const definition = sinks.find((sink) => sink.type === type)!;
      const target = {
        definition,
        config: CONFIGS[type]!(url, port),
        secrets: { SECRET: "not-to-be-sent", ADDRESS: `${url}/receiver` },
      };
      const error = await openSink(target).then(
        async (sink) => {
          const failed = await attempt(sink, makeBatch(sink, makeEvents(1, 0, { timestampMs: Date.now() })));
          await sink.close();
          return failed;
        },
        (thrown: unknown) => thrown,
      );
      expect(error).toMatchObject({ name: "PausedError" });
      expect(explain(error)).toMatch(/certificate|CERT|signed/i);
      expect(requests).toBe(0);
    },
  );

  test("for the client of the directory service", async () => {
    requests = 0;
    const transport = openTransport({ headersTimeoutMs: 5000, bodyTimeoutMs: 5000 });
    const sent = transport.send({
      method: "GET",
      url: new URL(`https://127.0.0.1:${port}/`),
      headers: [],
      bodyBytesMax: 1000,
      signal: new AbortController().signal,
    });
    await expect(sent).rejects.toThrow("certificate cannot be verified");
    await transport.close();
    expect(requests).toBe(0);
  });

  test("for an authorization server", async () => {
    requests = 0;
    const client = {
      tokenUrl: `https://127.0.0.1:${port}/token`,
      clientId: "c",
      clientSecret: secretOf("not-to-be-sent"),
    };
    const provide = tokenProvider(client, systemClock, new AbortController().signal);
    await expect(provide()).rejects.toMatchObject({ name: "PausedError" });
    expect(requests).toBe(0);
  });
});
