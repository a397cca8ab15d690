import { execFile } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { importSchema } from "../../src/imports/config.ts";
import { freePort } from "../support/ports.ts";
import { type Outcome, openWorld, type World } from "../support/world.ts";
import { runUntilDelivered } from "./guide.ts";
import { type Line, linesToRun, wordsOf } from "./lines.ts";
import { ROOT } from "./pages.ts";

const shell = promisify(execFile);
/** Pages that are read beside a running process. */
const BESIDE = ["docs/journey.md", "docs/imports.md", "docs/troubleshooting.md", "docs/operations.md"];
/** Pages whose commands start the process themselves. */
const ALONE = [
  "docs/first-export.md",
  "docs/msp.md",
  "docs/upgrading.md",
  "docs/install.md",
  "docs/security.md",
];
const PLACEHOLDERS = { organization: "5f0c8a1b2c3d4e5f60718293", workday: "6502d1b4a3c2e1f00918273a" };
const TOKEN = "a-token-of-the-documentation";
const ENV = { TIDEMARK_TOKEN: TOKEN };

let world: World;
let refusing: Server;
let running: { readonly stop: AbortController; readonly ended: Promise<Outcome> } | undefined;
let config: string;
let port: number;

beforeAll(async () => {
  world = await openWorld({
    ...{ events: 300, imports: { listUsers: true, failureShare: 0, usersPerSecond: 500 } },
    clock: { speed: 20 },
  });
  refusing = createServer((request, response) => {
    request.resume();
    request.on("end", () =>
      response
        .writeHead(422, { "content-type": "application/json" })
        .end('{"title":"mapper_parsing_exception"}'),
    );
  });
  await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
  const refusingPort = (refusing.address() as AddressInfo).port;
  const { control, organizations } = world.simulator;
  const organization = organizations[0]!.id;
  const definition = {
    ...{ name: "nightly-hr", account: "acme", organization, schedule: "0 2 * * *" },
    application: control.world.importApplication(organization),
    ...{ quietAfter: "1s", finishAfter: "1s" },
  };
  importSchema.parse(definition);
  port = await freePort();
  config = world.configure({
    sinks: [
      file("disk"),
      file("siem"),
      `{ name: elastic, type: http, url: 'http://127.0.0.1:${refusingPort}/', only: { services: [alert] } }`,
    ],
    more: [
      `imports: [${JSON.stringify(definition)}]`,
      `server: { port: ${port}, token: { env: TIDEMARK_TOKEN } }`,
    ],
  });
});
afterAll(async () => {
  await stop();
  refusing?.close();
  await world?.close();
});

const file = (name: string, folder = "main") =>
  JSON.stringify({ name, type: "file", directory: world.at(`${folder}/${name}`), start: "beginning" });

/** A config with sinks and a state file of its own, for commands that change what the others need. */
const own = (name: string, sinks: readonly string[], more: readonly string[] = []) =>
  world.configure({ sinks, more, state: world.at(`${name}.db`), file: world.at(`${name}.yaml`) });

async function run(words: readonly string[], file = config): Promise<Outcome> {
  const place = words.includes("--config") ? [] : ["-c", file];
  const outcome = await world.run([...words, ...place], { env: ENV });
  expect(outcome.code, `${words.join(" ")}: ${outcome.stdout}\n${outcome.stderr}`).toBe(0);
  return outcome;
}

/** Starts `tidemark run`, and waits for its page. */
async function start(): Promise<void> {
  const stop = new AbortController();
  running = { stop, ended: world.run(["run", "-c", config], { env: ENV, signal: stop.signal }) };
  const isThere = () =>
    fetch(`http://127.0.0.1:${port}/livez`)
      .then(({ ok }) => ok)
      .catch(() => false);
  await expect.poll(isThere).toBe(true);
}

async function stop(): Promise<void> {
  running?.stop.abort(new Error("Ctrl-C"));
  const outcome = await running?.ended;
  running = undefined;
  if (outcome) expect(outcome.code, outcome.stderr).toBe(0);
}

interface Job {
  readonly id: number;
  readonly state: string;
  readonly staged: number;
}
const jobs = async () => JSON.parse((await run(["imports", "list", "--json"])).stdout) as Job[];

