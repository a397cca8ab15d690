import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipUnless } from "../support/components.ts";
import { openWorld, type World } from "../support/world.ts";
import { archivedWorld, byTime, DUCKDB_REMEDY, duckdb, type SimpleEvent } from "./support.ts";

const PROGRAM = join(import.meta.dirname, "../../dist/src/main.js");
const skips = skipUnless("duckdb", duckdb, DUCKDB_REMEDY);

let world: World;
let served: { readonly text: string; readonly event: SimpleEvent }[];

beforeAll(async () => {
  if (skips) return;
  world = await openWorld({ days: 8 });
  await archivedWorld(world);
  served = byTime(world.served());
});
afterAll(() => world?.close());

const search = (...args: string[]) => world.run(["search", "--config", world.at("tidemark.yaml"), ...args]);
const sql = (text: string, ...args: string[]) =>
  world.run(["sql", text, "--config", world.at("tidemark.yaml"), ...args]);
/** A slow machine shows progress. */
const withoutProgress = (text: string) => text.replaceAll(/^(Indexing|Searching): .*\n/gm, "");
const linesOf = (text: string) => text.split("\n").slice(0, -1);

describe.skipIf(skips)("tidemark search", () => {
  test("gives every event that was served, closed or open, once, in time order, byte for byte", async () => {
    const { code, stdout, stderr } = await search("--output", "raw");
    expect({ code, stderr: withoutProgress(stderr) }).toEqual({ code: 0, stderr: "" });
    const times = linesOf(stdout).map((line) => JSON.parse(line).timestamp as string);
    expect(times).toEqual(served.map(({ event }) => event.timestamp));
    expect(linesOf(stdout).toSorted()).toEqual(served.map(({ text }) => text).toSorted());
    const closed = await search("--json", "-n", "1");
    expect(JSON.parse(closed.stdout)).toMatchObject({
      logEntry: expect.any(Number),
      event: served[0]!.event,
    });
    const open = await search("--json", "-n", "1", "--newest-first");
    expect(JSON.parse(open.stdout)).toMatchObject({ journalPage: expect.any(Number) });
  });

  test("answers by organization, service, event type, time and id", async () => {
    const { event } = served[100]!;
    const { organization, service, event_type, timestamp, id } = event;
    const matching = (test: (event: SimpleEvent) => boolean) =>
      served.filter((one) => test(one.event)).length;
    const count = async (...args: string[]) => Number((await search("--count", ...args)).stdout);
    expect(await count()).toBe(served.length);
    expect(await count("--organization", organization!.toUpperCase())).toBe(
      matching((one) => one.organization === organization),
    );
    expect(await count("--service", service)).toBe(matching((one) => one.service === service));
    expect(await count("--event-type", event_type!)).toBe(matching((one) => one.event_type === event_type));
    expect(await count("--event-type", "*login*")).toBe(
      matching((one) => one.event_type?.includes("login") ?? false),
    );
    expect(await count("--since", timestamp, "--until", served[200]!.event.timestamp)).toBe(
      matching(
        (one) =>
          one.timestamp >= timestamp.slice(0, 23) &&
          one.timestamp < served[200]!.event.timestamp.slice(0, 23),
      ),
    );
    expect(linesOf((await search("--id", id!, "--output", "raw")).stdout)).toContain(served[100]!.text);
  });

  test("finds a person, an address, a device and an application by any of their names", async () => {
    const ip = served.find(({ event }) => typeof event.client_ip === "string")!.event.client_ip as string;
    const byIp = linesOf((await search("--ip", ip, "--output", "raw")).stdout).map((line) =>
      JSON.parse(line),
    );
    expect(byIp.length).toBeGreaterThan(0);
    for (const event of byIp) expect(JSON.stringify(event)).toContain(ip);
    const actor = served.find(({ event }) => event.initiated_by?.email)!.event.initiated_by!;
    const byMail = linesOf((await search("--user", actor.email!.toUpperCase(), "--json")).stdout);
    const byId = linesOf((await search("--user", actor.id!, "--json")).stdout);
    expect(byMail.length).toBeGreaterThan(0);
    for (const line of byMail) expect(line.toLowerCase()).toContain(actor.email!.toLowerCase());
    expect(byId.length).toBeGreaterThan(0);
    const application = served.find(({ event }) => event.service === "sso")!.event.application!;
    expect(Number((await search("--application", application.id!, "--count")).stdout)).toBeGreaterThan(0);
    const device = served.find(({ event }) => event.service === "systems" && event.system?.hostname)!.event
      .system!;
    expect(Number((await search("--device", device.hostname!, "--count")).stdout)).toBeGreaterThan(0);
  });

  test("A27 finds a text anywhere in the values, as a scan of everything would", async () => {
    const { event } = served[50]!;
    for (const text of [event.id!.slice(4, 20), "ldap", "Chrome", "password"]) {
      const found = linesOf((await search("--text", text, "--output", "raw")).stdout);
      const expected = served.filter((one) =>
        valuesOf(one.event).some((value) => value.includes(text.toLowerCase())),
      );
      expect(found.toSorted(), text).toEqual(expected.map((one) => one.text).toSorted());
    }
  });

  test("A25 counts by a field, labelled as from the index; an unknown field names near ones", async () => {
    const { stdout } = await search("--by", "service");
    expect(stdout).toMatch(/^ *COUNT {2}SERVICE \(from the index\)\n/);
    const counted = JSON.parse((await search("--by", "service", "--json", "-n", "100")).stdout);
    const own = new Map<string, number>();
    for (const { event } of served) own.set(event.service, (own.get(event.service) ?? 0) + 1);
    expect(
      new Map(counted.values.map((one: { value: string; count: number }) => [one.value, one.count])),
    ).toEqual(own);
    const wrong = await search("--by", "event_tpye");
    expect(wrong).toMatchObject({ code: 2 });
    expect(wrong.stderr).toContain('There is no field "event_tpye"; did you mean "event_type"?');
    expect((await search("--outcome", "sucess")).stderr).toContain("did you mean success?");
  });

  test("writes OCSF, a table, and the story of a person by session", async () => {
    const ocsf = JSON.parse((await search("--output", "ocsf", "-n", "1")).stdout);
    expect(ocsf).toMatchObject({ class_uid: expect.any(Number), metadata: { version: "1.8.0" } });
    expect((await search("-n", "2")).stdout).toMatch(/^TIME +SERVICE +EVENT TYPE/);
    const { email } = served.find(({ event }) => event.initiated_by?.email)!.event.initiated_by!;
    const story = await search("--story", email!);
    expect(story.stdout).toMatch(/^Session 1: \d{4}-\d\d-\d\d \d\d:\d\d UTC, /);
    const sessions = linesOf((await search("--story", email!, "--json")).stdout).map((line) =>
      JSON.parse(line),
    );
    const total = sessions.reduce((sum, one) => sum + one.events.length, 0);
    expect(total).toBe(Number((await search("--user", email!, "--count")).stdout));
    for (const [at, { first }] of sessions.entries())
      if (at > 0) expect(Date.parse(first) - Date.parse(sessions[at - 1].last)).toBeGreaterThan(30 * 60_000);
  });

  test("a text search that would read too much says what it costs and how to narrow it", async () => {
    const { code, stderr } = await search("--text", "a needle", "--scan-max", "1KB");
    expect(code).toBe(2);
    expect(stderr).toMatch(/too broad: .* events \([\d.]+ \w+\) would have to be read, about \d+ s/);
    expect(stderr).toContain("Narrow it with --since");
  });

  test("Ctrl-C stops at once", async () => {
    const stop = new AbortController();
    const ended = world.run(["search", "--config", world.at("tidemark.yaml"), "--output", "raw"], {
      signal: stop.signal,
      onOutput: () => stop.abort(new Error("stopped by SIGINT")),
    });
    expect(linesOf((await ended).stdout).length).toBeLessThan(served.length);
  });

  test("works on an archive by itself, without config and state", async () => {
    const { stdout } = await world.run(["search", "--store", world.at("archive"), "--count"], {
      env: { XDG_CACHE_HOME: world.at("cache") },
    });
    const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    expect(Number(stdout)).toBe(
      served.filter(({ event }) => event.timestamp.slice(0, 10) < yesterday).length,
    );
  });
});

