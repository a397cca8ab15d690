import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { CreateBucketCommand, GetObjectCommand, paginateListObjectsV2, S3Client } from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { programOnPath, skipUnless } from "../support/components.ts";
import {
  type Broker,
  findKafka,
  KAFKA_REMEDY,
  KCAT_REMEDY,
  QUICK_RESTART,
  readTopic,
  startBroker,
} from "../support/kafka.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";
import {
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { compare, linesOf, openScene, type Scene, type SceneSink } from "./scene.ts";

/** TIDEMARK_KILLS=50 TIDEMARK_SERVER_KILLS=5 is the long campaign. */
const KILLS = Number(process.env.TIDEMARK_KILLS ?? 3);
const SERVER_KILLS = Number(process.env.TIDEMARK_SERVER_KILLS ?? 1);
const EVENTS = 1500 + KILLS * 1000;
const TIMEOUT = { timeout: 600_000 + (KILLS + SERVER_KILLS) * 15_000 };

let scene: Scene;

beforeEach(async () => {
  scene = await openScene({
    organizations: 5,
    events: EVENTS,
    eventBytes: 600,
    liveEventsPerSecond: 20,
    faults: [{ kind: "latency", ms: 30 }],
  });
});
afterEach(() => scene.close());

/** The program is killed at random moments, and the server sometimes while it runs; then all is read to the end. Returns the number of kills after which events were left to deliver. */
async function campaign(
  sink: SceneSink,
  server: { kill(): Promise<void>; start(): Promise<void> },
): Promise<number> {
  scene.configure([sink]);
  const everyServerKill = Math.max(1, Math.floor(KILLS / Math.max(1, SERVER_KILLS)));
  let serverKills = 0;
  let amid = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const { position } = await scene.sink(sink.name).catch(() => ({ position: undefined }));
    const program = scene.run();
    // Counted from the first delivery, so that a kill meets a program at work on a slow machine too.
    await scene.passes(sink.name, position);
    await sleep(Math.random() * 2500);
    if (kill % everyServerKill === 0 && serverKills < SERVER_KILLS) {
      serverKills++;
      await server.kill();
      await sleep(Math.random() * 500);
      await server.start();
    }
    await program.kill();
    const { lagEvents } = await scene.sink(sink.name).catch(() => ({ lagEvents: 0 }));
    if (lagEvents > 0) amid++;
  }
  scene.simulator.control.setLiveRate(0);
  await sleep(1500);
  await scene.done("run", "--once");
  expect(await scene.sink(sink.name)).toMatchObject({ lagEvents: 0, deadLetters: 0 });
  return amid;
}

interface Arrived {
  readonly page: number;
  readonly index: number;
  readonly organization: string;
  readonly text: string;
}

/** An envelope, with the event's bytes as they are. */
function arrived(line: string): Arrived {
  const match = /"position":\{"page":(\d+),"index":(\d+)\},"event":(.*)\}$/s.exec(line);
  expect(match, line.slice(0, 500)).not.toBeNull();
  const organization = /"organization":("[^"]*"|null)/.exec(line)![1]!;
  return { page: Number(match![1]), index: Number(match![2]), organization, text: match![3]! };
}

function expectEachOnce(what: string, amid: number, found: readonly Arrived[]): void {
  const served = scene.served();
  const { lost, surplus } = compare(
    served,
    found.map(({ text }) => text),
  );
  process.stderr.write(
    `${what}: ${KILLS} kills of the program (${amid} with events still to deliver), ${SERVER_KILLS} of the server, ${served.length} events, lost ${lost}, twice ${surplus}\n`,
  );
  expect({ lost, surplus }).toEqual({ lost: 0, surplus: 0 });
}

const jars = await findKafka();
const noKcat = skipUnless("kcat", programOnPath("kcat"), KCAT_REMEDY);

describe.skipIf(skipUnless("kafka", jars, KAFKA_REMEDY) || noKcat)("Kafka", () => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await startBroker(jars!, { properties: QUICK_RESTART });
  });
  afterAll(() => broker?.remove());

  test(
    `R17 R24 ${KILLS} kill -9 of the program and ${SERVER_KILLS} of the broker: every event once for kcat, in journal order per organization`,
    TIMEOUT,
    async () => {
      const topic = `kills-${randomBytes(4).toString("hex")}`;
      const amid = await campaign(
        {
          name: "lake",
          type: "kafka",
          brokers: [broker.address],
          topic,
          createTopics: { partitions: 3, replication: 1 },
          batchRecordsMax: 50,
          transactionTimeout: "10s",
          format: "envelope",
        },
        broker,
      );
      const records = await readTopic(broker.address, topic);
      const found = records.map(({ payload }) => arrived(payload!));
      expectEachOnce("kafka", amid, found);
      const last = new Map<string, Arrived>();
      const ordered = records
        .map((record, at) => ({ ...record, ...found[at]! }))
        .sort((a, b) => a.partition - b.partition || a.offset - b.offset);
      for (const each of ordered) {
        const before = last.get(each.organization);
        if (before !== undefined)
          expect(each.page - before.page || each.index - before.index).toBeGreaterThan(0);
        last.set(each.organization, each);
      }
    },
  );
});

