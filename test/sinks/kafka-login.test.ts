import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { explain, PausedError, RetryableError } from "../../src/core/errors.ts";
import type { Log } from "../../src/core/log.ts";
import type { Sink } from "../../src/core/sink.ts";
import { kafka } from "../../src/sinks/kafka/sink.ts";
import { nothingCommitted, parseConfig } from "../contract/drive.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { programOnPath, skipUnless } from "../support/components.ts";
import { makeBatch, makeEvents, rawFormat, TEST_JOURNAL } from "../support/events.ts";
import {
  type Broker,
  findKafka,
  KAFKA_REMEDY,
  KCAT_REMEDY,
  readTopic,
  startBroker,
} from "../support/kafka.ts";

const jars = await findKafka();
const skip =
  skipUnless("kafka", jars && programOnPath("openssl"), KAFKA_REMEDY) ||
  skipUnless("kcat", programOnPath("kcat"), KCAT_REMEDY);

const PASSWORD = "correct-horse-battery";
const CLIENT_SECRET = "token-client-secret";
const WRONG = "wrong-horse-battery";

let folder: string;
let broker: Broker;
let certificates: Certificates;
let tokens: Server;
/** The authorization server's answer. */
let answer: () => { status: number; body: unknown };
const sinks: Sink[] = [];
const logged: string[] = [];

beforeAll(async () => {
  if (skip) return;
  folder = await mkdtemp(join(tmpdir(), "tidemark-login-"));
  certificates = await makeCertificates(folder);
  broker = await startBroker(jars!, {
    listeners: [
      { name: "SASL", protocol: "SASL_PLAINTEXT" },
      { name: "TLS", protocol: "SSL" },
    ],
    scram: ["SCRAM-SHA-256", "SCRAM-SHA-512"].map((name) => `${name}=[name=alice,password=${PASSWORD}]`),
    properties: { ...saslProperties(), ...(await tlsProperties()) },
  });
  tokens = await startTokens();
});

afterEach(async () => {
  for (const sink of sinks.splice(0)) await sink.close();
  const text = logged.splice(0).join("\n");
  for (const secret of [PASSWORD, CLIENT_SECRET, WRONG]) expect(text).not.toContain(secret);
});

