import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import { sinks } from "../../src/sinks/index.ts";
import { attempt, openSink, probeSink, type Target } from "../contract/drive.ts";
import { type Received, type Reply, type StandInServer, startServer } from "../stand-ins/server.ts";
import { makeBatch, makeEvents } from "../support/events.ts";

/*
 * A status of success does not say who answered: a sign-in page, a proxy, or a server that answers 200 to everything.
 * Only a destination's own answer may empty the journal.
 */
const PAGE: Reply = {
  status: 200,
  headers: { "content-type": "text/html" },
  body: "<html><body>Please sign in to the guest network</body></html>",
};
const WORDS: Reply = {
  status: 200,
  headers: { "content-type": "text/plain" },
  body: "default backend - ok\n",
};
const NOTHING: Reply = { status: 204 };
const OBJECT: Reply = { status: 200, body: {} };
const LIES = { page: PAGE, words: WORDS, nothing: NOTHING, object: OBJECT };

const SECRETS = { KEY: "c2VjcmV0LW9mLXRoZS1zaW5r", URL: "" };
const KEY = { env: "KEY" };

interface Case {
  config(url: string): Record<string, unknown>;
  /** The destination's own answers to what a sink asks before its first batch. */
  readonly greeting?: Reply;
  /** Those that a destination of this kind answers itself. */
  readonly own: readonly (keyof typeof LIES)[];
}

const CASES: Readonly<Record<string, Case>> = {
  s3: {
    config: (endpoint) => ({
      bucket: "b",
      endpoint,
      pathStyle: true,
      accessKeyId: KEY,
      secretAccessKey: KEY,
    }),
    greeting: {
      status: 200,
      headers: { "content-type": "application/xml" },
      body: "<ListBucketResult><Name>b</Name></ListBucketResult>",
    },
    own: [],
  },
  gcs: {
    config: (url) => ({ bucket: "bbb", endpoint: url, metadataUrl: url }),
    greeting: { status: 200, body: { name: "bbb" } },
    own: [],
  },
  azure_blob: {
    config: (url) => ({ account: "abc", container: "ccc", endpoint: url, accountKey: KEY }),
    greeting: {
      status: 200,
      headers: { "x-ms-request-id": "1", "content-type": "application/xml" },
      body: "<x/>",
    },
    own: [],
  },
  splunk_hec: {
    config: (url) => ({ url, token: KEY }),
    greeting: { status: 400, body: { text: "No data", code: 5 } },
    own: [],
  },
  clickhouse: {
    config: (url) => ({ url, table: "t" }),
    greeting: { status: 200, headers: { "x-clickhouse-query-id": "1" }, body: "" },
    own: [],
  },
  loki: { config: (url) => ({ url }), own: ["nothing"] },
  sentinel: {
    config: (url) => ({
      ...{ endpoint: url, authority: url, ruleId: "dcr-1", stream: "Custom-x" },
      ...{ tenantId: "t", clientId: "c", clientSecret: KEY },
    }),
    own: ["nothing"],
  },
  google_secops: {
    config: (url) => ({
      ...{ endpoint: url, metadataUrl: url, project: "p", location: "us" },
      ...{ instance: "i", logType: "L", forwarder: "f" },
    }),
    own: ["object"],
  },
  datadog: { config: (url) => ({ url, apiKey: KEY }), own: ["object"] },
  sumo: { config: () => ({ url: { env: "URL" } }), own: ["object"] },
  otlp: { config: (url) => ({ url }), greeting: { status: 200, body: {} }, own: ["nothing", "object"] },
  http: { config: (url) => ({ url }), own: ["words", "nothing", "object"] },
};

function isToken({ path }: Received): boolean {
  return path.includes("token") || path.includes("service-accounts");
}

