import { createHmac } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DecisionNeededError, PausedError, RetryableError } from "../../src/core/errors.ts";
import { azureBlob } from "../../src/sinks/azure/blob.ts";
import { sharedKeyAuthorization } from "../../src/sinks/azure/shared-key.ts";
import { attempt, drive, openSink, probeSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { type Reply, startServer } from "../stand-ins/server.ts";
import {
  AZURITE_ACCOUNT,
  AZURITE_KEY,
  type Azurite,
  azuriteRequest,
  findAzurite,
  startAzurite,
} from "../support/azurite.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch, makeEvents } from "../support/events.ts";
import { startHttpProxy } from "../support/http-proxy.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const script = await findAzurite();
const skip = skipUnless("azurite", script, "run once with TIDEMARK_REQUIRE=azurite to fetch it (npm)");

let real: Azurite;
let containerNumber = 0;

beforeAll(async () => {
  if (!skip) real = await startAzurite(script!);
});
afterAll(() => real?.close());

const request = (method: string, path: string) => azuriteRequest(real, method, path);

async function makeContainer(): Promise<string> {
  const name = `events-${++containerNumber}`;
  expect((await request("PUT", `/${name}?restype=container`)).status).toBe(201);
  return name;
}

async function keysOf(container: string): Promise<string[]> {
  const text = await (await request("GET", `/${container}?restype=container&comp=list`)).text();
  return [...text.matchAll(/<Name>([^<]+)<\/Name>/g)].map(([, name]) => name!);
}

async function linesOf(container: string): Promise<string[]> {
  const lines: string[] = [];
  for (const key of await keysOf(container)) {
    const bytes = Buffer.from(await (await request("GET", `/${container}/${key}`)).arrayBuffer());
    const text = (key.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString();
    lines.push(...text.split("\n").slice(0, -1));
  }
  return lines;
}

/** A signature for an account's containers, as Azure's portal makes one. */
function sasOf(rights = "rcl"): string {
  const expiry = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z/, "Z");
  const text = [AZURITE_ACCOUNT, rights, "b", "co", "", expiry, "", "https,http", "2018-11-09", ""].join(
    "\n",
  );
  const sig = createHmac("sha256", Buffer.from(AZURITE_KEY, "base64")).update(text).digest("base64");
  const fields = { sv: "2018-11-09", ss: "b", srt: "co", sp: rights, se: expiry, spr: "https,http", sig };
  return `?${new URLSearchParams(fields)}`;
}

async function startDestination(
  config: Record<string, unknown> = { accountKey: { env: "KEY" } },
): Promise<Destination & { readonly container: string }> {
  const container = await makeContainer();
  const proxy = await startTcpProxy(real.port);
  const secrets = { KEY: AZURITE_KEY, SAS: sasOf() };
  let isDown = false;
  return {
    definition: azureBlob,
    container,
    config: {
      account: AZURITE_ACCOUNT,
      container,
      endpoint: `http://127.0.0.1:${proxy.port}/${AZURITE_ACCOUNT}`,
      ...config,
    },
    secrets,
    read: () => linesOf(container),
    missing: () => ({ container: "no-such-container" }),
    // The emulator keeps its list in memory for some seconds, so it is ended in order.
    async unavailable() {
      await real.stop();
      isDown = true;
    },
    unauthorized() {
      secrets.KEY = Buffer.from("another key of the account").toString("base64");
      secrets.SAS = secrets.SAS.replace(/sig=[^&]+/, "sig=bm90IHRoZSBzaWduYXR1cmU%3D");
    },
    hangs: () => proxy.hang(),
    storesAndCuts: () => proxy.cutAnswerTo(/^PUT /),
    async normal() {
      proxy.normal();
      Object.assign(secrets, { KEY: AZURITE_KEY, SAS: sasOf() });
      if (isDown) await real.restart();
      isDown = false;
    },
    close: () => proxy.close(),
  };
}

const can = ["unavailable", "unauthorized", "hangs", "storesAndCuts", "missing", "dated"] as const;
testSink("azure_blob with a key, against Azurite", { skip, can, start: () => startDestination() });

describe.skipIf(skip)("the azure_blob sink, against Azurite", () => {
  test("R26 a blob of other content under the same name needs a person, and is not replaced", async () => {
    const destination = await startDestination();
    const events = makeEvents(20);
    const sink = await openSink(destination);
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    const others = events.map((event) => ({ ...event, bytes: Buffer.from('{"other":1}') }));
    expect(await attempt(sink, makeBatch(sink, others))).toBeInstanceOf(DecisionNeededError);
    expect(await linesOf(destination.container)).toHaveLength(20);
    await sink.close();
    await destination.close();
  });

  test("R26 a sign-in page in answer to the question for a blob is no other content", async () => {
    const destination = await startDestination();
    const proxy = await startHttpProxy(`http://127.0.0.1:${real.port}`);
    const endpoint = `${proxy.url}/${AZURITE_ACCOUNT}`;
    const sink = await openSink({ ...destination, config: { ...destination.config, endpoint } });
    const events = makeEvents(20);
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    proxy.decide(({ method }) =>
      method === "HEAD" ? { status: 200, headers: { "content-type": "text/html" } } : "pass",
    );
    expect(await attempt(sink, makeBatch(sink, events))).toBeInstanceOf(RetryableError);
    await sink.close();
    await proxy.close();
    await destination.close();
  });

  test("blobs are in partitions, with their digest and bounds as metadata", async () => {
    const destination = await startDestination({
      accountKey: { env: "KEY" },
      partition: "dt={date}/org={organization}",
    });
    await drive(destination, makeEvents(60), { batchEvents: 60 });
    const keys = await keysOf(destination.container);
    expect(keys.length).toBeGreaterThan(2);
    for (const key of keys) expect(key).toMatch(/^tidemark\/dt=2026-03-1\d\/org=\w+\/test\..+\.jsonl\.gz$/);
    const { headers } = await request("HEAD", `/${destination.container}/${keys[0]}`);
    expect(headers.get("x-ms-meta-tidemark_sha256")).toMatch(/^[0-9a-f]{64}$/);
    expect(headers.get("x-ms-blob-type")).toBe("BlockBlob");
    await destination.close();
  });

  test("R26 with a signature that may create and not replace, a repeat is done and a foreign blob is not ours", async () => {
    const destination = await startDestination({ sas: { env: "SAS" }, compression: "none" });
    const events = makeEvents(20);
    await drive(destination, events);
    await drive(destination, events);
    expect(await linesOf(destination.container)).toHaveLength(20);
    const sink = await openSink(destination);
    const others = events.map((event) => ({ ...event, bytes: Buffer.from('{"other":1}') }));
    expect(await attempt(sink, makeBatch(sink, others))).toBeInstanceOf(DecisionNeededError);
    await sink.close();
    await destination.close();
  });

  test("an answer of 503 to one blob in ten does not end the attempt at many blobs", async () => {
    const destination = await startDestination({
      accountKey: { env: "KEY" },
      partition: "org={organization}",
    });
    const proxy = await startHttpProxy(`http://127.0.0.1:${real.port}`);
    proxy.decide(({ method, number }) =>
      method === "PUT" && number % 10 === 0
        ? { status: 503, headers: { "x-ms-error-code": "ServerBusy" } }
        : "pass",
    );
    const events = makeEvents(60).map((event, at) => ({ ...event, organization: `tenant${at}` }));
    const endpoint = `${proxy.url}/${AZURITE_ACCOUNT}`;
    const target = { ...destination, config: { ...destination.config, endpoint } };
    const driven = await drive(target, events, { batchEvents: events.length });
    expect(driven.errors).toEqual([]);
    expect(proxy.seen.filter(({ status }) => status === undefined)).toHaveLength(6);
    expect(await linesOf(destination.container)).toHaveLength(60);
    await proxy.close();
    await destination.close();
  });

  test("a signature without the right to write is found by a probe", async () => {
    const destination = await startDestination({ sas: { env: "READ" } });
    const target = { ...destination, secrets: { READ: sasOf("rl") } };
    expect(await probeSink(target).catch((error) => error)).toBeInstanceOf(PausedError);
    await destination.close();
  });
});

/** In every answer of the service. */
const OWN = { "x-ms-request-id": "5b7a0f4e-0000-4000-8000-000000000000" };

describe("azure_blob with Entra, against a stand-in", () => {
  test("logs in as an application, and asks for a new token once when it is refused", async () => {
    let issued = 0;
    let revoked = "";
    const blobs = new Map<string, Buffer>();
    const server = await startServer(({ path, headers, body, method }): Reply => {
      if (path === "/contoso/oauth2/v2.0/token") {
        expect(new URLSearchParams(body.toString()).get("scope")).toBe("https://storage.azure.com/.default");
        return { status: 200, body: { access_token: `token-${++issued}`, expires_in: 3600 } };
      }
      if (headers.authorization === revoked || !/^Bearer token-/.test(headers.authorization ?? ""))
        return { status: 401, headers: { "x-ms-error-code": "InvalidAuthenticationInfo" } };
      if (method !== "PUT") return { status: 200, headers: OWN };
      blobs.set(path, body);
      return { status: 201, headers: OWN };
    });
    const target = {
      definition: azureBlob,
      config: {
        account: "contosologs",
        container: "audit",
        endpoint: server.url,
        entra: { tenantId: "contoso", clientId: "app", clientSecret: { env: "S" }, authority: server.url },
      },
      secrets: { S: "client-secret-of-the-app" },
    };
    await drive(target, makeEvents(5));
    revoked = `Bearer token-${issued}`;
    await drive(target, makeEvents(5, 5));
    expect(blobs.size).toBe(2);
    expect([...blobs.keys()].every((path) => path.startsWith("/audit/tidemark/test/"))).toBe(true);
    await server.close();
  });

  test.each([
    [403, "AuthorizationPermissionMismatch", PausedError],
    [403, "AuthenticationFailed", PausedError],
    [503, "ServerBusy", RetryableError],
    [500, "OperationTimedOut", RetryableError],
    [409, "ContainerBeingDeleted", RetryableError],
    [400, "Md5Mismatch", RetryableError],
  ])("%i %s has its meaning", async (status, code, kind) => {
    let isOpen = false;
    const server = await startServer(
      (): Reply =>
        isOpen ? { status, headers: { "x-ms-error-code": code } } : { status: 200, headers: OWN },
    );
    const target = {
      definition: azureBlob,
      config: {
        account: "contosologs",
        container: "audit",
        endpoint: server.url,
        accountKey: { env: "KEY" },
      },
      secrets: { KEY: AZURITE_KEY },
    };
    const sink = await openSink(target);
    isOpen = true;
    expect(await attempt(sink, makeBatch(sink, makeEvents(3)))).toBeInstanceOf(kind);
    await sink.close();
    await server.close();
  });
});

test("a shared key signs method, headers, resource and query as Azure documents it", () => {
  const headers = {
    "content-type": "text/plain",
    "if-none-match": "*",
    "x-ms-date": "Fri, 26 Jun 2026 23:39:12 GMT",
    "x-ms-version": "2021-12-02",
  };
  const url = new URL("https://account.blob.core.windows.net/c/b%20b?timeout=20&comp=x");
  const text =
    "PUT\n\n\n5\n\ntext/plain\n\n\n\n*\n\n\nx-ms-date:Fri, 26 Jun 2026 23:39:12 GMT\nx-ms-version:2021-12-02\n/account/c/b%20b\ncomp:x\ntimeout:20";
  const signature = createHmac("sha256", Buffer.from(AZURITE_KEY, "base64")).update(text).digest("base64");
  expect(sharedKeyAuthorization({ method: "PUT", url, headers, body: "check" }, "account", AZURITE_KEY)).toBe(
    `SharedKey account:${signature}`,
  );
});

test.each([{}, { accountKey: { env: "K" }, sas: { env: "S" } }])(
  "needs exactly one way to log in: %j",
  (ways) => {
    expect(azureBlob.config.safeParse({ account: "abc", container: "logs", ...ways }).success).toBe(false);
  },
);