afterAll(async () => {
  await broker?.remove();
  tokens?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

function saslProperties(): Record<string, string> {
  const module = (path: string, options = "") =>
    `org.apache.kafka.common.security.${path} required ${options};`;
  return {
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": module("plain.PlainLoginModule", `user_alice="${PASSWORD}"`),
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": module("scram.ScramLoginModule"),
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": module("scram.ScramLoginModule"),
    "listener.name.sasl.oauthbearer.sasl.jaas.config": module(
      "oauthbearer.OAuthBearerLoginModule",
      'unsecuredLoginStringClaim_sub="broker"',
    ),
  };
}

async function tlsProperties(): Promise<Record<string, string>> {
  const { server, ca } = certificates;
  const store = join(folder, "server-store.pem");
  await writeFile(store, (await readFile(server.key, "utf8")) + (await readFile(server.cert, "utf8")));
  return {
    "listener.name.tls.ssl.keystore.type": "PEM",
    "listener.name.tls.ssl.keystore.location": store,
    "listener.name.tls.ssl.truststore.type": "PEM",
    "listener.name.tls.ssl.truststore.location": ca,
    "listener.name.tls.ssl.client.auth": "required",
  };
}

/** A stand-in for an authorization server: the client credentials grant, with tokens that are not signed. */
async function startTokens(): Promise<Server> {
  const server = createServer((request, response) => {
    const login = Buffer.from(
      request.headers.authorization?.slice("Basic ".length) ?? "",
      "base64",
    ).toString();
    const known = login === `tidemark:${CLIENT_SECRET}`;
    const { status, body } = known ? answer() : { status: 401, body: { error: "invalid_client" } };
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

function token(): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  return `${part({ alg: "none" })}.${part({ sub: "alice", iat: now, exp: now + 600 })}.`;
}

const recordingLog: Log = {
  error: (fields, sentence) => logged.push(`${inspect(fields, { depth: 9 })} ${sentence}`),
  warn: (fields, sentence) => logged.push(`${inspect(fields, { depth: 9 })} ${sentence}`),
  info: (fields, sentence) => logged.push(`${inspect(fields, { depth: 9 })} ${sentence}`),
  debug: (fields, sentence) => logged.push(`${inspect(fields, { depth: 9 })} ${sentence}`),
  child: () => recordingLog,
};

let names = 0;

/** Opens, writes, and gives what kcat reads over another listener. */
async function deliver(
  listener: string,
  config: object,
  secrets: Record<string, string> = {},
): Promise<number> {
  const topic = `login-${++names}`;
  const definition = kafka;
  const whole = {
    brokers: [`127.0.0.1:${broker.port(listener)}`],
    topic,
    createTopics: { partitions: 1, replication: 1 },
    ...config,
  };
  const sink = await definition.open({
    name: `login-${names}`,
    config: parseConfig({ definition, config: whole, secrets }),
    format: rawFormat,
    journal: TEST_JOURNAL,
    ...nothingCommitted,
    clock: systemClock,
    log: recordingLog,
    signal: new AbortController().signal,
  });
  sinks.push(sink);
  await sink.write(makeBatch(sink, makeEvents(5)), new AbortController().signal);
  return (await readTopic(broker.address, topic)).length;
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  const error = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  logged.push(explain(error), inspect(error, { depth: 9 }));
  return error;
}

const MECHANISMS = ["plain", "scram_sha_256", "scram_sha_512"];

describe.skipIf(skip)("kafka's logins", () => {
  const sasl = (mechanism: string) => ({
    sasl: { mechanism, username: "alice", password: { env: "PASSWORD" } },
  });

  test.each(MECHANISMS)("by %s", async (mechanism) => {
    expect(await deliver("SASL", sasl(mechanism), { PASSWORD })).toBe(5);
  });

  test.each(MECHANISMS)(
    "by %s with a wrong password pauses, and the password appears nowhere",
    async (mechanism) => {
      const error = await failure(deliver("SASL", sasl(mechanism), { PASSWORD: WRONG }));
      expect(error).toBeInstanceOf(PausedError);
      expect((error as PausedError).remedy).toContain("sasl");
      expect(logged.length).toBeGreaterThan(2);
    },
  );

  test("without one where one is needed is not taken for success", async () => {
    expect(await failure(deliver("SASL", {}))).toBeInstanceOf(Error);
  });
});

describe.skipIf(skip)("kafka's login by oauthbearer", () => {
  const sasl = () => ({
    sasl: {
      mechanism: "oauthbearer",
      tokenUrl: `http://127.0.0.1:${(tokens.address() as AddressInfo).port}/token`,
      clientId: "tidemark",
      clientSecret: { env: "CLIENT_SECRET" },
    },
  });

  test("uses a token of the authorization server", async () => {
    let asked = 0;
    answer = () => {
      asked++;
      return { status: 200, body: { access_token: token(), expires_in: 600, token_type: "Bearer" } };
    };
    expect(await deliver("SASL", sasl(), { CLIENT_SECRET })).toBe(5);
    expect(asked).toBe(1);
  });

  test("pauses when the authorization server refuses the client", async () => {
    const error = await failure(deliver("SASL", sasl(), { CLIENT_SECRET: WRONG }));
    expect(error).toBeInstanceOf(PausedError);
    expect((error as Error).message).toBe("The authorization server answered 401.");
  });

  test("asks to be tried again when the authorization server is unavailable", async () => {
    answer = () => ({ status: 503, body: {} });
    const error = await failure(deliver("SASL", sasl(), { CLIENT_SECRET }));
    expect(error).toBeInstanceOf(RetryableError);
  });

  test("pauses when the broker refuses the token", async () => {
    answer = () => ({ status: 200, body: { access_token: "not.a.token", expires_in: 600 } });
    expect(await failure(deliver("SASL", sasl(), { CLIENT_SECRET }))).toBeInstanceOf(PausedError);
  });
});

describe.skipIf(skip)("kafka's TLS", () => {
  test("with a certificate of its own, the broker's verified", async () => {
    const { ca, client } = certificates;
    expect(await deliver("TLS", { tls: { ca, ...client } })).toBe(5);
  });

  test("an authority that did not sign the broker's certificate pauses", async () => {
    const { otherCa, client } = certificates;
    const error = await failure(deliver("TLS", { tls: { ca: otherCa, ...client } }));
    expect(error).toBeInstanceOf(PausedError);
    expect((error as PausedError).remedy).toContain("tls");
  });

  test("a certificate for another name pauses", async () => {
    const { ca, client } = certificates;
    const error = await failure(deliver("TLS", { tls: { ca, ...client, serverName: "kafka.example" } }));
    expect(error).toBeInstanceOf(PausedError);
  });

  test("a file that is missing pauses and is named", async () => {
    const error = await failure(deliver("TLS", { tls: { ca: join(folder, "missing.pem") } }));
    expect(error).toBeInstanceOf(PausedError);
    expect((error as Error).message).toContain("missing.pem, cannot be read");
  });
});
