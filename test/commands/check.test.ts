// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { REGIONS } from "../../src/directory/account.ts";
import { openWorld, runMain, type World } from "../support/world.ts";

const SECRET = "hunter2hunter2hunter2";

describe("check", () => {
  let world: World;
  let refused: string;
  beforeAll(async () => {
    world = await openWorld({
      events: 100,
      organizations: [{ name: "One" }, { name: "Two" }, { name: "No plan", refuse: 402 }],
    });
    refused = world.simulator.organizations.find(({ name }) => name === "No plan")!.id;
  });
  afterAll(() => world.close());
  afterEach(() => world.simulator.control.faults.clear());

  /** The failures that `check --online --json` reports for the account. */
  async function check(account: string, key = world.simulator.apiKey) {
    const config = world.configure({ account, sinks: ["{ name: screen, type: console }"] });
    const { code, stdout, stderr } = await runMain(["check", "--online", "--json", "-c", config], {
      KEY: key,
    });
    const findings = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { subject: string; ok: boolean; message: string });
    expect(stdout + stderr).not.toContain(key);
    const failed = findings.filter(({ ok }) => !ok);
    expect(code).toBe(failed.length > 0 ? 1 : 0);
    return failed.map(({ subject, message }) => `${subject}: ${message}`);
  }

  const first = () => world.simulator.organizations[0]!.id;

  test("offline it says that the config is valid, and nothing of the service", async () => {
    world.simulator.control.resetStatistics();
    const outcome = await world.run(["check", "-c", world.configure()]);
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
    expect(outcome.stdout).toMatch(/^ok {6}.*: the config is valid: 1 account, 1 sink\n$/);
    expect(world.simulator.control.requests()).toEqual([]);
  });

  test.each([
    ["a list in both", ["A", "B"], ["b"], "b and a both read the organization B"],
    ["a list and all", "all", ["b"], "b and a may read the same organizations"],
    ["separate lists", ["A"], ["b"], undefined],
    ["no choice by account", ["A", "B"], undefined, undefined],
  ])(
    "R11 it warns of a sink that chooses by account where two accounts read one organization: %s",
    async (_, ofA, accounts, expected) => {
      const key = { env: "KEY" };
      const common = { insightsUrl: "http://127.0.0.1:1", managementUrl: "http://127.0.0.1:1", apiKey: key };
      const idOf = (letter: string) => letter.repeat(24);
      const file = join(mkdtempSync(join(tmpdir(), "tidemark-check-")), "tidemark.yaml");
      const config = {
        accounts: [
          { name: "a", ...common, organizations: ofA === "all" ? ofA : (ofA as string[]).map(idOf) },
          { name: "b", ...common, organizations: [idOf("b")] },
        ],
        sinks: [{ name: "screen", type: "console", ...(accounts && { only: { accounts } }) }],
      };
      writeFileSync(file, JSON.stringify(config));
      const { code, stdout } = await runMain(["check", "-c", file], { KEY: "key" });
      rmSync(dirname(file), { recursive: true });
      expect(code).toBe(0);
      const notes = stdout.split("\n").filter((line) => line.startsWith("note"));
      expect(notes).toEqual(
        expected === undefined ? [] : [expect.stringContaining(expected.replace(/\bB\b/, idOf("b")))],
      );
    },
  );

  test("a config that is wrong ends with 2", async () => {
    const outcome = await world.run(["check", "-c", world.configure({ more: ["sinc: 1"] })]);
    expect([outcome.code, outcome.stderr]).toEqual([
      2,
      expect.stringContaining("sinc: this key is not known"),
    ]);
  });

  test("everything in order: no complaint, and 0", async () => {
    expect(await check(`organizations: ['${first()}']`)).toEqual([]);
  });

  test("a plan that keeps less than the config says is a warning", async () => {
    const { control } = world.simulator;
    const config = world.configure({
      account: `organizations: ['${first()}']`,
      sinks: ["{ name: screen, type: console }"],
    });
    control.limitHistory(first(), 15);
    try {
      const { code, stdout } = await runMain(["check", "--online", "-c", config], {
        KEY: world.simulator.apiKey,
      });
      expect(code).toBe(0);
      expect(stdout).toMatch(/^note .*refuses the oldest events of the last 90d: .*15 days.*`retention`/m);
    } finally {
      control.limitHistory(first(), null);
    }
  });

  test("a wrong key", async () => {
    const [finding] = await check(`organizations: ['${first()}']`, SECRET);
    expect(finding).toContain("The key is wrong or was reset");
  });

  test("a key of another region", async () => {
    const regions = REGIONS as Record<"us" | "eu" | "in", object>;
    const before = { ...regions };
    const other = await openWorld({ events: 10, organizations: 1, apiKey: "another-key-of-another-region" });
    const addresses = ({ insightsUrl, managementUrl }: World["simulator"]) => ({
      insightsUrl,
      managementUrl,
    });
    // One simulated service stands for the region of the key, another one for the rest.
    Object.assign(regions, {
      us: addresses(other.simulator),
      in: addresses(other.simulator),
      eu: addresses(world.simulator),
    });
    try {
      const config = world.configure({ sinks: ["{ name: screen, type: console }"] });
      const account = `{ name: acme, region: us, apiKey: { env: KEY }, organizations: ['${first()}'] }`;
      writeFileSync(config, readFileSync(config, "utf8").replace(/- \{ name: acme,.*$/m, `- ${account}`));
      const args = ["check", "--online", "--json", "-c", config];
      const { stdout } = await runMain(args, { KEY: world.simulator.apiKey });
      expect(stdout).toContain("The key is valid in region eu: set region: eu");
    } finally {
      Object.assign(regions, before);
      await other.close();
    }
  });

  test("a missing organization header", async () => {
    const [finding] = await check("since: 1d");
    expect(finding).toContain("add `organizations`");
  });

  test("an unknown organization", async () => {
    const [finding] = await check("organizations: ['0123456789abcdef01234567']");
    expect(finding).toContain("No organization has this id");
  });

  test("a malformed organization", async () => {
    const [finding] = await check("organizations: ['acme corp']");
    expect(finding).toContain("organization");
    expect(finding).not.toContain("defect");
  });

  test("an organization without entitlement, the others being fine", async () => {
    const failed = await check("organizations: all");
    expect(failed).toHaveLength(1);
    expect(failed[0]).toContain(`organization ${refused}`);
    expect(failed[0]).toContain("Insights is not enabled for this organization");
  });

  test("a role that may not read events", async () => {
    const { key } = world.simulator.keys.find(({ role }) => role === "command_runner")!;
    const [finding] = await check(`organizations: ['${first()}']`, key);
    expect(finding).toContain("role may not read events");
  });

  test("each of these in words of its own", async () => {
    const { key } = world.simulator.keys.find(({ role }) => role === "command_runner")!;
    const all = [
      await check(`organizations: ['${first()}']`, SECRET),
      await check("since: 1d"),
      await check("organizations: ['0123456789abcdef01234567']"),
      await check(`organizations: ['${refused}']`),
      await check(`organizations: ['${first()}']`, key),
    ].map(([finding]) => finding!.replace(/^[^:]*: /, ""));
    expect(new Set(all).size).toBe(5);
  });

  test("throttled and unavailable", async () => {
    world.simulator.control.faults.set([{ kind: "status", status: 429 }]);
    expect((await check(`organizations: ['${first()}']`))[0]).toContain("throttled");
    world.simulator.control.faults.set([{ kind: "status", status: 503 }]);
    expect((await check(`organizations: ['${first()}']`))[0]).toContain("cannot be reached");
  });

  test("the list of organizations cannot be read", async () => {
    const failed = await check("organizations: all", SECRET);
    expect(failed[0]).toContain("the list of organizations cannot be read");
    expect(failed[0]).toContain("managementUrl");
  });

  describe("an address where something else answers", () => {
    let server: Server;
    let answer: { status: number; type: string; body: string };
    beforeAll(async () => {
      server = createServer((_, response) => {
        response.writeHead(answer.status, { "Content-Type": answer.type });
        response.end(answer.body);
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    });
    afterAll(() => new Promise((resolve) => server.close(resolve)));

    test.each([
      ["a proxy's page", { status: 200, type: "text/html", body: "<html><body>hello</body></html>" }],
      ["another API", { status: 200, type: "application/json", body: '{"ok":true}' }],
      ["half a page", { status: 200, type: "application/json", body: '[{"id":"a"' }],
    ])("%s is nonsense", async (_, given) => {
      answer = given;
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const config = world.configure({ sinks: ["{ name: screen, type: console }"] });
      writeFileSync(
        config,
        `accounts: [{ name: a, insightsUrl: '${url}', managementUrl: '${url}', apiKey: { env: KEY }, organizations: ['${first()}'] }]\nsinks: [{ name: screen, type: console }]\n`,
      );
      const outcome = await world.run(["check", "--online", "-c", config]);
      expect([outcome.code, outcome.stdout]).toEqual([
        1,
        expect.stringContaining("This does not look like the Insights API"),
      ]);
    });

    test("a port where nothing listens", async () => {
      const config = world.configure();
      writeFileSync(
        config,
        `accounts: [{ name: a, insightsUrl: 'http://127.0.0.1:1', managementUrl: 'http://127.0.0.1:1', apiKey: { env: KEY }, organizations: ['${first()}'] }]\nsinks: [{ name: screen, type: console }]\n`,
      );
      const outcome = await world.run(["check", "--online", "-c", config]);
      expect([outcome.code, outcome.stdout]).toEqual([
        1,
        expect.stringContaining("Nothing accepts connections"),
      ]);
    });
  });

  test("a sink is opened as the next run would open it: before the first run, and after one, nothing is changed", async () => {
    const config = world.configure({ account: `organizations: ['${first()}'], since: 30d` });
    expect(await world.run(["check", "--online", "-c", config])).toMatchObject({ code: 0 });
    expect(await world.run(["run", "--once", "-c", config])).toMatchObject({ code: 0, stderr: "" });
    const before = world.lines();
    expect(before.length).toBeGreaterThan(10);
    expect(await world.run(["check", "--online", "-c", config])).toMatchObject({ code: 0 });
    expect(world.lines()).toEqual(before);
    expect(await world.run(["run", "--once", "-c", config])).toMatchObject({ code: 0, stderr: "" });
    expect(world.lines()).toEqual(before);
  });

  test("a sink that cannot be opened is reported with a remedy", async () => {
    const sinks = [
      `{ name: blocked, type: file, directory: ${world.at("tidemark.yaml")}/x }`,
      "{ name: far, type: kafka, brokers: ['127.0.0.1:1'], topic: t }",
    ];
    const outcome = await world.run([
      "check",
      "--online",
      "-c",
      world.configure({ account: `organizations: ['${first()}']`, sinks, state: world.at("other.db") }),
    ]);
    expect(outcome.code).toBe(1);
    expect(outcome.stdout).toMatch(/^FAILED {2}sink blocked: /m);
    expect(outcome.stdout).toMatch(/^FAILED {2}sink far: /m);
    expect(existsSync(world.at("tidemark.yaml"))).toBe(true);
    expect(readdirSync(world.folder)).not.toContain("x");
  });

  describe("refuses what run refuses, with the same words and exit code", () => {
    test.each([
      ["a host that others can reach without a token", ["server: { host: 0.0.0.0, port: 0 }"]],
      ["a short token", ["server: { port: 0, token: { env: SHORT } }"]],
    ])("%s", async (_, more) => {
      const config = world.configure({ more, state: world.at("refused.db") });
      const over = { env: { SHORT: "short" } };
      const checked = await world.run(["check", "-c", config], over);
      const ran = await world.run(["run", "-c", config], over);
      expect([checked.code, ran.code]).toEqual([2, 2]);
      expect(ran.stderr).toContain(checked.stderr.trim());
    });

    test("a sink that is gone from the config while the state has its position", async () => {
      const state = world.at("gone.db");
      await world.run(["run", "--once", "-c", world.configure({ state })]);
      const config = world.configure({ state, sinks: ["{ name: screen, type: console }"] });
      const checked = await world.run(["check", "-c", config]);
      const ran = await world.run(["run", "--once", "-c", config]);
      expect([checked.code, checked.stderr]).toEqual([2, ran.stderr]);
      expect(checked.stderr).toContain("tidemark sinks rename disk NEW");
    });

    test("a port that is in use, online", async () => {
      const blocker = createServer();
      await new Promise<void>((resolve) => blocker.listen(0, "127.0.0.1", resolve));
      const { port } = blocker.address() as AddressInfo;
      const account = `organizations: ['${first()}']`;
      const config = world.configure({
        account,
        more: [`server: { port: ${port} }`],
        state: world.at("port.db"),
      });
      const outcome = await world.run(["check", "--online", "-c", config]);
      await new Promise((resolve) => blocker.close(resolve));
      expect(outcome.code).toBe(1);
      expect(outcome.stdout).toContain(`FAILED  server: the server cannot listen on 127.0.0.1 port ${port}`);
    });

    test("a host name that DNS does not know has its own sentence", async () => {
      const config = world.configure();
      writeFileSync(
        config,
        `accounts: [{ name: a, insightsUrl: 'https://insights.invalid', managementUrl: 'https://console.invalid', apiKey: { env: KEY }, organizations: ['${first()}'] }]\nstate: ${world.at("dns.db")}\nsinks: [{ name: screen, type: console }]\n`,
      );
      const { code, stdout } = await world.run(["check", "--online", "-c", config]);
      expect(code).toBe(1);
      expect(stdout).toContain("This host name is not known to DNS");
      expect(stdout).not.toContain(".:");
    });
  });
});
