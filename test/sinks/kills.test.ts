import { gunzipSync } from "node:zlib";
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  type S3Client,
} from "@aws-sdk/client-s3";
import { describe, expect, test } from "vitest";
import { decompress } from "../../src/core/zstd.ts";
import { googleTokenStandIn } from "../stand-ins/google-tokens.ts";
import { startServer } from "../stand-ins/server.ts";
import {
  AZURITE_ACCOUNT,
  AZURITE_KEY,
  azuriteRequest,
  findAzurite,
  startAzurite,
} from "../support/azurite.ts";
import { skipUnless } from "../support/components.ts";
import { findFakeGcs, startFakeGcs } from "../support/fake-gcs.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";
import {
  clientOf,
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
} from "../support/versitygw.ts";
import { KILLS, runCampaign } from "./kill-campaign.ts";

const opensearch = await findOpenSearch();
const skipOpenSearch = skipUnless("opensearch", opensearch, "run once with TIDEMARK_REQUIRE=opensearch");
const versitygw = await findVersitygw();
const skipVersitygw = skipUnless("versitygw", versitygw, "run once with TIDEMARK_REQUIRE=versitygw");
const fakeGcs = await findFakeGcs();
const skipFakeGcs = skipUnless("fake_gcs", fakeGcs, "run once with TIDEMARK_REQUIRE=fake_gcs");
const azurite = await findAzurite();
const skipAzurite = skipUnless("azurite", azurite, "run once with TIDEMARK_REQUIRE=azurite");
const TIMEOUT_MS = 600_000 + KILLS * 20_000;

describe.skipIf(skipOpenSearch)("opensearch under kills of the writer and of the server", () => {
  test(
    "R17 every event is there exactly once, with all its content",
    async () => {
      const server = await startOpenSearch(opensearch!);
      try {
        const { events, ...figures } = await runCampaign({
          file: "bulk/opensearch",
          name: "opensearch",
          config: { url: server.url, index: "campaign-{month}" },
          server,
        });
        const held = await documentsOf(server);
        expect(held.size).toBe(events.length);
        for (const event of events) {
          const { "@timestamp": _, ...source } = held.get(event.identity) ?? {};
          expect(source).toEqual(JSON.parse(Buffer.from(event.bytes).toString()));
        }
        report("opensearch", { events: events.length, ...figures });
      } finally {
        await server.close();
      }
    },
    TIMEOUT_MS,
  );
});

describe.skipIf(skipVersitygw)("s3 under kills of the writer and of the server", () => {
  test.each([
    ["gzip", gunzipSync],
    ["zstd", decompress],
  ] as const)(
    "R19 R26 the objects hold every event exactly once, byte for byte, in the journal's order: %s",
    async (compress, unpack) => {
      const server = await startVersitygw(versitygw!);
      const client = clientOf(server);
      try {
        await client.send(new CreateBucketCommand({ Bucket: "campaign" }));
        const { events, ...figures } = await runCampaign({
          file: "s3/sink",
          name: "s3",
          config: {
            bucket: "campaign",
            endpoint: server.url,
            pathStyle: true,
            compress,
            accessKeyId: { env: "ID" },
            secretAccessKey: { env: "SECRET" },
          },
          secrets: { ID: S3_ACCESS_KEY, SECRET: S3_SECRET_KEY },
          server,
        });
        const texts = events.map((event) => Buffer.from(event.bytes).toString());
        expect(await linesOf(client, unpack)).toEqual(texts);
        report(`s3 ${compress}`, { events: events.length, ...figures });
      } finally {
        client.destroy();
        await server.close();
      }
    },
    TIMEOUT_MS,
  );
});

