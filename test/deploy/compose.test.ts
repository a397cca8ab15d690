import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { parseConfig } from "../../src/config/load.ts";
import { programOnPath, skipUnless } from "../support/components.ts";
import { runProgram } from "../support/program.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");
const read = (path: string) => readFileSync(join(DEPLOY, path), "utf8");

interface Service {
  readonly image: string;
  readonly command?: string[];
  readonly environment?: Record<string, string>;
  readonly volumes?: string[];
  readonly ports?: string[];
  readonly secrets?: string[];
  readonly depends_on?: string[] | Record<string, unknown>;
  readonly read_only?: boolean;
  readonly cap_drop?: string[];
}
interface Compose {
  readonly services: Record<string, Service>;
  readonly volumes: Record<string, null>;
  readonly secrets?: Record<string, { environment: string }>;
}
const composeOf = (file: string) => parse(read(file), { merge: true }) as Compose;
const compose = composeOf("compose.yaml");
const shards = composeOf("compose-shards.yaml");
const cluster = composeOf("compose-cluster.yaml");
const archive = composeOf("compose-archive.yaml");
const promtool = programOnPath("promtool");

describe.each([
  ["compose.yaml", compose],
  ["compose-shards.yaml", shards],
  ["compose-cluster.yaml", cluster],
  ["compose-archive.yaml", archive],
])("%s", (_file, { services, volumes, secrets }) => {
  it("names only files, volumes, secrets and services that are there", () => {
    for (const [name, service] of Object.entries(services)) {
      for (const volume of service.volumes ?? []) {
        const source = volume.split(":")[0]!;
        if (source.startsWith(".")) expect(existsSync(join(DEPLOY, source)), `${name}: ${source}`).toBe(true);
        else expect(Object.keys(volumes)).toContain(source);
      }
      for (const secret of service.secrets ?? []) expect(Object.keys(secrets ?? {})).toContain(secret);
      const needed = service.depends_on ?? [];
      for (const other of Array.isArray(needed) ? needed : Object.keys(needed))
        expect(Object.keys(services)).toContain(other);
    }
  });

  it("pins every image and opens ports on this machine alone", () => {
    for (const [, { image, ports }] of Object.entries(services)) {
      expect(image).toMatch(/:(v?\d+\.\d+\.\d+|local)$/);
      for (const port of ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
  });

  it("runs Tidemark on a read-only file system without capabilities", () => {
    for (const [name, service] of Object.entries(services))
      if (/^(tidemark|simulator|archive)/.test(name))
        expect(service, name).toMatchObject({ read_only: true, cap_drop: ["ALL"] });
  });
});

describe("three shards in one stack", () => {
  const text = read("compose/tidemark-shards.yaml");

  it("have one config, a number and a volume each", () => {
    const states = new Set<string>();
    for (const index of [0, 1, 2]) {
      const { environment, volumes } = shards.services[`tidemark-${index}`]!;
      const config = parseConfig(text, "deploy/compose/tidemark-shards.yaml", environment);
      expect(config.shard).toEqual({ index, count: 3 });
      for (const [, name] of text.matchAll(/\{ env: (\w+) \}/g))
        expect(Object.keys(environment!)).toContain(name);
      states.add(volumes!.find((volume) => volume.endsWith(":/var/lib/tidemark"))!);
    }
    expect(states.size).toBe(3);
  });

  it("name each other by addresses that each of them answers to", () => {
    const { server } = parseConfig(text, "x", { TIDEMARK_SHARD: "0" });
    for (const address of server!.peers!.addresses) {
      const { hostname } = new URL(address);
      expect(Object.keys(shards.services)).toContain(hostname);
      expect(server!.hosts).toContain(hostname);
    }
  });
});

describe("a cluster in one stack", () => {
  const text = read("compose/tidemark-cluster.yaml");
  const machines = [0, 1, 2].map((index) => cluster.services[`tidemark-${index}`]!);

  it("has one config for three machines, each with a volume, and every variable that the config names", () => {
    const config = parseConfig(text, "deploy/compose/tidemark-cluster.yaml");
    expect(config.cluster).toMatchObject({ name: "demo", trial: false });
    expect(new Set(machines.map(({ volumes }) => volumes!.at(-1))).size).toBe(3);
    for (const { environment } of [...machines, cluster.services.create!])
      for (const [, name] of text.matchAll(/\{ env: (\w+) \}/g))
        expect(Object.keys(environment!)).toContain(name);
  });

  it("has three brokers that the config names, with as many replicas as the cluster wants", () => {
    const { brokers } = parseConfig(text, "x").cluster!;
    expect(brokers).toEqual(["kafka-1:9092", "kafka-2:9092", "kafka-3:9092"]);
    for (const [at, broker] of brokers.entries()) {
      const [name] = broker.split(":");
      expect(cluster.services[name!]!.environment).toMatchObject({
        KAFKA_NODE_ID: String(at + 1),
        KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://${broker}`,
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: "2",
      });
    }
    expect(cluster.services.create!.command!.join(" ")).toContain("cluster create --lanes 8 --replication 3");
  });
});

describe("an archive in one stack", () => {
  const text = read("compose/tidemark-archive.yaml");
  const evidenceOf = (yaml: string) =>
    parseConfig(yaml, "deploy/compose/tidemark-archive.yaml").sinks.find(
      ({ type }) => type === "archive",
    ) as unknown as { origin: string; store: object };
  const { environment, volumes } = archive.services.tidemark!;

  it("has a volume of its own that the image gives to the user, and every variable that the config names", () => {
    const [, place] = volumes!.find((volume) => volume.startsWith("archive:"))!.split(":");
    expect(evidenceOf(text).store).toEqual({ directory: place });
    const [folders] = /install -d -o node .*/.exec(read("../Dockerfile"))!;
    for (const path of [place, "/var/lib/tidemark"]) expect(folders.split(" ")).toContain(path);
    for (const [, name] of text.matchAll(/\{ env: (\w+) \}/g))
      expect(Object.keys(environment!)).toContain(name);
  });

  it("has a bucket as an alternative that the program accepts", () => {
    const bucket = text.replace(/^ {4}store:.*\n/m, "").replace("# store:", "store:");
    expect(evidenceOf(bucket).store).toMatchObject({ s3: { bucket: "audit-archive" } });
  });

  it("makes a key for the config's origin, where the config looks for it, and keeps one that is there", async () => {
    const [script] = archive.services["archive-key"]!.command!;
    const [, path] = /key: \{ file: (\S+) \}/.exec(text)!;
    const folder = mkdtempSync(join(tmpdir(), "tidemark-compose-"));
    try {
      const file = join(folder, "archive.key");
      const main = join(DEPLOY, "../dist/src/main.js");
      const own = script!.replaceAll(path!, file).replace("/app/dist/src/main.js", main);
      expect(own).not.toContain("/var/lib");
      expect(execFileSync("sh", ["-c", own], { encoding: "utf8" })).toContain(`${evidenceOf(text).origin}+`);
      const key = readFileSync(file, "utf8");
      execFileSync("sh", ["-c", own]);
      expect(readFileSync(file, "utf8")).toBe(key);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("the compose file", () => {
  it("has Tidemark, Kafka, the simulator, Prometheus and Grafana", () => {
    expect(Object.keys(compose.services).sort()).toEqual(
      ["grafana", "kafka", "prometheus", "simulator", "tidemark"].sort(),
    );
  });

  it("gives Tidemark a config that it accepts, and every variable that the config names", () => {
    const text = read("compose/tidemark.yaml");
    const config = parseConfig(text, "deploy/compose/tidemark.yaml");
    const named = [...text.matchAll(/\{ env: (\w+) \}/g)].map(([, name]) => name);
    expect(Object.keys(compose.services.tidemark!.environment!).sort()).toEqual(named.sort());
    expect(config.server!.hosts).toContain("tidemark");
    expect(config.accounts[0]!.insightsUrl).toBe("http://simulator:8080");
  });

  it("starts a simulator with options that the program knows", async () => {
    const { command } = compose.services.simulator!;
    // A value that is refused comes after all the others have been read.
    const { stderr, code } = await runProgram([...command!, "--fault", "no JSON"]);
    expect(stderr).toContain("argument 'no JSON' is invalid");
    expect(code).toBe(2);
  });

  it("uses one key on both sides", () => {
    const { command } = compose.services.simulator!;
    const key = command![command!.indexOf("--api-key") + 1];
    expect(compose.services.tidemark!.environment!.DIRECTORY_API_KEY).toBe(key);
  });

  it.skipIf(skipUnless("promtool", promtool, "install the Debian package prometheus"))(
    "gives Prometheus a config that promtool accepts",
    () => {
      const file = join(DEPLOY, "compose/prometheus.yml");
      const { rule_files } = parse(readFileSync(file, "utf8")) as { rule_files: string[] };
      for (const rules of rule_files) {
        // As the volume of the compose file shows them to Prometheus.
        const path = join(DEPLOY, rules.replace("/etc/prometheus/rules", "prometheus"));
        expect(spawnSync(promtool!, ["check", "rules", path]).status, path).toBe(0);
      }
      const check = spawnSync(promtool!, ["check", "config", "--syntax-only", file], { encoding: "utf8" });
      expect(check.stdout).toContain("SUCCESS");
      expect(check.status).toBe(0);
    },
  );
});