/** The document with its long values back in the places where the sink cut them; other documents as they are. */
function withLongValues(source: string): string {
  const { long_values: long } = JSON.parse(source) as { long_values?: { value: string }[] };
  if (long === undefined) return source;
  const { long_values: _, ...document } = JSON.parse(source, (_key, value: unknown) => {
    const next = long[0]?.value;
    if (typeof value !== "string" || value.length !== 1025 || next === undefined) return value;
    if (!value.endsWith("…") || !next.startsWith(value.slice(0, -1))) return value;
    long.shift();
    return next;
  }) as { long_values: unknown };
  expect(long, "every long value has a place in the event").toEqual([]);
  return JSON.stringify(document);
}

const search = await findOpenSearch();

describe.skipIf(skipUnless("opensearch", search, "TIDEMARK_REQUIRE=opensearch fetches it"))(
  "OpenSearch",
  () => {
    let server: OpenSearch;
    beforeAll(async () => {
      server = await startOpenSearch(search!);
      const template = { index_patterns: ["kills-*"], template: { mappings: { dynamic: false } } };
      await server.request("PUT", "/_index_template/kills", template);
    });
    afterAll(() => server?.close());

    test(
      `R17 ${KILLS} kill -9 of the program and ${SERVER_KILLS} of OpenSearch: every event once`,
      TIMEOUT,
      async () => {
        const sink = {
          name: "search",
          type: "opensearch",
          url: server.url,
          index: "kills-{service}",
          format: "envelope",
        };
        const amid = await campaign(
          { ...sink, batchBytesMax: "50KB" },
          { kill: () => server.kill(), start: () => server.restart() },
        );
        await server.request("POST", "/kills-*/_refresh");
        expectEachOnce("opensearch", amid, await documents());
      },
    );

    async function documents(): Promise<Arrived[]> {
      const found: Arrived[] = [];
      for (let after: unknown[] | undefined; ; ) {
        const query = { size: 2000, sort: [{ _id: "asc" }], ...(after && { search_after: after }) };
        const answer = await fetch(`${server.url}/kills-*/_search?filter_path=hits.hits`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(query),
        });
        const text = await answer.text();
        const { hits } = JSON.parse(text) as { hits?: { hits: { _source: object; sort: unknown[] }[] } };
        if (hits === undefined || hits.hits.length === 0) return found;
        // _source is kept as it was sent: its text is cut out of the answer, so that bytes can be compared.
        const sources = text.split('"_source":').slice(1);
        found.push(
          ...sources.map((source) =>
            arrived(withLongValues(source.slice(0, source.lastIndexOf(',"sort":')))),
          ),
        );
        after = hits.hits.at(-1)!.sort;
      }
    }
  },
);

const versitygw = await findVersitygw();

describe.skipIf(skipUnless("versitygw", versitygw, "TIDEMARK_REQUIRE=versitygw builds it"))("S3", () => {
  let server: Versitygw;
  let client: S3Client;
  beforeAll(async () => {
    server = await startVersitygw(versitygw!);
    const credentials = { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY };
    client = new S3Client({ endpoint: server.url, region: "us-east-1", forcePathStyle: true, credentials });
    await client.send(new CreateBucketCommand({ Bucket: "kills" }));
  });
  afterAll(async () => {
    client?.destroy();
    await server?.close();
  });

  test(
    `R19 R26 ${KILLS} kill -9 of the program and ${SERVER_KILLS} of the service: every event once`,
    TIMEOUT,
    async () => {
      Object.assign(scene.env, { S3_ACCESS_KEY, S3_SECRET_KEY });
      const amid = await campaign(
        {
          name: "bucket",
          type: "s3",
          endpoint: server.url,
          region: "us-east-1",
          pathStyle: true,
          bucket: "kills",
          accessKeyId: { env: "S3_ACCESS_KEY" },
          secretAccessKey: { env: "S3_SECRET_KEY" },
          objectEventsMax: 50,
          objectAgeMax: "1s",
          format: "envelope",
        },
        { kill: () => server.kill(), start: () => server.restart() },
      );
      const found: Arrived[] = [];
      for await (const page of paginateListObjectsV2({ client }, { Bucket: "kills" })) {
        for (const { Key } of page.Contents ?? []) {
          const object = await client.send(new GetObjectCommand({ Bucket: "kills", Key }));
          const bytes = await object.Body!.transformToByteArray();
          found.push(...linesOf(Key!.endsWith(".gz") ? gunzipSync(bytes) : bytes).map(arrived));
        }
      }
      expectEachOnce("s3", amid, found);
    },
  );
});
