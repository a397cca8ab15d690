import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { type Received, type Reply, type StandInServer, startServer } from "../stand-ins/server.ts";
import { startSplunk } from "../stand-ins/splunk.ts";
import { type Program, runProgram, startProgram } from "../support/program.ts";
import {
  createSearch,
  formsOf,
  lookThroughFolder,
  lookThroughProcesses,
  lookThroughState,
  type Marker,
  markerOf,
  type Search,
} from "./markers.ts";

/**
 * The whole program with marked secrets, made to fail in every way that tempts a program to say too much.
 * The destinations are malicious: what they refuse, they refuse with the secret in their words.
 */
const SEED = 77;
const key = markerOf("api-key");
const hec = markerOf("hec-token");
const header = markerOf("http-header");
const hmac = markerOf("hmac-secret");
const elastic = markerOf("elastic-password");
const sumo = markerOf("sumo-address");
const otlp = markerOf("otlp-header");
const token = markerOf("server-token");
const readToken = markerOf("read-token");
const derive = (what: string) => createHash("sha256").update(`${SEED} ${what}`).digest("hex").slice(0, 32);
const oauthSecret: Marker = { name: "oauth-secret", value: derive("secret") };
const oauthTokens = Array.from({ length: 20 }, (_, at) => ({
  name: `oauth-token-${at}`,
  value: derive(`token ${at}`),
}));
const presented = markerOf("token-of-a-stranger");
const markers = [
  ...[key, hec, header, hmac, elastic, sumo, otlp, token, readToken, oauthSecret, presented],
  ...oauthTokens,
];

const ENV = {
  HEC_TOKEN: hec.value,
  HTTP_HEADER: `Bearer ${header.value}`,
  HMAC_SECRET: hmac.value,
  ELASTIC_PASSWORD: elastic.value,
  OTLP_HEADER: otlp.value,
  SERVER_TOKEN: token.value,
  READ_TOKEN: readToken.value,
  OAUTH_SECRET: oauthSecret.value,
};

let folder: string;
let simulator: Simulator;
let splunk: Awaited<ReturnType<typeof startSplunk>>;
let web: StandInServer;
let mood: "kind" | "refusing" | "picky" = "kind";
let running: Program | undefined;
let base = "";
const secretFiles = () => new Set(["api-key", "sumo-url"].map((name) => join(folder, name)));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-canary-"));
  simulator = await startSimulator({
    ...{ seed: SEED, apiKey: key.value, organizations: 3, events: 600, days: 2, liveEventsPerSecond: 5 },
    imports: { sourceUsers: 20, usersPerSecond: 20 },
  });
  splunk = await startSplunk({ token: hec.value });
  web = await startServer(answer);
  writeFileSync(join(folder, "api-key"), `${key.value}\n`, { mode: 0o600 });
  writeFileSync(join(folder, "sumo-url"), `${web.url}/sumo/${sumo.value}`, { mode: 0o600 });
  writeFileSync(join(folder, "tidemark.yaml"), JSON.stringify(config()));
  // Beside a running process its sinks are not opened; with a state of its own they are.
  writeFileSync(join(folder, "apart.yaml"), JSON.stringify(config("apart")));
});