/** The example's ids become those of this world. */
async function hereOf(line: string): Promise<string> {
  const { control, organizations } = world.simulator;
  const organization = organizations[0]!.id;
  const letters = /dead-letters/.test(line) ? (await run(["dead-letters", "list"])).stdout : "";
  const [, group = "3f2a91c0"] = /^([0-9a-f]{8}) /m.exec(letters) ?? [];
  const [, letter = "12"] = /newest: (\d+)/.exec(letters) ?? [];
  const user = control.world.users(organization).find(({ suspended }) => suspended === 0)!;
  const known = /imports/.test(line) ? await jobs() : [];
  const job = (line.includes("activate") && known.find(({ staged }) => staged > 0)) || known[0];
  return line
    .replaceAll(PLACEHOLDERS.organization, organization)
    .replaceAll(PLACEHOLDERS.workday, control.world.workday(organization))
    .replaceAll("64f0c0ffee0000000000abcd", user.id)
    .replaceAll("http://127.0.0.1:9464", `http://127.0.0.1:${port}`)
    .replaceAll("5f0c5f0c5f0c5f0c5f0c5f0c", organization)
    .replace("drop --sink datadog", "drop --sink siem")
    .replace("--group 3f2a91c0", `--group ${group}`)
    .replace("dead-letters show 12", `dead-letters show ${letter}`)
    .replaceAll("/backups/", `${world.folder}/`)
    .replace(/imports( \w+|)([ /])12/, `imports$1$2${job?.id ?? 1}`)
    .replace("users.csv", world.at("users.csv"));
}

/** Commands that need a situation of their own: it is made first; a config that is returned takes the usual one's place. */
const SITUATIONS: readonly (readonly [RegExp, () => Promise<string | undefined> | string])[] = [
  [/^tidemark sinks forget customer-a/, () => sinkThatIsGone("customer-a")],
  [/^tidemark sinks forget disk/, () => sinkThatIsGone('"disk"')],
  [/^tidemark sinks rename disk archive/, () => renamedSink()],
  [/^tidemark sinks resume lake/, () => sinkAheadOfItsState()],
  [/^tidemark restore \/backups\/tidemark-2026/, () => own("restored", [file("disk"), file("siem")])],
  [/^tidemark dead-letters replay --(group|sink)/, () => refusedAgain()],
  [/^tidemark imports resolve/, () => uncertainJob()],
  [/^tidemark imports (start --workday|activate)/, () => idleImports()],
];

let made = 0;
async function sinkThatIsGone(gone: string): Promise<string> {
  const name = `gone-${++made}`;
  const sinks = ["customer-a", "disk"].map((sink) => file(sink, name));
  await run(["run", "--once"], own(name, sinks));
  return own(
    name,
    sinks.filter((sink) => !sink.includes(gone)),
  );
}

async function renamedSink(): Promise<string> {
  const directory = world.at("renamed");
  const sink = (name: string) => JSON.stringify({ name, type: "file", directory });
  await run(["run", "--once"], own("rename", [sink("disk")]));
  return own("rename", [sink("archive")]);
}

/** The state file is an older copy: the sink's directory is ahead of it. */
async function sinkAheadOfItsState(): Promise<string> {
  const { organizations, control } = world.simulator;
  const place = own("ahead", [file("lake")]);
  await run(["run", "--once"], place);
  await run(["backup", world.at("ahead-copy.db")], place);
  control.append(organizations[0]!.id, [{ event_type: "user_create", number: 1 }]);
  await run(["run", "--once"], place);
  await run(["restore", world.at("ahead-copy.db")], place);
  const stopped = await world.run(["run", "--once", "-c", place], { env: ENV });
  expect([stopped.code, stopped.stdout]).toEqual([1, expect.stringContaining("tidemark sinks resume lake")]);
  return place;
}

/** A replay returns letters to a sink that refuses them again. */
async function refusedAgain(): Promise<undefined> {
  const list = async () => (await run(["dead-letters", "list", "--sink", "elastic"])).stdout;
  await expect.poll(list).toContain("mapper_parsing_exception");
  return undefined;
}

async function idleImports(): Promise<undefined> {
  const open = async () =>
    (await jobs()).filter(({ state }) => !["finished", "failed", "ended"].includes(state));
  await expect.poll(open).toEqual([]);
  return undefined;
}