describe.skipIf(skips)("access entries of commands", () => {
  const entries = async () => {
    const { stdout } = await world.run(["tokens", "log", "--json", "--config", world.at("tidemark.yaml")]);
    return linesOf(stdout).map((line) => JSON.parse(line));
  };

  test("say who asked for what and how many events came back, also where the query was refused", async () => {
    const env = { USER: "responder" };
    const config = ["--config", world.at("tidemark.yaml")];
    await world.run(["search", "--service", "sso", "--limit", "3", ...config], { env });
    await world.run(["search", "--count", ...config], { env });
    await world.run(["sql", "SELECT count(*) FROM events", ...config], { env });
    await world.run(["sql", "DROP VIEW events", ...config], { env });
    expect((await entries()).slice(-4)).toMatchObject([
      { who: "command: responder", operation: "search", query: { service: ["sso"] }, status: 200, events: 3 },
      { operation: "search", query: { count: true }, events: null, organizations: null },
      { operation: "sql", query: "SELECT count(*) FROM events", status: 200 },
      { operation: "sql", query: "DROP VIEW events", status: 400 },
    ]);
  });

  test("A23 an erasure reaches them, the index and the search", async () => {
    const { id, organization } = served[0]!.event;
    const count = async () => Number((await search("--id", id!, "--count")).stdout);
    expect(await count()).toBe(1);
    const erased = await world.run([
      ...["archive", "erase", "--organization", organization!, "--event", id!],
      ...["--reason", "a person asked", "--config", world.at("tidemark.yaml")],
    ]);
    expect(erased.code).toBe(0);
    expect(erased.stdout).toContain("1 access entries no longer name it");
    expect(JSON.stringify(await entries())).not.toContain(id);
    expect((await entries()).at(-1)).toMatchObject({ operation: "search", query: "[erased]" });
    expect(await count()).toBe(0);
    const rows = await sql(`SELECT count(*)::INT AS n FROM events WHERE id = '${id}'`, "--json");
    expect(JSON.parse(rows.stdout).n).toBe(0);
    served = served.slice(1);
  });
});