describe.each(Object.entries(CASES))("%s", (type, { config, greeting, own }) => {
  let server: StandInServer;
  let reply: Reply;

  beforeEach(async () => {
    server = await startServer((received) =>
      isToken(received)
        ? { status: 200, body: { access_token: "t", expires_in: 3600, token_type: "Bearer" } }
        : reply,
    );
  });
  afterEach(() => server.close());

  function target(): Target {
    const definition = sinks.find((each) => each.type === type)!;
    return { definition, config: config(server.url), secrets: { ...SECRETS, URL: `${server.url}/sumo` } };
  }

  const foreign = Object.entries(LIES).filter(([name]) => !own.includes(name as keyof typeof LIES));

  test.each(foreign)("a batch that is answered with a %s is sent again", async (_, lie) => {
    reply = greeting ?? OBJECT;
    const sink = await openSink(target());
    try {
      reply = lie;
      const [event] = makeEvents(1);
      const fresh = { ...event!, timestampMs: Date.now() };
      const error = await attempt(sink, makeBatch(sink, [fresh]));
      expect(error).toBeInstanceOf(RetryableError);
      expect(String(error)).toMatch(new RegExp(`answered ${lie.status} .* Check the address`));
      expect(String(error)).not.toMatch(/guest|backend/);
    } finally {
      await sink.close();
    }
  });

  test.each(foreign)("a check that is answered with a %s says so", async (_, lie) => {
    reply = lie;
    const outcome = await probeSink(target()).catch((error) => error);
    if (type === "http") expect(outcome).toEqual([expect.stringContaining("web page")]);
    else expect(String(outcome)).toMatch(/Check the address/);
  });
});

test("loki: a check says that a push without streams was taken, which Loki refuses", async () => {
  const server = await startServer(() => NOTHING);
  const loki = sinks.find(({ type }) => type === "loki")!;
  expect(await probeSink({ definition: loki, config: { url: server.url } })).toEqual([
    expect.stringContaining("which Loki refuses"),
  ]);
  await server.close();
});

const ALSO: readonly (readonly [string, string, Record<string, unknown>, Reply])[] = [
  [
    "otlp",
    "an empty message of protobuf",
    {},
    { status: 200, headers: { "content-type": "application/x-protobuf" }, body: "" },
  ],
  ["otlp", "a 204", {}, NOTHING],
  ["loki", "an empty 200", {}, { status: 200, body: "" }],
  ["datadog", "an empty 200 of a proxy", { apiKey: KEY }, { status: 200, body: "" }],
  [
    "splunk_hec",
    "Success with another code",
    { token: KEY },
    { status: 200, body: { text: "Success", code: 200 } },
  ],
  [
    "http",
    "words that are declared as HTML",
    {},
    { status: 200, headers: { "content-type": "text/html" }, body: "OK" },
  ],
];

test.each(ALSO)("%s: %s counts", async (type, _, config, reply) => {
  const server = await startServer(() => reply);
  const definition = sinks.find((each) => each.type === type)!;
  const sink = await openSink({ definition, config: { url: server.url, ...config }, secrets: SECRETS });
  const [event] = makeEvents(1);
  expect(await attempt(sink, makeBatch(sink, [{ ...event!, timestampMs: Date.now() }]))).toBeUndefined();
  await sink.close();
  await server.close();
});

const FAILED: readonly (readonly [string, string, Record<string, unknown>, Reply])[] = [
  ["splunk_hec", 'a 200 with {"code":9}', { token: KEY }, { status: 200, body: { text: "Busy", code: 9 } }],
  [
    "clickhouse",
    "a 200 with an error in its body",
    { table: "t" },
    {
      status: 200,
      headers: { "x-clickhouse-query-id": "1" },
      body: "Code: 252. DB::Exception: Too many parts",
    },
  ],
  [
    "clickhouse",
    "a 200 with an error in its header alone",
    { table: "t" },
    { status: 200, headers: { "x-clickhouse-exception-code": "252" }, body: "" },
  ],
];

test.each(FAILED)("%s: %s does not count", async (type, _, config, failure) => {
  let reply = CASES[type]!.greeting!;
  const server = await startServer(() => reply);
  const definition = sinks.find((each) => each.type === type)!;
  const sink = await openSink({ definition, config: { url: server.url, ...config }, secrets: SECRETS });
  reply = failure;
  const [event] = makeEvents(1);
  const error = await attempt(sink, makeBatch(sink, [{ ...event!, timestampMs: Date.now() }]));
  expect(error).toBeInstanceOf(RetryableError);
  await sink.close();
  await server.close();
});
