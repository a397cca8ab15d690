import { GetObjectCommand, ListObjectsV2Command } from "@aws-sdk/client-s3";
import { LONG_VALUES } from "../../src/sinks/bulk/mappings.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";

/** Destinations beside Kafka that recognize a repeat themselves. */
export interface OtherSinks {
  /** Lines of the config. */
  readonly lines: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The events that each has, in any order. */
  delivered(): Promise<ReadonlyMap<string, readonly string[]>>;
  close(): Promise<void>;
}

export async function openOtherSinks(withOpenSearch: boolean): Promise<OtherSinks> {
  const program = await findVersitygw();
  const s3 = program === undefined ? undefined : await s3Sink(await startVersitygw(program));
  const folder = withOpenSearch ? await findOpenSearch() : undefined;
  const search = folder === undefined ? undefined : openIndex(await startOpenSearch(folder));
  const all = [s3, search].filter((one) => one !== undefined);
  return {
    lines: all.map(({ line }) => line),
    env: { S3_KEY: S3_ACCESS_KEY, S3_SECRET: S3_SECRET_KEY },
    delivered: async () =>
      new Map(await Promise.all(all.map(async (one) => [one.name, await one.events()] as const))),
    async close() {
      for (const one of all) await one.close();
    },
  };
}

interface OtherSink {
  readonly name: string;
  readonly line: string;
  events(): Promise<readonly string[]>;
  close(): Promise<void>;
}

async function s3Sink(server: Versitygw): Promise<OtherSink> {
  const Bucket = "events";
  const reader = await openBucket(server, Bucket);
  const keys = "accessKeyId: { env: S3_KEY }, secretAccessKey: { env: S3_SECRET }";
  return {
    name: "bucket",
    line: `  - { name: bucket, type: s3, bucket: ${Bucket}, endpoint: '${server.url}', pathStyle: true, ${keys}, compression: none, objectAgeMax: 10s, format: raw }`,
    async events() {
      const events: string[] = [];
      let ContinuationToken: string | undefined;
      do {
        const page = await reader.send(new ListObjectsV2Command({ Bucket, ContinuationToken }));
        for (const { Key } of page.Contents ?? []) {
          const { Body } = await reader.send(new GetObjectCommand({ Bucket, Key }));
          const text = await Body!.transformToString();
          for (const line of text.trimEnd().split("\n")) events.push(contentOf(JSON.parse(line) as object));
        }
        ContinuationToken = page.NextContinuationToken;
      } while (ContinuationToken !== undefined);
      return events;
    },
    async close() {
      reader.destroy();
      await server.close();
    },
  };
}

function openIndex(server: OpenSearch): OtherSink {
  interface Page {
    readonly _scroll_id: string;
    readonly hits: { readonly hits: readonly { readonly _source: object }[] };
  }
  return {
    name: "search",
    line: `  - { name: search, type: opensearch, url: '${server.url}', index: 'events-{month}', format: raw }`,
    async events() {
      await server.request("POST", "/events-*/_refresh");
      const events: string[] = [];
      let answer = await server.request("POST", "/events-*/_search?scroll=5m", { size: 5000 });
      for (;;) {
        const { hits, _scroll_id } = answer.body as Page;
        if (answer.status !== 200 || hits.hits.length === 0) return events;
        events.push(...hits.hits.map(({ _source }) => contentOf(_source)));
        answer = await server.request("POST", "/_search/scroll", { scroll: "5m", scroll_id: _scroll_id });
      }
    },
    close: () => server.close(),
  };
}

/**
 * The event without the spacing of its text and without what a sink has added; two events may share their id.
 * OpenSearch cannot index very long values, which its sink cuts, so long texts are compared by their beginning.
 */
export function contentOf(event: object): string {
  const { "@timestamp": _, [LONG_VALUES]: __, ...content } = event as Record<string, unknown>;
  return JSON.stringify(content, (_key, value) => (typeof value === "string" ? value.slice(0, 1000) : value));
}
