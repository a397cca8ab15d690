import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startSplunk } from "../stand-ins/splunk.ts";
import { freePort } from "../support/ports.ts";
import { isHundredth, type Receiver, startReceiver } from "./receiver.ts";
import { compare, invented, linesBelow, openScene, type Scene, type SceneSink } from "./scene.ts";

const EVENTS = 3000;
const NOTHING_AMISS = { lost: 0, surplus: 0 };

let scene: Scene;
const opened: { close(): Promise<void> }[] = [];

beforeEach(async () => {
  scene = await openScene({ events: EVENTS, days: 10 });
});
afterEach(async () => {
  await scene.close();
  for (const each of opened.splice(0)) await each.close();
});

async function receiver(port?: number): Promise<Receiver> {
  const started = await startReceiver(port);
  opened.push(started);
  return started;
}

function lines(name: string, url: string, more: Record<string, unknown> = {}): SceneSink {
  return { name, type: "http", url, body: "ndjson", ...more };
}

const disk = (more: Record<string, unknown> = {}): SceneSink => ({
  name: "disk",
  type: "file",
  directory: scene.path("disk"),
  ...more,
});

test("one sink dead, one slow, two refusing every hundredth event: the others finish, and in the end nothing is lost anywhere", async () => {
  const deadPort = await freePort();
  const [web, slow, picky] = [await receiver(), await receiver(), await receiver()];
  const splunk = await startSplunk({ token: "hec-token" });
  opened.push(splunk.server);
  // So slow that the others are done first on a busy machine too.
  slow.delayMs = 3000;
  picky.refuses = isHundredth;
  const idOf = (text: string) => (JSON.parse(text) as { id?: string }).id;
  const withId = scene.served().filter((text) => isHundredth(text) && idOf(text) !== undefined);
  splunk.state.refusedIds = withId.map((text) => idOf(text)!);
  // Which ones depends on their bytes: about 30, and by chance sometimes half as many.
  expect(splunk.state.refusedIds.length).toBeGreaterThan(EVENTS / 1000);
  scene.env.HEC_TOKEN = "hec-token";
  scene.configure([
    disk(),
    lines("web", web.url),
    lines("dead", `http://127.0.0.1:${deadPort}/events`),
    lines("slow", slow.url, { batchEventsMax: 20 }),
    lines("picky", picky.url),
    { name: "siem", type: "splunk_hec", url: splunk.server.url, token: { env: "HEC_TOKEN" }, format: "raw" },
  ]);
  const startedMs = Date.now();
  const program = scene.run();
  await Promise.all(["disk", "web"].map((name) => scene.caughtUp(name)));
  const slowAt = slow.lines.length;
  const doneMs = { healthy: Date.now() - startedMs, refusing: 0 };
  await Promise.all(["picky", "siem"].map((name) => scene.caughtUp(name)));
  doneMs.refusing = Date.now() - startedMs;

  // The others are done while the slow one has hardly begun, and the dead one has nothing.
  const served = scene.served();
  expect(slowAt).toBeLessThan(served.length / 2);
  expect(await scene.sink("slow")).toMatchObject({ state: "running", deadLetters: 0 });
  const dead = await scene.sink("dead");
  expect(dead).toMatchObject({ state: "retrying", lagEvents: served.length });
  expect(dead.reason).toContain("ECONNREFUSED");
  expect(dead.remedy).toContain("Retrying automatically");
  expect(compare(served, linesBelow(scene.path("disk")))).toEqual(NOTHING_AMISS);
  expect(compare(served, web.lines)).toEqual(NOTHING_AMISS);

  // The dead one comes back, the slow one gets well.
  const revived = await receiver(deadPort);
  slow.delayMs = 0;
  await Promise.all(["dead", "slow"].map((name) => scene.caughtUp(name)));
  expect(compare(served, revived.lines)).toEqual(NOTHING_AMISS);
  expect(compare(served, slow.lines)).toEqual(NOTHING_AMISS);

  // Refused events are dead letters with their reason; the rest is there.
  const refused = served.filter(isHundredth);
  expect(
    compare(
      served.filter((text) => !isHundredth(text)),
      picky.lines,
    ),
  ).toEqual(NOTHING_AMISS);
  const listed = await deadLetters("picky");
  expect(listed).toHaveLength(refused.length);
  for (const letter of listed) expect(letter.reason).toBe("the receiver answered 422: it holds a bad event");
  const shown = await scene.done("dead-letters", "show", String(listed[0]!.id));
  expect(refused).toContain(shown.slice(0, -1));
  expect(await deadLetters("siem")).toHaveLength(withId.length);
  expect(
    compare(
      served.filter((text) => !withId.includes(text)),
      splunk.events(),
    ),
  ).toEqual(NOTHING_AMISS);

  // Returned while the receiver still refuses them, they are refused again; afterwards they arrive.
  expect(await scene.done("dead-letters", "replay", String(listed[0]!.id))).toContain(
    "1 dead letter was returned",
  );
  await expect.poll(async () => (await deadLetters("picky")).length).toBe(refused.length);
  picky.refuses = () => false;
  splunk.state.refusedIds = [];
  const asked = await scene.done("dead-letters", "replay", "--sink", "picky");
  expect(asked).toContain(`${refused.length} dead letters were returned`);
  await scene.done("dead-letters", "replay", "--sink", "siem", "--reason", "Invalid data format");
  await Promise.all(["picky", "siem"].map((name) => scene.caughtUp(name)));
  expect(compare(served, picky.lines)).toEqual(NOTHING_AMISS);
  expect(compare(served, splunk.events())).toEqual(NOTHING_AMISS);
  for (const name of ["picky", "siem"]) expect(await deadLetters(name)).toEqual([]);

  program.child.kill("SIGTERM");
  expect(await program.ended()).toBe(0);
  expect(program.stderr()).not.toContain("hec-token");
  process.stderr.write(
    `${served.length} events: healthy sinks done after ${doneMs.healthy} ms (slow one at ${slowAt}), refusing ones after ${doneMs.refusing} ms, ${refused.length} refused by each and replayed\n`,
  );
});

