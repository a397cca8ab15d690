import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipUnless } from "../support/components.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { openWorld, type World } from "../support/world.ts";
import { byTime, DUCKDB_REMEDY, duckdb } from "./support.ts";

const versitygw = await findVersitygw();
const skips =
  skipUnless("duckdb", duckdb, DUCKDB_REMEDY) ||
  skipUnless("versitygw", versitygw, "set TIDEMARK_REQUIRE=versitygw to build it with Go");

describe.skipIf(skips)("search over an archive in S3", () => {
  let world: World;
  let gateway: Versitygw;
  const env = { S3_ID: S3_ACCESS_KEY, S3_SECRET: S3_SECRET_KEY };
  const run = (...args: string[]) => world.run([...args, "--config", world.at("tidemark.yaml")], { env });

  beforeAll(async () => {
    world = await openWorld();
    gateway = await startVersitygw(versitygw!);
    (await openBucket(gateway, "evidence")).destroy();
    const key = world.at("archive.key");
    await world.run(["archive", "keys", "new", key, "--origin", "example.com/evidence"]);
    world.configure({
      sinks: [
        `{ name: evidence, type: archive, origin: example.com/evidence, key: { file: ${key} }, settle: 0s, store: { s3: { bucket: evidence, prefix: audit/, endpoint: "${gateway.url}", pathStyle: true, accessKeyId: { env: S3_ID }, secretAccessKey: { env: S3_SECRET } } } }`,
      ],
    });
    const ran = await run("run", "--once");
    expect({ code: ran.code, stderr: ran.stderr }).toEqual({ code: 0, stderr: "" });
  });
  afterAll(async () => {
    await world?.close();
    await gateway?.close();
  });

  test("gives every event once, byte for byte, with a local index, and rebuilds it", async () => {
    const served = byTime(world.served());
    const { code, stdout } = await run("search", "--output", "raw");
    expect(code).toBe(0);
    const lines = stdout.split("\n").slice(0, -1);
    expect(lines.toSorted()).toEqual(served.map(({ text }) => text).toSorted());
    const { service } = served[0]!.event;
    const counted = await run(
      "sql",
      `SELECT count(*)::INT AS n FROM events WHERE service = '${service}'`,
      "--json",
    );
    expect(JSON.parse(counted.stdout).n).toBe(served.filter(({ event }) => event.service === service).length);
    const rebuilt = JSON.parse((await run("archive", "rebuild-index", "--json")).stdout);
    expect(rebuilt.parts).toBeGreaterThan(5);
    expect(rebuilt.closedEvents + rebuilt.openEvents).toBe(served.length);
    const text = await run("search", "--text", served[0]!.event.id!, "--output", "raw");
    expect(text.stdout).toBe(`${served[0]!.text}\n`);
  });
});
