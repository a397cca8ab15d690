import { writeFileSync } from "node:fs";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { startDatadog } from "../stand-ins/datadog.ts";
import { googleTokenStandIn } from "../stand-ins/google-tokens.ts";
import { startSecops } from "../stand-ins/secops.ts";
import { startSentinel } from "../stand-ins/sentinel.ts";
import { type Reply, type StandInServer, startServer } from "../stand-ins/server.ts";
import { startSplunk } from "../stand-ins/splunk.ts";
import { startSumo } from "../stand-ins/sumo.ts";
import { makeCertificates } from "../support/certificates.ts";
import { skipUnless } from "../support/components.ts";
import { findRsyslog, startRsyslog } from "../support/rsyslog.ts";
import { findVersitygw, S3_ACCESS_KEY, S3_SECRET_KEY, startVersitygw } from "../support/versitygw.ts";
import { openWorld, type World } from "../support/world.ts";
import { runGuide } from "./guide.ts";

const versitygw = await findVersitygw();
const rsyslog = findRsyslog();
const S3_KEYS = {
  accessKeyId: { env: "S3_ACCESS_KEY_ID" },
  secretAccessKey: { env: "S3_SECRET_ACCESS_KEY" },
};
const S3_ENV = { S3_ACCESS_KEY_ID: S3_ACCESS_KEY, S3_SECRET_ACCESS_KEY: S3_SECRET_KEY };

