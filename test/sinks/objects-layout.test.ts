import { PassThrough } from "node:stream";
import { gunzipSync } from "node:zlib";
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  type S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import type { Format } from "../../src/core/format.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery, type Delivery } from "../../src/delivery/deliver.ts";
import { resolutionOf } from "../../src/delivery/position.ts";
import { s3 } from "../../src/sinks/s3/sink.ts";
import { parseConfig } from "../contract/drive.ts";
import { stepUntilIdle } from "../delivery/support.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { skipUnless } from "../support/components.ts";
import { rawFormat } from "../support/events.ts";
import { type HttpProxy, startHttpProxy } from "../support/http-proxy.ts";
import { eventText, FETCHED_MS, pageOf } from "../support/pages.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";

const program = await findVersitygw();
const skip = skipUnless("versitygw", program, "run once with TIDEMARK_REQUIRE=versitygw to build it (Go)");

const cefLike: Format = { ...rawFormat, name: "words", mediaType: "text/plain", keepsBytes: false };

describe.skipIf(skip)("a batch that is stored, but not committed, when the config is changed", () => {
  let real: Versitygw;
  let client: S3Client;
  let proxy: HttpProxy;
  let bucket = "";
  let bucketNumber = 0;
  let clock: FakeClock;
  let fixture: JournalFixture;
  const texts = Array.from({ length: 60 }, (_, at) => eventText(at, { event_type: `kind${at % 3}` }));

  beforeAll(async () => {
    real = await startVersitygw(program!);
    client = await openBucket(real, "unused");
  });
  afterAll(async () => {
    client?.destroy();
    await real?.close();
  });
  beforeEach(async () => {
    bucket = `layout-${++bucketNumber}`;
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
    proxy = await startHttpProxy(real.url);
    clock = createFakeClock(FETCHED_MS);
    fixture = openFixture(clock);
    await fixture.journal.append(pageOf(texts.slice(0, 40)));
  });
  afterEach(async () => {
    fixture.close();
    await proxy.close();
  });

  /** A process of its own: it takes everything from the state file. */
  async function start(settings: Record<string, unknown>, format: Format = rawFormat): Promise<Delivery> {
    const keys = { accessKeyId: { env: "ID" }, secretAccessKey: { env: "SECRET" } };
    const place = { bucket, endpoint: proxy.url, pathStyle: true, timeout: "5s" };
    const secrets = { ID: S3_ACCESS_KEY, SECRET: S3_SECRET_KEY };
    const config = parseConfig({ definition: s3, config: { ...place, ...keys, ...settings }, secrets });
    const journal = fixture.reopen();
    return createDelivery({
      ...{ name: "lake", definition: s3, config, format, clock, log: silentLog },
      ...{ reader: await journal.reader("lake"), journal: journal.id, wants: () => true },
      ...{ alarms: createAlarms(clock, silentLog), metrics: silentMetrics, stdout: new PassThrough() },
      ...{ wake: createWake(clock), end: () => journal.end(), draining: () => true },
    });
  }

  /** Objects are stored, their answers are lost, and nothing is committed. */
  async function storeAndDie(settings: Record<string, unknown>): Promise<void> {
    proxy.decide(({ method }) => (method === "PUT" ? "cut" : "pass"));
    const delivery = await start(settings);
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "retrying", sentEvents: 0 });
    expect((await fixture.journal.reader("lake")).bounds).toHaveLength(1);
    await delivery.close();
    proxy.decide(() => "pass");
  }

  async function deliverAll(settings: Record<string, unknown>, format?: Format): Promise<void> {
    const delivery = await start(settings, format);
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "running", sentEvents: 40 });
    await fixture.journal.append(pageOf(texts.slice(40)));
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "running", sentEvents: 60 });
    await delivery.close();
  }

  async function objects(): Promise<{ key: string; lines: string[] }[]> {
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
    return Promise.all(
      Contents.map(async ({ Key: key = "" }) => {
        const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
        const bytes = await Body!.transformToByteArray();
        const text = (key.endsWith(".gz") ? gunzipSync(bytes) : Buffer.from(bytes)).toString();
        return { key, lines: text.split("\n").slice(0, -1) };
      }),
    );
  }

  async function expectOnce(): Promise<readonly string[]> {
    const all = await objects();
    const numbers = all.flatMap(({ lines }) => lines.map((line) => JSON.parse(line).number as number));
    expect(numbers.toSorted((a, b) => a - b)).toEqual(texts.map((_, at) => at));
    return all.map(({ key }) => key);
  }

  test.each([
    ["compression", { compression: "gzip" }, { compression: "none" }, [/\.gz$/, /\.jsonl$/]],
    ["prefix", { prefix: "one/" }, { prefix: "two/" }, [/^one\//, /^two\//]],
    ["partition", { partition: "{event_type}" }, { partition: "dt={date}" }, [/\/kind\d\//, /\/dt=/]],
    ["partition, which is new", {}, { partition: "{event_type}" }, [/\/lake\//, /\/kind\d\//]],
  ] as const)(
    "R19 is completed under the names of before, and the next one gets the new: %s",
    async (_, before, after, [old, now]) => {
      await storeAndDie(before);
      const stored = (await objects()).map(({ key }) => key);
      expect(stored.length).toBeGreaterThan(0);
      await deliverAll(after);
      const keys = await expectOnce();
      expect(keys.filter((key) => old.test(key)).toSorted()).toEqual(stored.toSorted());
      expect(keys.filter((key) => now.test(key)).length).toBeGreaterThan(0);
    },
  );

  test("R19 is stored once however often the config is changed before it is committed", async () => {
    await storeAndDie({ prefix: "one/" });
    await storeAndDie({ prefix: "two/" });
    await storeAndDie({ prefix: "two/", partition: "{event_type}" });
    await deliverAll({ prefix: "three/" });
    await expectOnce();
  });

  test("R19 a form that the config no longer writes stops the sink, and the operator chooses", async () => {
    await storeAndDie({});
    const delivery = await start({}, cefLike);
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "stopped", sentEvents: 0 });
    expect(delivery.status().remedy).toContain("tidemark sinks resume lake --from state");
    await delivery.close();
    await deliverAll({});
    await expectOnce();
  });

  test("R19 the operator can have it written under the new names", async () => {
    await storeAndDie({});
    const delivery = await start({}, cefLike);
    await stepUntilIdle(delivery);
    await delivery.resolve(resolutionOf("state"), new AbortController().signal);
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "running", sentEvents: 40 });
    await delivery.close();
    expect((await objects()).map(({ lines }) => lines.length)).toEqual([40, 40]);
  });

  test("a state of an earlier version, without names, is opened and written with those of the config", async () => {
    await storeAndDie({ prefix: "one/" });
    const reader = await fixture.reopen().reader("lake");
    await reader.setBounds(reader.bounds, {});
    await deliverAll({ prefix: "one/" });
    await expectOnce();
  });
});