describe.skipIf(skips)("tidemark archive rebuild-index", () => {
  const rebuild = (...args: string[]) =>
    world.run(["archive", "rebuild-index", "--config", world.at("tidemark.yaml"), ...args]);
  const folder = () => world.at("state.db.search/index/default");
  const content = () =>
    Object.fromEntries(
      readdirSync(folder())
        .filter((name) => name.endsWith(".parquet"))
        .map((name) => [name, readFileSync(join(folder(), name)).toString("base64")]),
    );

  test("A25 makes every file again, with the same content, from the data files and the journal", async () => {
    await search("--count");
    const before = content();
    const [some] = Object.keys(before);
    writeFileSync(join(folder(), some!), "no Parquet");
    const { code, stdout } = await rebuild("--json");
    expect(code).toBe(0);
    const { parts, closedEvents, openEvents } = JSON.parse(stdout);
    expect(closedEvents + openEvents).toBe(served.length);
    expect(parts).toBe(Object.keys(before).filter((name) => name.startsWith("part-")).length);
    expect(content()).toEqual(before);
    expect((await rebuild()).stdout).toContain(`${parts} closed parts with ${closedEvents} events`);
  });

  test("works on an archive by itself, and ends with the damaged data file where there is one", async () => {
    const alone = (directory: string) =>
      world.run(["archive", "rebuild-index", "--json", "--store", directory], {
        env: { XDG_CACHE_HOME: world.at("cache") },
      });
    expect(JSON.parse((await alone(world.at("archive"))).stdout)).toMatchObject({ openEvents: 0 });
    cpSync(world.at("archive"), world.at("damaged"), { recursive: true });
    const data = readdirSync(world.at("damaged/events"), { recursive: true, encoding: "utf8" })
      .map((name) => join(world.at("damaged/events"), name))
      .find((path) => path.endsWith(".zst") && statSync(path).size > 1000)!;
    const bytes = readFileSync(data);
    bytes[200] = bytes[200]! ^ 1;
    rmSync(data);
    writeFileSync(data, bytes);
    const { code, stderr } = await alone(world.at("damaged"));
    expect(code).toBe(1);
    expect(stderr).toMatch(/damaged at .*: run `archive verify`/);
  });
});