async function deadLetters(sink: string) {
  const text = await scene.done("dead-letters", "list", "--sink", sink, "--json", "--limit", "10000");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { id: number; reason: string });
}

test("R14 a renamed sink continues where it was; before that, the program says what to do", async () => {
  scene.configure([disk()]);
  await scene.done("run", "--once");
  append(50);
  const archive = { ...disk(), name: "archive" };
  scene.configure([archive]);
  const refused = await scene.command("run", "--once");
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('the sink "disk" has a position and is not in the config');
  expect(refused.stderr).toContain('run "tidemark sinks rename disk NEW"');
  expect(refused.stderr).toContain('"tidemark sinks forget disk" to give up the events');
  expect(await scene.done("sinks", "rename", "disk", "archive")).toBe(
    'The position of "disk" now belongs to "archive".\n',
  );
  await scene.done("run", "--once");
  expect(compare(scene.served(), linesBelow(scene.path("disk")))).toEqual(NOTHING_AMISS);
  const wrong = await scene.command("sinks", "rename", "disk", "elsewhere");
  expect(wrong).toMatchObject({ code: 2 });
  expect(wrong.stderr).toContain('has no position for a sink "disk"');
});

test("R14 a removed sink is an error until it is forgotten, and no other sink loses anything by that", async () => {
  const web = await receiver();
  scene.configure([disk(), lines("web", web.url)]);
  await scene.done("run", "--once");
  append(50);
  scene.configure([disk()]);
  expect(await scene.command("run", "--once")).toMatchObject({ code: 2 });
  const early = await scene.command("sinks", "forget", "disk");
  expect(early).toMatchObject({ code: 2 });
  expect(early.stderr).toContain('The sink "disk" is still in the config');
  expect(await scene.done("sinks", "forget", "web")).toContain('dead letters of "web" were deleted');
  await scene.done("run", "--once");
  expect(compare(scene.served(), linesBelow(scene.path("disk")))).toEqual(NOTHING_AMISS);
});