afterAll(async () => {
  await running?.kill();
  await simulator?.close();
  await splunk?.server.close();
  await web?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** One address for several destinations; when asked to, it echoes the request. */
function answer(received: Received): Reply {
  const echo = `you sent ${JSON.stringify(received.headers)} to ${received.path}`;
  const body = { error: { type: "security", reason: echo, message: echo }, message: echo, text: echo };
  if (mood === "refusing") return { status: received.path.startsWith("/otlp") ? 403 : 401, body };
  if (mood === "picky") return { status: 400, body };
  if (!received.path.endsWith("/_bulk")) return { status: 200, body: {} };
  const count = received.body.toString().trimEnd().split("\n").length / 2;
  const items = Array.from({ length: count }, () => ({ create: { status: 201 } }));
  return { status: 200, body: { errors: false, items } };
}

function config(name = "state") {
  const service = { insightsUrl: simulator.insightsUrl, managementUrl: simulator.managementUrl };
  const [first, second, third] = simulator.organizations.map(({ id }) => id);
  return {
    accounts: [
      { name: "acme", ...service, apiKey: { file: join(folder, "api-key") }, organizations: [first, second] },
      {
        ...{ name: "robot", ...service, tokenUrl: `${simulator.url}/oauth2/token`, organizations: [third] },
        oauth: { clientId: derive("client"), clientSecret: { env: "OAUTH_SECRET" } },
      },
    ],
    state: join(folder, `${name}.db`),
    polling: { interval: "1s" },
    sinks: [
      { name: "disk", type: "file", directory: join(folder, `${name}-events`) },
      { name: "splunk", type: "splunk_hec", url: splunk.server.url, token: { env: "HEC_TOKEN" } },
      {
        ...{ name: "hook", type: "http", url: `${web.url}/hook` },
        ...{ headers: { authorization: { env: "HTTP_HEADER" } }, hmac: { secret: { env: "HMAC_SECRET" } } },
      },
      {
        ...{ name: "elastic", type: "elasticsearch", url: web.url, username: "tidemark" },
        password: { env: "ELASTIC_PASSWORD" },
      },
      { name: "sumo", type: "sumo", url: { file: join(folder, "sumo-url") } },
      { name: "otlp", type: "otlp", url: `${web.url}/otlp`, headers: { "x-token": { env: "OTLP_HEADER" } } },
    ],
    imports: [
      {
        ...{ name: "hr", account: "acme", organization: first },
        application: simulator.control.world.importApplication(first!),
      },
    ],
    server: { port: 0, token: { env: "SERVER_TOKEN" }, readToken: { env: "READ_TOKEN" } },
    log: { level: "debug" },
  };
}

const args = (...words: string[]) => [...words, "--config", join(folder, "tidemark.yaml")];

async function until(what: string, isSo: () => boolean | Promise<boolean>, msMax = 400_000): Promise<void> {
  for (const deadline = Date.now() + msMax; !(await isSo()); await sleep(50)) {
    if (Date.now() > deadline)
      throw new Error(`It did not happen: ${what}\n${running!.stderr().slice(-3000)}`);
  }
}

async function ask(path: string, options: RequestInit = {}, bearer = token.value): Promise<Response> {
  const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
  return fetch(`${base}${path}`, { headers, ...options });
}

interface SinkState {
  readonly name: string;
  readonly state: string;
}
async function sinkStates(): Promise<Map<string, string>> {
  const { sinks } = (await (await ask("/api/sinks")).json()) as { sinks: SinkState[] };
  return new Map(sinks.map(({ name, state }) => [name, state]));
}

/** Every path of the API that can be read, asked with each kind of token, right and wrong. */
async function lookThroughServer(search: Search): Promise<number> {
  const openapi = (await (await ask("/api/openapi.json")).json()) as {
    paths: Record<string, Record<string, unknown>>;
  };
  const paths = Object.entries(openapi.paths).map(([path]) => path.replace(/\{\w+\}/g, "1"));
  const assets = ["/", "/main.js", "/metrics", "/livez", "/readyz", "/api/openapi.json", "/api/access"];
  const windows = `/api/windows?account=acme&organization=${simulator.organizations[0]!.id}`;
  for (const path of [...assets, ...paths, windows, "/nowhere"]) {
    for (const bearer of [token.value, readToken.value, presented.value]) {
      const response = await ask(path, {}, bearer);
      search.look(`GET ${path}`, JSON.stringify([...response.headers]) + (await response.text()));
    }
    const refused = await ask(path, { method: "POST", body: `{"${presented.value}"` }, presented.value);
    search.look(`POST ${path}`, await refused.text());
  }
  const named = await ask(`/api/sinks/${presented.value}/resume`, { method: "POST" }, presented.value);
  search.look("POST with a stranger's token", await named.text());
  const live = await ask("/api/events");
  const reader = live.body!.getReader();
  search.look("the live stream", Buffer.from((await reader.read()).value!));
  await reader.cancel();
  return paths.length;
}

it("finds no secret in logs, metrics, the page, the API, dead letters, the state, files or the process list", async () => {
  const search = createSearch(markers);
  running = startProgram(args("run"), ENV);
  await until("the page is up", () => /"url":"([^"]+)"/.test(running!.stderr()));
  base = /"url":"([^"]+)\/"/.exec(running.stderr())![1]!;

  // Everything works: the secrets are in use, and where they belong.
  const paths = () => new Set(web.received.map(({ path }) => path));
  await until("every destination has been written to", async () => {
    const all = ["/hook", "/_bulk", `/sumo/${sumo.value}`, "/otlp"];
    return splunk.events().length > 0 && all.every((path) => paths().has(path));
  });
  const sent = web.received.map(({ headers }) => JSON.stringify(headers)).join();
  expect(sent).toContain(header.value);
  expect(sent).toContain(otlp.value);
  expect(sent).toContain(Buffer.from(`tidemark:${elastic.value}`).toString("base64"));
  expect((await ask("/api/imports", { method: "POST", body: '{"import":"hr"}' })).status).toBe(201);
  lookThroughProcesses(search);

  // The destinations refuse us, then our events.
  mood = "refusing";
  splunk.state.tokenDisabled = true;
  simulator.control.burst(200);
  const isPaused = (states: Map<string, string>) =>
    ["splunk", "hook", "elastic", "sumo", "otlp"].every((name) => states.get(name) === "paused");
  await until("every destination is paused", async () => isPaused(await sinkStates()));
  for (const word of ["check --online", "doctor"]) {
    const checked = await runProgram([...word.split(" "), "--config", join(folder, "apart.yaml")], ENV);
    search.look(`${word}, refused`, checked.stdout + checked.stderr);
    expect(checked.code, word).toBe(1);
  }
  await lookThroughServer(search);
  mood = "picky";
  for (const name of ["hook", "sumo", "otlp", "elastic"])
    expect((await ask(`/api/sinks/${name}/retry`, { method: "POST", body: "{}" })).status, name).toBe(200);
  const letters = async () => ((await (await ask("/api/dead-letters")).json()) as { total: number }).total;
  await until("there are dead letters", async () => (await letters()) > 0);

  // The service refuses us, with our key in its words.
  const message = `the key ${key.value} of ${oauthSecret.value} is not valid`;
  simulator.control.faults.set([
    { kind: "status", status: 400, message, times: 3 },
    { kind: "status", status: 403, message, times: 3 },
    { kind: "status", status: 503, message, times: 3 },
  ]);
  await until(
    "the faults are used up",
    () => simulator.control.faults.list().length === 0 || /403/.test(running!.stderr()),
  );
  simulator.control.faults.clear();
  simulator.control.resetKey();
  const alarms = async () => (await (await ask("/api/alarms")).text()).includes("account_refused");
  await until("the account is refused", alarms);
  const routes = await lookThroughServer(search);
  expect(routes).toBeGreaterThan(15);

  for (const words of [
    ["check", "--online"],
    ["check", "--json"],
    ["doctor", "--json"],
    ["status", "--json"],
    ["coverage"],
    ["drift", "--json"],
    ["backup", join(folder, "backup.db")],
    ["dead-letters", "list", "--json"],
    ["imports", "list", "--json"],
    ["imports", "start", "hr"],
    ["tap", "--from", "beginning", "--count", "5"],
    ["run", "--once"],
  ]) {
    const { stdout, stderr } = await runProgram(args(...words), ENV);
    search.look(`tidemark ${words.join(" ")}`, stdout + stderr);
  }
  const processes = lookThroughProcesses(search);
  expect(existsSync(join(folder, "state.db-wal"))).toBe(true);
  lookThroughFolder(search, folder, secretFiles());
  await running.kill("SIGTERM");
  search.look("the log", running.stdout() + running.stderr());
  expect(running.stderr()).toContain('"level":"debug"');
  // The malicious words did reach the log, without the secrets in them.
  expect(running.stderr()).toContain("you sent");
  expect(running.stderr()).toContain("[secret]");
  lookThroughFolder(search, folder, secretFiles());
  const values = lookThroughState(search, join(folder, "state.db"));

  console.log(
    `${markers.length} secrets, ${search.places} places, ${Math.round(search.bytes / 1024)} KB, ${values} values of the state, ${processes} processes: found ${search.finds.length}`,
  );
  expect(search.finds).toEqual([]);
});

