import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ListObjectsV2Command, type S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stageInStore } from "../../src/app/cluster/lane-archive.ts";
import { newSignerText } from "../../src/archive/log/note.ts";
import { signerOf } from "../../src/archive/open.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { temporaryFolder } from "../journal/support.ts";
import { skipUnless } from "../support/components.ts";
import { type Broker, findKafka, KAFKA_REMEDY, startBroker } from "../support/kafka.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { type ClusterScene, openClusterScene } from "./machines-campaign.ts";

const jars = await findKafka();
const program = await findVersitygw();
const LANES = 2;
const EVENTS = 600;
const DAYS = 8;
/** How often a machine is killed while days are being closed. */
const KILLS = Number(process.env.TIDEMARK_ARCHIVE_CLUSTER_KILLS ?? 2);
const LIMIT_MS = 600_000;
const CLOSING_MS = 15_000;
const ORIGIN = "example.com/audit";
const Bucket = "evidence";

const skipsS3 = skipUnless("versitygw", program, "needs go: TIDEMARK_REQUIRE=versitygw builds it");

describe.skipIf(skipUnless("kafka", jars, KAFKA_REMEDY) || skipsS3)("archives of a cluster", () => {
  const folder = temporaryFolder();
  const keyFile = join(folder.path, "archive.key");
  const keyText = newSignerText(ORIGIN);
  let broker: Broker;
  let server: Versitygw;
  let s3: S3Client;
  let scene: ClusterScene;

  beforeAll(async () => {
    writeFileSync(keyFile, keyText, { mode: 0o600 });
    [broker, server] = await Promise.all([startBroker(jars!), startVersitygw(program!)]);
    s3 = await openBucket(server, Bucket);
    const place = `bucket: ${Bucket}, prefix: audit/, endpoint: '${server.url}', pathStyle: true`;
    const keys = "accessKeyId: { env: S3_KEY }, secretAccessKey: { env: S3_SECRET }";
    const archive = `origin: ${ORIGIN}, key: { file: ${keyFile} }, settle: 0s, store: { s3: { ${place}, ${keys} } }`;
    const others = {
      lines: [`  - { name: evidence, type: archive, ${archive} }`],
      env: { S3_KEY: S3_ACCESS_KEY, S3_SECRET: S3_SECRET_KEY },
      delivered: async () => new Map(),
      close: async () => {},
    };
    scene = await openClusterScene(broker, LANES, EVENTS, others, DAYS);
  });
  afterAll(async () => {
    await scene?.close();
    s3?.destroy();
    await server?.close();
    await broker?.remove();
    folder.remove();
  });

  async function objects(prefix: string): Promise<string[]> {
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: prefix }));
    return Contents.map(({ Key }) => Key!);
  }

  /** Until there are more data files than before, so that days are being closed right now; or for a while. */
  async function closing(): Promise<void> {
    const before = (await objects("audit/")).length;
    const deadline = Date.now() + CLOSING_MS;
    while ((await objects("audit/")).length <= before && Date.now() < deadline) await sleep(20);
  }

  interface Verified {
    readonly isValid: boolean;
    readonly isPinned: boolean;
    readonly events: number;
    readonly findings: readonly unknown[];
  }

  async function verify(lane: number): Promise<Verified | undefined> {
    const key = signerOf({ origin: `${ORIGIN}/lane-${lane}` }, keyText).verifier.text;
    const args = ["archive", "verify", "--lane", String(lane), "--key", key, "--json"];
    const { stdout } = await scene.command(...args);
    return stdout === "" ? undefined : (JSON.parse(stdout) as Verified);
  }

  /** States, reasons and alarms, for an archive that does not get on. */
  async function whatMachinesSay(): Promise<string> {
    const answers = ["one", "two"].map(async (machine) => [
      machine,
      await scene.api(machine, "/api/status").catch(String),
      scene.machines.get(machine)?.stderr().slice(-3000),
    ]);
    return JSON.stringify(await Promise.all(answers));
  }

  /** The number of events on days that can be closed now: it grows at midnight. */
  function closedEvents(): number {
    const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    return scene.simulator.organizations
      .flatMap(({ id }) => [...scene.simulator.control.allEvents({ organization: id, pending: true })])
      .map((bytes) => JSON.parse(Buffer.from(bytes).toString()) as { readonly timestamp: string })
      .filter(({ timestamp }) => timestamp.slice(0, 10) < yesterday).length;
  }

  test("C10 machines are killed while days are closed: each lane has one log, which holds every event once", async () => {
    for (const machine of ["one", "two"]) scene.start(machine);
    await scene.allRunning(LIMIT_MS);
    const { lost, twice } = await scene.account(LIMIT_MS);
    expect({ lost, twice }).toEqual({ lost: 0, twice: 0 });
    for (let kill = 0; kill < KILLS; kill++) {
      const machine = kill % 2 === 0 ? "one" : "two";
      await closing();
      await scene.kill(machine);
      await scene.allRunning(LIMIT_MS);
      scene.start(machine);
    }
    const deadline = Date.now() + LIMIT_MS;
    for (;;) {
      const owed = closedEvents();
      const found = await Promise.all(Array.from({ length: LANES }, (_, lane) => verify(lane)));
      const held = found.reduce((sum, one) => sum + (one?.events ?? 0), 0);
      if (held !== owed && Date.now() < deadline) {
        await sleep(2000);
        continue;
      }
      for (const one of found) expect(one).toMatchObject({ isValid: true, isPinned: true, findings: [] });
      expect(held, held === owed ? "" : await whatMachinesSay()).toBe(owed);
      expect(owed).toBeGreaterThan(EVENTS / 3);
      return;
    }
  }, 2_400_000);

  test("C3 a hold is in the logs of the lanes that it concerns, and is listed and released from any machine", async () => {
    const { id } = scene.simulator.organizations[0]!;
    const added = await scene.command("archive", "hold", "add", "Case 17", "--organization", id);
    expect(added.stdout).toMatch(/^Lane \d: The hold hold-[0-9a-f]{8} is in force and in the log\.\n$/);
    const hold = /hold-[0-9a-f]{8}/.exec(added.stdout)![0];
    expect((await scene.command("archive", "hold", "list")).stdout).toContain(`${hold}  Case 17  ${id}`);
    expect((await scene.command("archive", "hold", "release", hold)).stdout).toContain("is released");
    const unnamed = await scene.command("archive", "verify");
    expect([unnamed.code, unnamed.stderr]).toEqual([2, expect.stringContaining("--lane")]);
  });

  test("A4 pages that only a lane's archive holds are staged in the store, outside of the archive", async () => {
    const store = {
      s3: {
        ...{ bucket: Bucket, prefix: "staged/lane-0/", region: "us-east-1", endpoint: server.url },
        ...{ pathStyle: true, timeout: 60_000 },
        accessKeyId: secretOf(S3_ACCESS_KEY),
        secretAccessKey: secretOf(S3_SECRET_KEY),
      },
    };
    let isOurs = true;
    const staging = stageInStore({ store }, systemClock, () => {
      if (!isOurs) throw new Error("Not ours.");
    });
    await staging.write(7, Buffer.from("page"));
    await staging.write(7, Buffer.from("page"));
    expect((await staging.read(7)).toString()).toBe("page");
    expect(await objects("staged/")).toEqual(["staged/lane-0.staging/7.page"]);
    await expect(staging.read(8)).rejects.toThrow("8.page is missing");
    isOurs = false;
    await expect(staging.remove(7)).rejects.toThrow("Not ours.");
    isOurs = true;
    await staging.remove(7);
    expect(await objects("staged/")).toEqual([]);
    await staging.close();
  });
});