/** Each guide's commands, with the guide's own config, against a destination that answers as the real one does. */
describe("the commands of the guides", () => {
  let world: World;
  const open: { close(): Promise<unknown> }[] = [];

  beforeAll(async () => {
    world = await openWorld({ organizations: 2, events: 120, days: 2 });
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    for (const one of open.splice(0)) await one.close();
  });
  afterAll(() => world?.close());

  function use<StandIn extends { readonly server: StandInServer }>(standIn: StandIn): StandIn {
    open.push(standIn.server);
    return standIn;
  }

  /** Each guide has a state file of its own. */
  const here = (name: string) => ({
    ...world,
    configure: (parts: Parameters<World["configure"]>[0]) =>
      world.configure({ ...parts, state: world.at(`${name}.db`), file: world.at(`${name}.yaml`) }),
  });

  test("docs/splunk.md", async () => {
    const { server, events } = use(await startSplunk({ token: "your token" }));
    await runGuide(here("splunk"), "docs/splunk.md", { sinks: { splunk: { url: server.url } } });
    expect(events().length).toBeGreaterThan(100);
  });

  test("docs/datadog.md, with events that are too old for it", async () => {
    const { server } = use(await startDatadog({ apiKey: "your key", now: Date.now }));
    const datadog = { url: server.url, start: "beginning" };
    const own = here("datadog");
    const config = own.configure({
      sinks: [
        JSON.stringify({ name: "datadog", type: "datadog", apiKey: { env: "DD_API_KEY" }, ...datadog }),
      ],
    });
    const env = { DD_API_KEY: "your key" };
    await own.run(["run", "--once", "-c", config], { env });
    const before = await own.run(["dead-letters", "list", "-c", config], { env });
    expect(before.stdout).toContain("18 hours");
    await runGuide(own, "docs/datadog.md", { sinks: { datadog } });
    const after = await own.run(["dead-letters", "list", "-c", config], { env });
    expect(after.stdout).toContain("There are no dead letters.");
  });

  test("docs/sumo.md", async () => {
    const { server } = use(await startSumo({ token: "abc" }));
    const env = { SUMO_URL: `${server.url}/receiver/v1/http/abc` };
    await runGuide(here("sumo"), "docs/sumo.md", { sinks: { sumo: {} }, env });
  });

  test("docs/sentinel.md", async () => {
    const rule = { ruleId: "dcr-00000000000000000000000000000000", stream: "Custom-DirectoryEvents_CL" };
    const id = "00000000-0000-0000-0000-000000000000";
    const application = { tenantId: id, clientId: id, clientSecret: "the secret" };
    const { server } = use(await startSentinel({ ...rule, ...application }));
    await runGuide(here("sentinel"), "docs/sentinel.md", {
      sinks: { sentinel: { endpoint: server.url, authority: server.url } },
    });
  });

  test("docs/google-secops.md", async () => {
    const { server, tokens } = use(await startSecops());
    const key = world.at("google.json");
    writeFileSync(key, tokens.keyOf(server.url), { mode: 0o600 });
    const names = { project: "p1", instance: "i1", logType: "DIRECTORY", forwarder: "f1" };
    await runGuide(here("secops"), "docs/google-secops.md", {
      sinks: { secops: { ...names, endpoint: server.url, credentials: { file: key } } },
    });
  });

  test("docs/gcs.md", async () => {
    const tokens = googleTokenStandIn();
    const server = await startServer((received): Reply => {
      const given = tokens.answer(received);
      if (given) return given;
      if (!tokens.isAuthorized(received)) return { status: 401 };
      if (!received.path.endsWith("/iam/testPermissions"))
        return { status: 200, body: { name: "example-audit" } };
      return { status: 200, body: { permissions: ["storage.objects.create", "storage.objects.get"] } };
    });
    open.push(server);
    const key = world.at("gcs.json");
    writeFileSync(key, tokens.keyOf(server.url), { mode: 0o600 });
    await runGuide(here("gcs"), "docs/gcs.md", {
      sinks: { bucket: { endpoint: server.url, credentials: { file: key } } },
    });
  });

  test("docs/azure-blob.md", async () => {
    const server = await startServer(({ path, headers, method }): Reply => {
      if (path === "/contoso.onmicrosoft.com/oauth2/v2.0/token")
        return { status: 200, body: { access_token: "token", expires_in: 3600 } };
      if (headers.authorization !== "Bearer token") return { status: 401 };
      // A probe is sent with a wrong digest, so that nothing is stored.
      if (method === "PUT") return { status: 400, headers: { "x-ms-error-code": "Md5Mismatch" } };
      return { status: 200, headers: { "x-ms-request-id": "1" } };
    });
    open.push(server);
    const entra = {
      tenantId: "contoso.onmicrosoft.com",
      clientId: "00000000-0000-0000-0000-000000000000",
      clientSecret: { env: "AZURE_CLIENT_SECRET" },
      authority: server.url,
    };
    await runGuide(here("azure"), "docs/azure-blob.md", {
      sinks: { blobs: { endpoint: server.url, entra } },
    });
  });

  test("docs/otlp.md", async () => {
    const server = await startServer(({ path, headers }): Reply => {
      if (path !== "/v1/logs" && path !== "/v1/traces" && path !== "/v1/metrics") return { status: 404 };
      if (path === "/v1/logs" && headers.authorization !== "Bearer the-token") return { status: 401 };
      return { status: 200, body: {} };
    });
    open.push(server);
    // OpenTelemetry's exporters read the variables of the process.
    vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url);
    await runGuide(here("otlp"), "docs/otlp.md", {
      sinks: { collector: { url: server.url } },
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: server.url },
    });
    const paths = new Set(server.received.map(({ path }) => path));
    expect([...paths].sort()).toEqual(["/v1/logs", "/v1/metrics", "/v1/traces"]);
  });

  test.skipIf(
    skipUnless("versitygw", versitygw, "run once with TIDEMARK_REQUIRE=versitygw to build it (Go)"),
  )("docs/s3.md and docs/security-lake.md", async () => {
    const gateway = await startVersitygw(versitygw!);
    open.push(gateway);
    const place = { endpoint: gateway.url, pathStyle: true, ...S3_KEYS };
    const credentials = { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY };
    const client = new S3Client({
      endpoint: gateway.url,
      region: "us-east-1",
      forcePathStyle: true,
      credentials,
    });
    for (const Bucket of ["example-audit", "aws-security-data-lake-eu-central-1-abc"])
      await client.send(new CreateBucketCommand({ Bucket }));
    client.destroy();
    await runGuide(here("s3"), "docs/s3.md", { sinks: { archive: place }, env: S3_ENV });
    await runGuide(here("lake"), "docs/security-lake.md", {
      sinks: { lake: { ...place, region: "us-east-1" } },
      env: S3_ENV,
    });
  });

  test.skipIf(skipUnless("rsyslog", rsyslog, "install rsyslog, rsyslog-gnutls and openssl"))(
    "docs/syslog.md",
    async () => {
      const certificates = await makeCertificates(world.folder);
      const receiver = await startRsyslog(rsyslog!, certificates);
      open.push(receiver);
      const place = {
        host: "localhost",
        port: receiver.port,
        tls: { ca: certificates.ca, ...certificates.client },
      };
      await runGuide(here("syslog"), "docs/syslog.md", { sinks: { siem: place, qradar: place } });
    },
  );
});