describe.skipIf(skipFakeGcs)("gcs under kills of the writer and of the server", () => {
  test(
    "R19 R26 the objects hold every event exactly once, byte for byte",
    async () => {
      const server = await startFakeGcs(fakeGcs!);
      const tokens = googleTokenStandIn();
      const metadata = await startServer((received) => tokens.answer(received) ?? { status: 404 });
      try {
        await post(`${server.url}/storage/v1/b?project=p`, { name: "campaign" });
        const { events, ...figures } = await runCampaign({
          file: "google/gcs",
          name: "gcs",
          config: { bucket: "campaign", endpoint: server.url, metadataUrl: metadata.url },
          server,
        });
        const { items } = (await (await fetch(`${server.url}/storage/v1/b/campaign/o`)).json()) as {
          items: readonly { name: string }[];
        };
        const lines: string[] = [];
        for (const { name } of items) {
          const url = `${server.url}/storage/v1/b/campaign/o/${encodeURIComponent(name)}?alt=media`;
          const bytes = Buffer.from(await (await fetch(url)).arrayBuffer());
          lines.push(...gunzipSync(bytes).toString().slice(0, -1).split("\n"));
        }
        expect(lines).toEqual(events.map((event) => Buffer.from(event.bytes).toString()));
        report("gcs", { events: events.length, ...figures });
      } finally {
        await metadata.close();
        await server.close();
      }
    },
    TIMEOUT_MS,
  );
});

describe.skipIf(skipAzurite)("azure_blob under kills of the writer", () => {
  test(
    "R19 R26 the blobs hold every event exactly once, byte for byte",
    async () => {
      const server = await startAzurite(azurite!);
      // The emulator writes its list of blobs every few seconds, so it is ended in order instead of killed.
      const orderly = { kill: () => server.stop(), restart: () => server.restart() };
      try {
        expect((await azuriteRequest(server, "PUT", "/campaign?restype=container")).status).toBe(201);
        const { events, ...figures } = await runCampaign({
          file: "azure/blob",
          name: "azureBlob",
          config: {
            account: AZURITE_ACCOUNT,
            container: "campaign",
            endpoint: server.url,
            accountKey: { env: "KEY" },
          },
          secrets: { KEY: AZURITE_KEY },
          server: orderly,
        });
        const list = await (
          await azuriteRequest(server, "GET", "/campaign?restype=container&comp=list")
        ).text();
        const lines: string[] = [];
        for (const [, name] of list.matchAll(/<Name>([^<]+)<\/Name>/g)) {
          const bytes = await (await azuriteRequest(server, "GET", `/campaign/${name}`)).arrayBuffer();
          lines.push(...gunzipSync(Buffer.from(bytes)).toString().slice(0, -1).split("\n"));
        }
        expect(lines).toEqual(events.map((event) => Buffer.from(event.bytes).toString()));
        report("azure_blob", { events: events.length, ...figures });
      } finally {
        await server.close();
      }
    },
    TIMEOUT_MS,
  );
});

async function post(url: string, body: object): Promise<void> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
}

/** Every document by its _id; an _id that two indexes hold would show as a wrong count. */
async function documentsOf(server: OpenSearch): Promise<Map<string, Record<string, unknown>>> {
  await server.request("POST", "/campaign-*/_refresh");
  const held = new Map<string, Record<string, unknown>>();
  let count = 0;
  type Page = { _scroll_id: string; hits: { hits: { _id: string; _source: Record<string, unknown> }[] } };
  let { body } = await server.request("POST", "/campaign-*/_search?scroll=1m&size=5000", { sort: ["_doc"] });
  for (let page = body as Page; page.hits.hits.length > 0; page = body as Page) {
    for (const hit of page.hits.hits) held.set(hit._id, hit._source);
    count += page.hits.hits.length;
    ({ body } = await server.request("POST", "/_search/scroll", {
      scroll: "1m",
      scroll_id: page._scroll_id,
    }));
  }
  expect(count).toBe(held.size);
  return held;
}

async function linesOf(client: S3Client, unpack: (bytes: Buffer) => Buffer): Promise<string[]> {
  const lines: string[] = [];
  let token: string | undefined;
  do {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket: "campaign", ...(token && { ContinuationToken: token }) }),
    );
    for (const { Key } of page.Contents ?? []) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: "campaign", Key }));
      const text = unpack(Buffer.from(await Body!.transformToByteArray())).toString();
      lines.push(...text.slice(0, -1).split("\n"));
    }
    token = page.NextContinuationToken;
  } while (token);
  return lines;
}

function report(name: string, figures: object): void {
  process.stderr.write(`Kill campaign of ${name}: ${JSON.stringify(figures)}\n`);
}