test("R14 a sink that is added says where it begins: beginning, now or a time", async () => {
  // A reader that is behind keeps the journal whole, so that its beginning is the first event.
  const behind = lines("behind", `http://127.0.0.1:${await freePort()}/events`);
  scene.configure([disk(), behind]);
  const first = scene.run();
  // All that the service has: what is read later would be new to a sink that starts now.
  await expect.poll(() => linesBelow(scene.path("disk")).length).toBe(scene.served().length);
  await first.kill("SIGTERM");
  const [all, fresh, timed] = [await receiver(), await receiver(), await receiver()];
  scene.configure([disk(), behind, lines("all", all.url)]);
  const refused = await scene.command("run", "--once");
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain(
    'the sink "all" is new and the journal is not empty: add start: beginning, start: now or start: TIME to it',
  );
  const before = scene.served();
  const times = before.map((text) => (JSON.parse(text) as { timestamp: string }).timestamp).sort();
  const middle = new Date(Date.parse(times[times.length >> 1]!)).toISOString();
  scene.configure([
    disk(),
    behind,
    lines("all", all.url, { start: "beginning" }),
    lines("fresh", fresh.url, { start: "now" }),
    lines("timed", timed.url, { start: middle }),
  ]);
  const second = scene.run();
  await Promise.all(["all", "fresh", "timed"].map((name) => scene.caughtUp(name)));
  const added = append(50);
  await expect.poll(() => fresh.lines.length).toBe(50);
  await Promise.all(["disk", "all", "fresh", "timed"].map((name) => scene.caughtUp(name)));
  await second.kill("SIGTERM");
  expect(compare(scene.served(), all.lines)).toEqual(NOTHING_AMISS);
  expect(compare(added, fresh.lines)).toEqual(NOTHING_AMISS);
  const late = scene
    .served()
    .filter(
      (text) => Date.parse((JSON.parse(text) as { timestamp: string }).timestamp) >= Date.parse(middle),
    );
  expect(compare(late, timed.lines)).toEqual(NOTHING_AMISS);
});

test("only and except send each sink its part, and what is left out holds nothing up", async () => {
  const { organizations } = scene.simulator;
  const one = organizations[1]!.id;
  const receivers = {
    sso: await receiver(),
    rest: await receiver(),
    org: await receiver(),
    types: await receiver(),
  };
  scene.configure([
    lines("sso", receivers.sso.url, { only: { services: ["sso"] } }),
    lines("rest", receivers.rest.url, { except: { services: ["sso"] } }),
    lines("org", receivers.org.url, { only: { organizations: [one.toUpperCase()], accounts: ["acme"] } }),
    lines("types", receivers.types.url, {
      only: { eventTypes: ["user_*"] },
      except: { organizations: [one] },
    }),
  ]);
  await scene.done("run", "--once");
  type Event = { service: string; organization: string | null; event_type?: string };
  const part = (wanted: (event: Event) => boolean) =>
    scene.served().filter((text) => wanted(JSON.parse(text) as Event));
  const parts = {
    sso: part(({ service }) => service === "sso"),
    rest: part(({ service }) => service !== "sso"),
    org: part(({ organization }) => organization === one),
    types: part(
      ({ organization, event_type }) => event_type?.startsWith("user_") === true && organization !== one,
    ),
  };
  for (const name of ["sso", "rest", "org", "types"] as const) {
    expect(parts[name].length, name).toBeGreaterThan(0);
    expect({ name, ...compare(parts[name], receivers[name].lines) }).toEqual({ name, ...NOTHING_AMISS });
    expect(await scene.sink(name)).toMatchObject({ lagEvents: 0 });
  }
  expect(
    invented(
      scene.served(),
      Object.values(receivers).flatMap(({ lines: taken }) => taken),
    ),
  ).toBe(0);
});

/** New events, visible at once; gives their bytes. */
function append(count: number): string[] {
  const { organizations, control } = scene.simulator;
  return Array.from({ length: count }, (_, at) => {
    const organization = organizations[at % organizations.length]!.id;
    const text = JSON.stringify({
      id: randomBytes(12).toString("hex"),
      service: "directory",
      event_type: "user_create",
      organization,
      timestamp: new Date().toISOString(),
      number: at,
    });
    control.append(organization, [text]);
    return text;
  });
}