describe.skipIf(skips)("tidemark sql", () => {
  test("answers a SELECT over the view events", async () => {
    const { stdout } = await sql(
      "SELECT service, count(*) AS n FROM events GROUP BY 1 ORDER BY n DESC, 1",
      "--json",
    );
    const rows = linesOf(stdout).map((line) => JSON.parse(line));
    expect(rows.reduce((sum, { n }) => sum + n, 0)).toBe(served.length);
    const table = await sql("SELECT min(time) AS first FROM events");
    expect(table.stdout.split("\n")[1]).toContain(served[0]!.event.timestamp.slice(0, 10));
  });

  test("gives every column, also where two have one name", async () => {
    const { stdout } = await sql("SELECT 1 AS x, 2 AS x", "--json");
    expect(JSON.parse(stdout)).toEqual({ x: 1, "x:1": 2 });
  });

  test("A26 accepts one SELECT alone and reads and writes nothing outside the index", async () => {
    const [data] = readdirSync(world.at("archive/events"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".zst"))
      .map((name) => join(world.at("archive/events"), name));
    const before = readFileSync(data!);
    writeFileSync(world.at("secret.csv"), "name,value\nkey,42-secret\n");
    const index = readdirSync(world.at("state.db.search/index/default"))
      .filter((name) => name.endsWith(".parquet"))
      .map((name) => world.at(`state.db.search/index/default/${name}`));
    const kept = readFileSync(index[0]!);
    const attacks = [
      `COPY (SELECT 1) TO '${data}'`,
      `COPY (SELECT 1) TO '${index[0]}'`,
      `SELECT 1; COPY (SELECT 1) TO '${data}'`,
      `WITH x AS (SELECT 1) SELECT * FROM x; DROP VIEW events`,
      `ATTACH '${world.at("state.db")}' AS s (TYPE sqlite)`,
      `ATTACH '${world.at("new.duckdb")}' AS s`,
      `SELECT * FROM read_csv('${world.at("secret.csv")}')`,
      `SELECT * FROM '${world.at("secret.csv")}'`,
      `SELECT * FROM read_text('${world.at("secret.csv")}')`,
      `SELECT * FROM read_blob('${world.at("*")}')`,
      `SELECT * FROM glob('${world.at("*")}')`,
      `SELECT * FROM sniff_csv('${world.at("secret.csv")}')`,
      `SELECT * FROM read_parquet('${world.at("archive")}/*')`,
      `SELECT * FROM query('COPY (SELECT 1) TO ''${data}''')`,
      `FROM read_json('${world.at("tidemark.yaml")}')`,
      `SELECT * FROM enable_profiling(save_location='${world.at("profile.json")}')`,
      `SELECT * FROM enable_logging(storage='file', storage_path='${world.at("log")}')`,
      "SELECT * FROM duckdb_settings()",
      "SELECT * FROM information_schema.tables",
      "SELECT * FROM arrow_scan(1, 2, 3)",
      "SELECT * FROM query_table('events')",
      "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
      `SELECT * FROM read_parquet('${index[0]}')`,
      `SELECT * FROM read_blob('${index[0]}')`,
      `SELECT 1 WHERE 1 IN (SELECT count(*) FROM parquet_metadata('${index[0]}'))`,
      `WITH x AS (FROM (SUMMARIZE SELECT * FROM read_text('${world.at("secret.csv")}'))) SELECT * FROM x`,
      "SELECT * FROM (PIVOT events ON service USING count(*))",
      "PRAGMA database_list",
      "SET enable_external_access = true",
      "RESET enable_external_access",
      "INSTALL httpfs",
      "LOAD httpfs",
      "SELECT * FROM read_parquet('https://example.com/x.parquet')",
      "CALL pragma_version()",
      "CREATE TABLE t AS SELECT 1",
      "DELETE FROM temp.main.open_pages",
      "EXPORT DATABASE 'x'",
      "EXPLAIN ANALYZE SELECT 1",
      "DESCRIBE events",
      "/* SELECT */ DROP VIEW events",
      "",
      "no sql at all",
    ];
    for (const attack of attacks) {
      const { code, stdout, stderr } = await sql(attack);
      expect({ attack, code }).toEqual({ attack, code: 2 });
      expect(stdout + stderr).not.toContain("42-secret");
    }
    expect(existsSync(world.at("profile.json")) || existsSync(world.at("log"))).toBe(false);
    expect(readFileSync(data!).equals(before)).toBe(true);
    expect(readFileSync(index[0]!).equals(kept)).toBe(true);
    expect(Number((await search("--count")).stdout)).toBe(served.length);
  });

  test("A26 accepts subqueries, joins and functions that read nothing", async () => {
    for (const text of [
      "WITH a AS (SELECT service FROM Events), b AS (SELECT * FROM A) SELECT count(*) AS n FROM b",
      "FROM (SELECT count(*) AS n FROM events e JOIN (SELECT DISTINCT service FROM events) s USING (service))",
      "SELECT count(*) AS n FROM events, range(2) r WHERE r.range = 0 AND 1 IN (SELECT unnest([1, 2]))",
      "(SELECT count(*) AS n FROM temp.main.events)",
    ]) {
      const { code, stdout, stderr } = await sql(text, "--json");
      expect({ text, code, stderr: withoutProgress(stderr) }).toEqual({ text, code: 0, stderr: "" });
      expect(JSON.parse(stdout).n, text).toBe(served.length);
    }
  });

  test("A26 a function that needs more memory than the query may have is stopped", () => {
    const ended = spawnSync(
      process.execPath,
      [
        PROGRAM,
        "sql",
        "SELECT length(repeat('x', 1500000000))",
        "--memory",
        "64MB",
        "--store",
        world.at("archive"),
      ],
      { encoding: "utf8", env: { PATH: process.env.PATH, XDG_CACHE_HOME: world.at("cache") } },
    );
    expect(ended.stderr).toContain("needs more memory than it may have");
    // The engine cannot be interrupted inside a function, so the process ends itself.
    expect(ended.signal).toBe("SIGKILL");
  });

  test.skipIf(process.getuid?.() !== 0)(
    "A26 runs as a user who may not write to the archive, and changes nothing in it",
    async () => {
      const nobody = 65_534;
      const store = world.at("archive");
      const cache = world.at("cache-of-nobody");
      mkdirSync(cache);
      chownSync(cache, nobody, nobody);
      chmodSync(world.folder, 0o755);
      const paths = readdirSync(store, { recursive: true, encoding: "utf8" }).map((name) =>
        join(store, name),
      );
      for (const path of [store, ...paths]) chmodSync(path, statSync(path).isDirectory() ? 0o755 : 0o444);
      const before = hashOfFiles(paths);
      const asNobody = (text: string) =>
        spawnSync(process.execPath, [PROGRAM, "sql", text, "--store", store, "--json"], {
          ...{ uid: nobody, gid: nobody, encoding: "utf8", cwd: "/" },
          env: { PATH: process.env.PATH, XDG_CACHE_HOME: cache, HOME: cache },
        });
      const counted = asNobody("SELECT count(*)::INT AS n FROM events");
      // On a slow machine there are lines about the progress.
      expect(withoutProgress(counted.stderr)).toBe("");
      expect(JSON.parse(counted.stdout).n).toBeGreaterThan(100);
      const data = paths.find((path) => path.endsWith(".zst"))!;
      expect(asNobody(`COPY (SELECT 1) TO '${data}'`).status).toBe(2);
      expect(asNobody(`SELECT * FROM read_text('${data}')`).status).toBe(2);
      expect(hashOfFiles(paths)).toBe(before);
    },
  );

  test("A26 stops at its limits of time and memory, and names the columns when one is unknown", async () => {
    const slow = await sql("SELECT count(*) FROM events a, events b, events c, events d", "--timeout", "1s");
    expect(slow).toMatchObject({ code: 2 });
    expect(slow.stderr).toContain("took longer than 1s");
    const large = await sql(
      "SELECT string_agg(repeat(identity, 100000), '') FROM events a",
      "--memory",
      "64MB",
    );
    expect(large).toMatchObject({ code: 2 });
    expect(large.stderr).toContain("memory");
    const wrong = await sql("SELECT usr FROM events");
    expect(wrong.stderr).toContain('The columns of "events" are time, organization');
  });
});

function hashOfFiles(paths: readonly string[]): string {
  const digest = createHash("sha256");
  for (const path of paths) if (!statSync(path).isDirectory()) digest.update(readFileSync(path));
  return digest.digest("hex");
}

function valuesOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [String(value).toLowerCase()];
  return Object.values(value).flatMap(valuesOf);
}