async function uncertainJob(): Promise<undefined> {
  await idleImports();
  const { control, organizations } = world.simulator;
  const application = control.world.importApplication(organizations[0]!.id);
  const path = `/api/v2/applications/${application}/import/jobs`;
  control.faults.set([{ kind: "cut_headers", api: "management", path, times: 1 }]);
  const lost = await world.run(["imports", "start", "nightly-hr", "-c", config], { env: ENV });
  control.faults.clear();
  expect(lost.stdout).toContain("is uncertain");
  return undefined;
}

async function execute({ command }: Line): Promise<void> {
  const situation = SITUATIONS.find(([pattern]) => pattern.test(command));
  const place = (await situation?.[1]()) ?? config;
  const line = await hereOf(command);
  const [program, ...words] = wordsOf(line);
  switch (program) {
    case "export":
      return;
    case "tidemark":
      break;
    default:
      await shellOf(line);
      return;
  }
  if (words[0] === "run" && words.length === 1) return runUntilDelivered(world, place, ENV);
  if (words[0] === "init") words.push("--yes", "--output", world.at("init.yaml"));
  const stopper = new AbortController();
  // A tap waits for more events when those of the journal were delivered and trimmed.
  const isEndless = words[0] === "tap" || (words.includes("status") && words.includes("--watch"));
  const timer = isEndless
    ? setTimeout(() => stopper.abort(new Error("Ctrl-C")), words[0] === "tap" ? 10_000 : 1_000)
    : undefined;
  const where = words[0] === "init" ? [] : ["-c", place];
  const outcome = await world.run([...words, ...where], { env: ENV, signal: stopper.signal });
  clearTimeout(timer);
  expect(outcome.code, `${outcome.stdout}\n${outcome.stderr}`).toBe(0);
}

/** By a real shell, in a folder with what the line names. */
async function shellOf(line: string): Promise<void> {
  const folder = world.at("clone");
  mkdirSync(join(folder, "deploy"), { recursive: true });
  const text = line.replace("node deploy/", `node ${ROOT}/deploy/`);
  const env = { ...process.env, ...ENV };
  const failing = text.startsWith("curl ") ? text.replace("curl ", "curl --fail-with-body ") : text;
  const { stdout } = await shell("bash", ["-ec", failing], { cwd: folder, env });
  if (text.startsWith("curl ")) expect(() => JSON.parse(stdout)).not.toThrow();
  if (text.includes("sbom.json")) expect(existsSync(join(folder, "sbom.json"))).toBe(true);
}

const titled = (page: string) => linesToRun(page).map((line) => [line.place, line.command, line] as const);

describe("commands beside a running process", () => {
  it("has a process to run beside", start);
  afterAll(stop);

  it.each(BESIDE.flatMap(titled))("%s: %s", async (_place, _command, line) => execute(line));
  it.each(titled("docs/search.md"))("%s: %s", async (_place, _command, line) => execute(line));
});

describe("commands without a running process", () => {
  beforeAll(() => {
    config = own("alone", [file("disk", "alone"), file("siem", "alone")]);
  });

  it.each(ALONE.flatMap(titled))("%s: %s", async (_place, _command, line) => execute(line));
});

describe("docs/shards.md", () => {
  it("moves from three shards to others with its commands", async () => {
    const [runOnce, final, reshard] = linesToRun("docs/shards.md").map(({ command }) => command);
    const shard = (name: string, index: number, count: number) =>
      world.configure({
        sinks: [file("shards")],
        file: world.at(`${name}-${index}.yaml`),
        state: world.at(`${name}-${index}.db`),
        more: [`shard: ${index}/${count}`],
      });
    const at = (text: string) =>
      text
        .replaceAll("/backups/", `${world.folder}/final-`)
        .replace(/--config (\S+)/, `--config ${world.at("$1")}`);
    for (const index of [0, 1, 2]) {
      shard("shard", index, 3);
      for (const line of [runOnce!, final!])
        await run(wordsOf(at(line.replaceAll("shard-0", `shard-${index}`))).slice(1));
    }
    for (const index of [0, 1]) {
      shard("new", index, 2);
      await run(wordsOf(at(reshard!.replace("new-0", `new-${index}`))).slice(1));
      await run(["run", "--once", "--config", world.at(`new-${index}.yaml`)]);
    }
  });
});
