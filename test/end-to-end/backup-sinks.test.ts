import { randomBytes } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { GetObjectCommand, ListObjectsV2Command, type S3Client } from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { LONG_VALUES } from "../../src/sinks/bulk/mappings.ts";
import { programOnPath, skipUnless } from "../support/components.ts";
import {
  type Broker,
  KAFKA_REMEDY,
  KCAT_REMEDY,
  kafkaForTests,
  readTopic,
  startBroker,
} from "../support/kafka.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";
import {
  clientOf,
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { compare, invented, linesOf, openScene, type Scene, type SceneSink } from "./scene.ts";

const TIMEOUT = { timeout: 600_000 };

let scene: Scene;

beforeEach(async () => {
  scene = await openScene();
});
afterEach(() => scene.close());

function more(count: number, organizations: number): void {
  const { organizations: all, control } = scene.simulator;
  for (let at = 0; at < count; at++)
    control.append(all[at % organizations]!.id, [{ event_type: "user_create", number: at }]);
}

interface OldCopy {
  /** Events after the copy: twice so many, each read by a run of its own, and as many after the restore. */
  readonly events: number;
  /** The number of organizations that these events belong to. */
  readonly organizations: number;
  readonly config: Readonly<Record<string, unknown>>;
  /** Whether there is a copy of the state before the restore too, as new.db. */
  readonly isNewestKept: boolean;
}

/** Delivered, copied, delivered on; then the copy is put in place, and more has happened meanwhile. */
async function restoreOld(
  sink: SceneSink,
  { events = 150, organizations = 3, config = {}, isNewestKept = false }: Partial<OldCopy> = {},
): Promise<string> {
  scene.configure([sink], config);
  await scene.done("run", "--once");
  await scene.done("backup", scene.path("old.db"));
  for (let batch = 0; batch < 2; batch++) {
    more(events, organizations);
    await scene.done("run", "--once");
  }
  if (isNewestKept) await scene.done("backup", scene.path("new.db"));
  const said = await scene.done("restore", scene.path("old.db"));
  more(events, organizations);
  return said;
}

async function runUntilStopped(name: string) {
  const program = scene.run();
  const view = await scene.becomes(name, "stopped");
  program.child.kill("SIGTERM");
  expect(await program.ended()).toBe(0);
  return view;
}

const { brokers, jars } = await kafkaForTests();
const noKcat = skipUnless("kcat", programOnPath("kcat"), KCAT_REMEDY);

describe.skipIf(skipUnless("kafka", brokers ?? jars, KAFKA_REMEDY) || noKcat)(
  "R20 an old copy is restored while Kafka is ahead",
  () => {
    let broker: Broker | undefined;
    let address: string;
    beforeAll(async () => {
      if (brokers === undefined) broker = await startBroker(jars!);
      address = broker?.address ?? brokers!;
    });
    afterAll(() => broker?.remove());

    const topic = () => `restore-${randomBytes(6).toString("hex")}`;
    const lake = (name: string): SceneSink => ({
      name: "lake",
      type: "kafka",
      brokers: address.split(","),
      topic: name,
      positionsTopic: `${name}-positions`,
      createTopics: { partitions: 2, replication: 1 },
    });
    const stored = async (name: string) => (await readTopic(address, name)).map(({ payload }) => payload!);

    test.each([
      ["restoring the newest copy", [["restore", "new.db"]], true],
      ["--from state", [["sinks", "resume", "lake", "--from", "state"]], false],
      [
        "--from now and a backfill for it",
        [
          ["sinks", "resume", "lake", "--from", "now"],
          ["backfill", "--sink", "lake", "--since", "30d"],
        ],
        false,
      ],
    ] as const)(
      "it stops and sends nothing; %s: every event is there",
      TIMEOUT,
      async (_, commands, isExact) => {
        const name = topic();
        const said = await restoreOld(lake(name), { isNewestKept: isExact });
        expect(said).toContain("lake (kafka): the positions topic knows");
        const before = await stored(name);
        const { reason, remedy } = await runUntilStopped("lake");
        expect(reason).toContain("the state file was restored from an older copy");
        expect(remedy).toContain("restore the newest state file");
        expect(remedy).toContain("tidemark sinks resume lake --from state");
        expect(remedy).toContain("tidemark backfill --sink lake");
        expect(await stored(name)).toEqual(before);
        for (const [name, ...rest] of commands)
          await scene.done(name, ...rest.map((word) => (word.endsWith(".db") ? scene.path(word) : word)));
        await scene.done("run", "--once");
        const after = await stored(name);
        const { lost, surplus } = compare(scene.served(), after);
        expect(lost).toBe(0);
        expect(invented(scene.served(), after)).toBe(0);
        if (isExact) expect(surplus).toBe(0);
        else expect(surplus).toBeGreaterThan(0);
        // From here on everything is normal again: a restart sends nothing, a new event comes once.
        more(20, 3);
        await scene.done("run", "--once");
        const last = await stored(name);
        expect(compare(scene.served(), last)).toEqual({ lost: 0, surplus });
      },
    );
  },
);

const search = await findOpenSearch();

describe.skipIf(skipUnless("opensearch", search, "TIDEMARK_REQUIRE=opensearch fetches it"))(
  "R20 an old copy is restored while OpenSearch is ahead",
  () => {
    let server: OpenSearch;
    beforeAll(async () => {
      server = await startOpenSearch(search!);
      // Else the first event of a day decides by its fields' types which later ones are refused.
      const template = { index_patterns: ["restore-*"], template: { mappings: { dynamic: false } } };
      await server.request("PUT", "/_index_template/restore", template);
    });
    afterAll(() => server?.close());

    test(
      "what is there already is recognized by its _id: every event once, no question",
      TIMEOUT,
      async () => {
        const sink = {
          name: "search",
          type: "opensearch",
          url: server.url,
          index: "restore-{date}",
          format: "raw",
        };
        expect(await restoreOld(sink)).toContain("search (opensearch): what is there already is recognized");
        await scene.done("run", "--once");
        await server.request("POST", "/restore-*/_refresh");
        const documents = await documentsOf(server, "restore-*");
        expect(compare(scene.served().map(plain), documents)).toEqual({ lost: 0, surplus: 0 });
      },
    );
  },
);

/** Every document as the event that it was made from. */
async function documentsOf(server: OpenSearch, index: string): Promise<string[]> {
  const documents: string[] = [];
  let after: unknown[] | undefined;
  for (;;) {
    const query = { size: 1000, sort: [{ _id: "asc" }], ...(after && { search_after: after }) };
    const { body } = await server.request("POST", `/${index}/_search`, query);
    const { hits } = (body as { hits: { hits: { _source: unknown; sort: unknown[] }[] } }).hits;
    if (hits.length === 0) return documents;
    documents.push(...hits.map(({ _source }) => plain(JSON.stringify(_source))));
    after = hits.at(-1)!.sort;
  }
}

/**
 * Without what the sink adds, and as one JSON text whatever the spaces. The sink cuts values that the server cannot
 * index, for instance large certificates, so long texts are compared by their beginning.
 */
function plain(text: string): string {
  const { "@timestamp": _, [LONG_VALUES]: __, ...event } = JSON.parse(text) as Record<string, unknown>;
  return JSON.stringify(event, (_key, value) => (typeof value === "string" ? value.slice(0, 1000) : value));
}

const versitygw = await findVersitygw();

describe.skipIf(skipUnless("versitygw", versitygw, "TIDEMARK_REQUIRE=versitygw builds it"))(
  "R20 an old copy is restored while a bucket is ahead",
  () => {
    let server: Versitygw;
    let client: S3Client;
    beforeAll(async () => {
      server = await startVersitygw(versitygw!);
      client = clientOf(server);
    });
    afterAll(async () => {
      client?.destroy();
      await server?.close();
    });

    const bucket = (prefix: string, more: Record<string, unknown> = {}): SceneSink => ({
      name: "bucket",
      type: "s3",
      endpoint: server.url,
      region: "us-east-1",
      pathStyle: true,
      bucket: "events",
      prefix,
      accessKeyId: { env: "S3_ACCESS_KEY" },
      secretAccessKey: { env: "S3_SECRET_KEY" },
      objectAgeMax: "1s",
      ...more,
    });

    async function keys(prefix: string): Promise<string[]> {
      const listed = await client.send(new ListObjectsV2Command({ Bucket: "events", Prefix: prefix }));
      return (listed.Contents ?? []).map(({ Key }) => Key!);
    }

    async function stored(prefix: string): Promise<string[]> {
      const lines: string[] = [];
      for (const Key of await keys(prefix)) {
        const object = await client.send(new GetObjectCommand({ Bucket: "events", Key }));
        const bytes = await object.Body!.transformToByteArray();
        lines.push(...linesOf(Key.endsWith(".gz") ? gunzipSync(bytes) : bytes));
      }
      return lines;
    }

    beforeEach(async () => {
      Object.assign(scene.env, { S3_ACCESS_KEY, S3_SECRET_KEY });
      const { CreateBucketCommand } = await import("@aws-sdk/client-s3");
      await client.send(new CreateBucketCommand({ Bucket: "events" })).catch(() => {});
    });

    test("nothing that is there is replaced, and every event is there", TIMEOUT, async () => {
      const prefix = "a/";
      expect(await restoreOld(bucket(prefix))).toContain("bucket (s3): objects are never replaced");
      const before = await stored(prefix);
      await scene.done("run", "--once");
      const after = await stored(prefix);
      expect(compare(before, after).lost).toBe(0);
      expect(compare(scene.served(), after).lost).toBe(0);
      expect(invented(scene.served(), after)).toBe(0);
    });

    test.each(["another prefix", "the object moved away"] as const)(
      "a name that other content has taken stops it; %s: every event is there",
      TIMEOUT,
      async (choice) => {
        const prefix = choice === "another prefix" ? "b/" : "c/";
        // Page numbers are used again after the restore. An object for each event, and three events at a time in
        // pages of two: then some of these pages hold other events than before, under the same keys.
        await scene.close();
        scene = await openScene({ events: 30 });
        Object.assign(scene.env, { S3_ACCESS_KEY, S3_SECRET_KEY });
        const config = { polling: { interval: "300ms", overlap: "1m", pageSize: 2 } };
        await restoreOld(bucket(prefix, { objectEventsMax: 1 }), { events: 3, organizations: 1, config });
        const before = await stored(prefix);
        const { reason, remedy } = await runUntilStopped("bucket");
        expect(reason).toContain("exists with other content than these events");
        expect(compare(before, await stored(prefix)).lost).toBe(0);
        if (choice === "another prefix") {
          expect(remedy).toContain("another prefix");
          scene.configure([bucket(`${prefix}second/`, { objectEventsMax: 1 })], config);
          await scene.done("sinks", "resume", "bucket", "--from", "state");
        } else {
          expect(remedy).toContain("Move the object away");
          await moveAwayUntilDone(prefix);
        }
        await scene.done("run", "--once");
        const after = await stored(prefix);
        expect(compare(scene.served(), after).lost).toBe(0);
        expect(invented(scene.served(), after)).toBe(0);
      },
    );

    /** As a person would: each object that is named is moved, and the program started again. */
    async function moveAwayUntilDone(prefix: string): Promise<void> {
      const { CopyObjectCommand, DeleteObjectCommand } = await import("@aws-sdk/client-s3");
      for (let turn = 0; turn < 50; turn++) {
        const { code, stderr } = await scene.command("run", "--once");
        if (code === 0) return;
        const key = /s3:\/\/events\/(\S+) exists with other content/.exec(stderr)?.[1];
        expect(key, stderr.slice(-2000)).toBeDefined();
        await client.send(
          new CopyObjectCommand({
            Bucket: "events",
            CopySource: `events/${key}`,
            Key: `away/${prefix}${key}`,
          }),
        );
        await client.send(new DeleteObjectCommand({ Bucket: "events", Key: key! }));
      }
      throw new Error("There was no end of objects to move.");
    }
  },
);