it("finds no secret in what is said about a config that holds one", async () => {
  const search = createSearch(markers);
  const file = join(folder, "wrong.yaml");
  const account = { name: "acme", region: "us" };
  const disk = { name: "disk", type: "file", directory: "./events" };
  for (const wrong of [
    { accounts: [{ ...account, apiKey: key.value }], sinks: [disk] },
    { accounts: [{ ...account, apiKey: { value: key.value } }], sinks: [disk] },
    { accounts: [{ ...account, apikey: key.value }], sinks: [disk] },
    { accounts: [{ ...account, insightsUrl: `https://user:${key.value}@host` }], sinks: [disk] },
    {
      accounts: [{ ...account, apiKey: { env: "HEC_TOKEN" } }],
      sinks: [{ name: "s", type: "splunk_hec", url: "https://splunk.example", token: hec.value }],
    },
    {
      accounts: [{ ...account, apiKey: { env: "HEC_TOKEN" } }],
      sinks: [{ name: "s", type: "sumo", url: `https://collectors.example/${sumo.value}` }],
    },
    {
      accounts: [{ ...account, apiKey: { env: "HEC_TOKEN" } }],
      sinks: [disk],
      server: { token: token.value },
    },
  ]) {
    writeFileSync(file, JSON.stringify(wrong));
    const { code, stdout, stderr } = await runProgram(["run", "--config", file], ENV);
    expect(code, JSON.stringify(wrong)).toBe(2);
    search.look(`the answer to ${Object.keys(wrong).join()}`, stdout + stderr);
  }
  writeFileSync(file, `accounts: [ { apiKey: ${key.value}\n  : }`);
  const broken = await runProgram(["run", "--config", file], ENV);
  search.look("the answer to broken YAML", broken.stdout + broken.stderr);
  expect(search.places).toBe(8);
  expect(search.finds).toEqual([]);
});

it("would find a secret in plain text, in base64 at any place, and in hex", () => {
  const marker = markerOf("example");
  for (const before of ["", "u", "us", "use", "user:"]) {
    const text = Buffer.from(`${before}${marker.value}:and more`);
    for (const encoding of ["utf8", "base64", "hex"] as const) {
      const search = createSearch([marker]);
      search.look("here", `some words ${text.toString(encoding)} more words`);
      expect(search.finds).toEqual(["here holds example"]);
    }
  }
  expect(formsOf(marker.value)).toHaveLength(5);
});
