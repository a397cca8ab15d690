// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, SECOND, START_MS, type World, type WorldOptions } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
  world = undefined;
  proxy = undefined;
});

/** The pollers read through a proxy that changes answers. */
async function open(options: WorldOptions, change: (it: World) => AnswerProxy["change"]): Promise<World> {
  ({ world, proxy } = await openProxied(options));
  proxy.change = change(world);
  return world;
}

const group: WorldOptions = { simulator: { organizations: 8, events: 400 } };
const badOf = (it: World) => [...it.organizations].sort()[5]!;

/** Events of everybody but the bad organization. */
function othersOf(it: World): number {
  return it.organizations
    .filter((id) => id !== badOf(it))
    .reduce((sum, organization) => sum + it.simulator.control.countEvents({ organization }), 0);
}

async function heldOf(it: World, organization: string): Promise<number> {
  return (await it.held()).filter((text) => text.includes(organization)).length;
}

async function heldOfOthers(it: World): Promise<number> {
  return (await it.held()).length - (await heldOf(it, badOf(it)));
}

/** Works through a stretch of time in which the pollers may never come to rest. */
async function workThrough(it: World, ms: number): Promise<void> {
  const untilMs = it.clock.now() + ms;
  while (it.clock.now() < untilMs)
    if ((await it.account.poller.step(it.signal)) === "idle") it.simulator.control.clock.advance(5 * SECOND);
}

/** In place of the empty page that would be the last. */
function repeatsAnEvent(it: World): AnswerProxy["change"] {
  const bad = badOf(it);
  const [event] = [...it.simulator.control.allEvents({ organization: bad })].map(String);
  let tokens = 0;
  return (exchange) => {
    if (!exchange.organizations.includes(bad) || !exchange.path.endsWith("/events")) return;
    const { headers, query } = exchange;
    delete headers["x-limit"];
    const isOurs = JSON.stringify(query.search_after ?? null).includes("again");
    if (!isOurs && exchange.body.toString().trim() !== "[]") return;
    Object.assign(exchange, { status: 200, body: Buffer.from(`[${event}]`) });
    Object.assign(headers, { "x-result-count": "1", "x-search_after": `[1,"again ${tokens++}"]` });
  };
}

describe("R32 one bad tenant holds up only itself", () => {
  const asksForBad = (it: World, { organizations }: Exchange) => organizations.includes(badOf(it));
  const failures: [string, (it: World) => AnswerProxy["change"]][] = [
    [
      "answers 500",
      (it) => (exchange) => {
        if (asksForBad(it, exchange)) Object.assign(exchange, { status: 500, body: Buffer.from("{}") });
      },
    ],
    [
      "answers 429",
      (it) => (exchange) => {
        if (asksForBad(it, exchange)) Object.assign(exchange, { status: 429, body: Buffer.from("{}") });
      },
    ],
    [
      "answers 429 and asks for a wait of two seconds",
      (it) => (exchange) => {
        if (!asksForBad(it, exchange)) return;
        Object.assign(exchange, { status: 429, body: Buffer.from("{}") });
        exchange.headers["retry-after"] = "2";
      },
    ],
    [
      "has bodies that break off",
      (it) => (exchange) => {
        if (asksForBad(it, exchange)) exchange.cutAt = Math.floor(exchange.body.length / 2);
      },
    ],
    [
      "answers with a page of markup",
      (it) => (exchange) => {
        if (asksForBad(it, exchange)) exchange.body = Buffer.from("<html>proxy error</html>");
      },
    ],
    ["sends an event again and again, with another token each time", repeatsAnEvent],
    [
      "announces another number of events than it sends",
      (it) => (exchange) => {
        if (asksForBad(it, exchange)) exchange.headers["x-result-count"] = "123456";
      },
    ],
  ];
  test.each(failures)(
    "R32 a tenant that %s: all others' events arrive within a minute",
    async (_, change) => {
      const it = await open(group, change);
      await it.drain();
      await it.pass(MINUTE, 5 * SECOND);
      expect(await heldOfOthers(it)).toBe(othersOf(it));
      // New events of the others keep coming, and the bad one is tried on its own.
      for (const id of it.organizations)
        it.simulator.control.append(id, [{ timestamp: new Date(it.clock.now() - SECOND).toISOString() }]);
      await it.pass(MINUTE, 5 * SECOND);
      expect(await heldOfOthers(it)).toBe(othersOf(it));
      await it.pass(10 * MINUTE, MINUTE);
      expect(it.alarms().map(({ kind, subject }) => [kind, subject])).toContainEqual([
        "window_failing",
        `acme/${badOf(it)}`,
      ]);
      // When it has recovered, nothing of it is missing.
      proxy!.change = undefined;
      await it.pass(HOUR, MINUTE);
      expect(await it.compare()).toMatchObject(COMPLETE);
      // An event that came twice is doubted for a day.
      expect(it.alarms().filter(({ kind }) => kind !== "unordered_answers")).toEqual([]);
      expect(await it.journal.gaps()).toEqual([]);
    },
  );

  test.each([429, 503])(
    "R32 a tenant that answers %s and asks for a wait of an hour waits alone, and is asked every ten minutes",
    async (status) => {
      const it = await open(group, () => undefined);
      await it.drain();
      const tries: number[] = [];
      proxy!.change = (exchange) => {
        if (!asksForBad(it, exchange)) return;
        tries.push(it.clock.now());
        Object.assign(exchange, { status, body: Buffer.from("{}") });
        exchange.headers["retry-after"] = "3600";
      };
      await workThrough(it, 2 * MINUTE);
      tries.length = 0;
      for (const id of it.organizations)
        it.simulator.control.append(id, [{ timestamp: new Date(it.clock.now() - SECOND).toISOString() }]);
      await workThrough(it, MINUTE);
      expect(await heldOfOthers(it)).toBe(othersOf(it));
      await workThrough(it, HOUR);
      expect(tries.length).toBeGreaterThanOrEqual(3);
      expect(tries.length).toBeLessThanOrEqual(8);
      proxy!.change = undefined;
      await it.pass(HOUR, MINUTE);
      expect(await it.compare()).toMatchObject(COMPLETE);
    },
  );

  test("R32 a tenant that never answers is left behind after few requests, and the others go on", async () => {
    const it = await open({ ...group, account: { headersTimeout: "2s" } }, () => undefined);
    await it.drain();
    for (const id of it.organizations)
      it.simulator.control.append(id, [{ timestamp: new Date(it.clock.now() - SECOND).toISOString() }]);
    let hung = 0;
    proxy!.change = (exchange) => {
      exchange.hangs = asksForBad(it, exchange);
      if (exchange.hangs && exchange.organizations.length > 1) hung++;
    };
    await workThrough(it, MINUTE);
    expect(await heldOfOthers(it)).toBe(othersOf(it));
    // Two of the whole group; its parts are single organizations.
    expect(hung).toBeLessThanOrEqual(3);
    proxy!.change = undefined;
    await it.pass(10 * MINUTE, 10 * SECOND);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R32 a tenant whose bodies stop is left behind after one of its group's, and R33 an alarm names it", async () => {
    const it = await open({ ...group, account: { bodyTimeout: "1s" } }, () => undefined);
    await it.drain();
    for (const id of it.organizations)
      it.simulator.control.append(id, [{ timestamp: new Date(it.clock.now() - SECOND).toISOString() }]);
    let stalled = 0;
    proxy!.change = (exchange) => {
      if (!asksForBad(it, exchange)) return;
      exchange.stallsAt = 1;
      if (exchange.organizations.length > 1) stalled++;
    };
    await workThrough(it, MINUTE);
    expect(await heldOfOthers(it)).toBe(othersOf(it));
    expect(stalled).toBe(1);
    expect(it.alarms().map(({ kind, subject }) => [kind, subject])).toContainEqual([
      "window_failing",
      `acme/${badOf(it)}`,
    ]);
    proxy!.change = undefined;
    await it.pass(10 * MINUTE, 10 * SECOND);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(it.alarms()).toEqual([]);
  });

  test("R32 a limit of the whole key splits no group, and everything is read", async () => {
    const it = await open(group, () => undefined);
    await it.drain();
    const before = (await it.windows()).length;
    // A bucket of two requests that gets one more every three seconds: less than the polls need.
    let tokens = 2;
    let filledMs = it.clock.now();
    proxy!.change = (exchange) => {
      const filled = Math.floor((it.clock.now() - filledMs) / (3 * SECOND));
      tokens = Math.min(2, tokens + filled);
      filledMs += filled * 3 * SECOND;
      if (tokens === 0) Object.assign(exchange, { status: 429, body: Buffer.from("{}") });
      else tokens--;
    };
    await workThrough(it, 30 * MINUTE);
    expect((await it.windows()).filter(({ live }) => live)).toHaveLength(1);
    expect((await it.windows()).length).toBeGreaterThanOrEqual(before);
    proxy!.change = undefined;
    await it.pass(10 * MINUTE, 10 * SECOND);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test.each([429, 503])("R32 answers of %s to everybody halve nothing", async (status) => {
    const it = await open(group, () => undefined);
    await it.drain();
    const before = (await it.windows()).length;
    proxy!.change = (exchange) => Object.assign(exchange, { status, body: Buffer.from("{}") });
    await workThrough(it, 10 * MINUTE);
    expect(await it.windows()).toHaveLength(before);
    proxy!.change = undefined;
    await it.pass(5 * MINUTE, 10 * SECOND);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });
});

test("R33 while everybody is refused, hardly a request looks whether others are served", async () => {
  const it = await open(group, () => undefined);
  await it.drain();
  let requests = 0;
  proxy!.change = (exchange) => {
    requests++;
    Object.assign(exchange, { status: 429, body: Buffer.from("{}") });
    exchange.headers["retry-after"] = "1";
  };
  await workThrough(it, 10 * MINUTE);
  // One a second, as the service asks for.
  expect(requests).toBeGreaterThan(60);
  expect(requests).toBeLessThan(1.2 * 10 * 60);
  proxy!.change = undefined;
  await it.pass(5 * MINUTE, 10 * SECOND);
  expect(await it.compare()).toMatchObject(COMPLETE);
});

describe("R32 one bad event holds up only itself", () => {
  const deep = `${"[".repeat(600)}${"]".repeat(600)}`;
  const events: [string, (text: string) => string][] = [
    ["holds NaN", (text) => text.replace('"BAD"', "NaN")],
    ["holds a raw control character", (text) => text.replace("BAD", "B\tAD")],
    ["is nested beyond the limit", (text) => text.replace('"BAD"', deep)],
    ["is not an object", () => "17"],
  ];

  async function openWithBad(spoil: (text: string) => string, options: WorldOptions = group) {
    let text = "";
    const it = await open(options, (opened) => {
      const timestamp = new Date(START_MS - 3 * DAY).toISOString();
      text = `{"id":"bad0","service":"directory","event_type":"x","marker":"BAD","timestamp":"${timestamp}","organization":"${badOf(opened)}"}`;
      opened.simulator.control.append(badOf(opened), [text]);
      return (exchange) => {
        exchange.body = Buffer.from(exchange.body.toString("latin1").replace(text, spoil(text)), "latin1");
      };
    });
    return { it, spoiled: spoil(text) };
  }

  test.each(events)(
    "R32 an event that %s: everything else arrives within a minute, and its bytes are kept",
    async (_, spoil) => {
      const { it, spoiled } = await openWithBad(spoil);
      await it.drain();
      await it.pass(MINUTE, 5 * SECOND);
      expect(await heldOfOthers(it)).toBe(othersOf(it));
      expect(await it.compare()).toMatchObject({ lost: 1, twice: 0 });
      const kept = it.db.prepare("SELECT bytes, reason FROM unattributed").all() as {
        bytes: Buffer;
        reason: string;
      }[];
      expect(kept.map(({ bytes }) => bytes.toString("latin1"))).toEqual([spoiled]);
      expect(kept[0]!.reason).toMatch(/^not readable/);
      const [gap, ...more] = await it.journal.gaps();
      expect(more).toEqual([]);
      expect(gap).toMatchObject({ organization: badOf(it), reason: "unreadable", events: 1, open: false });
      expect(gap!.fromMs).toBeLessThanOrEqual(START_MS - 3 * DAY);
      expect(gap!.toMs).toBeGreaterThan(START_MS - 3 * DAY);
      expect(it.alarms().map(({ kind }) => kind)).toEqual(["unreadable_event"]);
    },
  );

  test("R32 an event whose end cannot be found is a named gap", async () => {
    const { it } = await openWithBad((text) => text);
    proxy!.change = (exchange) => {
      const at = exchange.body.indexOf('"marker":"BAD"');
      if (at >= 0) exchange.body = exchange.body.subarray(0, at);
    };
    await it.drain();
    await it.pass(MINUTE, 5 * SECOND);
    expect(await it.compare()).toMatchObject({ lost: 1, twice: 0 });
    expect(it.db.prepare("SELECT COUNT(*) FROM unattributed").pluck().get()).toBe(0);
    expect(await it.journal.gaps()).toMatchObject([
      { organization: badOf(it), reason: "unreadable", events: 1 },
    ]);
  });

  test("R32 the event is found in few requests, and pages are full again behind it", async () => {
    const alone: WorldOptions = { simulator: { organizations: 1, events: 3000 }, account: {} };
    ({ world, proxy } = await openProxied({ ...alone, polling: { pageSize: 1000 } }));
    const it = world;
    const timestamp = new Date(START_MS - 3 * DAY).toISOString();
    it.simulator.control.append(it.organizations[0]!, [{ timestamp, marker: "BAD" }]);
    proxy.change = (exchange) => {
      exchange.body = Buffer.from(exchange.body.toString("latin1").replace('"BAD"', "NaN"), "latin1");
    };
    await it.drain();
    expect(await it.compare()).toMatchObject({ lost: 1, twice: 0 });
    const { exchanges } = proxy;
    // Its place was searched by the time of events, so the window is compared after that.
    const compared = exchanges.findIndex(({ query }) => query.fields !== undefined && query.limit! > 1);
    const asked = exchanges.slice(0, compared).filter(({ query }) => query.fields === undefined);
    expect(asked.length).toBeLessThan(60);
    expect(exchanges.length).toBeLessThan(120);
    expect(asked.at(-1)!.query.limit).toBe(1000);
  });

  test("R32 an event that the service corrects later is fetched by reconcile, and its gap ends", async () => {
    const { it } = await openWithBad((text) => text.replace('"BAD"', "NaN"));
    await it.drain();
    proxy!.change = undefined;
    await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });

  test("R32 a byte order mark is skipped", async () => {
    const it = await open(group, () => (exchange) => {
      exchange.body = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), exchange.body]);
    });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(it.alarms()).toEqual([]);
  });
});

describe("R31 the last page", () => {
  const pages: WorldOptions = {
    simulator: { organizations: 1, events: 350, days: 3 },
    polling: { pageSize: 100 },
  };

  test.each([
    ["is larger than what was asked for", "10000"],
    ["is missing", undefined],
    ["is 0", "0"],
  ])("R31 where X-Limit %s every page is read", async (_, limit) => {
    const it = await open(pages, () => ({ headers }) => {
      if (limit === undefined) delete headers["x-limit"];
      else headers["x-limit"] = limit;
    });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R31 history that one answer cut short is complete after its second look", async () => {
    let isShort = true;
    const it = await open(pages, () => (exchange) => {
      if (!isShort || !exchange.path.endsWith("/events")) return;
      const page = JSON.parse(exchange.body.toString()) as unknown[];
      if (page.length < 100) return;
      isShort = false;
      exchange.body = Buffer.from(JSON.stringify(page.slice(0, 40)));
      exchange.headers["x-result-count"] = "40";
    });
    await it.drain();
    expect(isShort).toBe(false);
    expect(await it.compare()).toMatchObject({ lost: expect.any(Number) });
    expect((await it.held()).length).toBeLessThan(350);
    // The last listed sweep comes a day after a window's end, and so does the second look after the read.
    await it.pass(26 * HOUR, 10 * MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R31 where the service has a smaller limit of its own every page is read", async () => {
    const it = await open(pages, () => undefined);
    it.simulator.control.faults.add({ kind: "page_cap", events: 40 });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
  });
});

describe("R33 a long wait", () => {
  test("R33 a Retry-After of a day is an alarm, and one request is tried every ten minutes", async () => {
    const it = await open({ simulator: { organizations: 1, events: 50 } }, () => undefined);
    await it.drain();
    const tries: number[] = [];
    let isRefusing = true;
    proxy!.change = (exchange) => {
      if (!isRefusing) return;
      tries.push(it.clock.now());
      Object.assign(exchange, { status: 429, body: Buffer.from("{}") });
      exchange.headers["retry-after"] = "86400";
    };
    await workThrough(it, HOUR);
    expect(it.alarms()[0]).toMatchObject({ kind: "service_wait", subject: "acme", severity: "warning" });
    expect(it.alarms()[0]!.message).toMatch(/asks to wait until 2025-03-02.*every ten minutes/);
    expect(tries.length).toBeGreaterThanOrEqual(6);
    for (const [index, ms] of tries.entries())
      if (index > 0) expect(ms - tries[index - 1]!).toBeGreaterThan(9 * MINUTE);
    isRefusing = false;
    it.simulator.control.append(it.organizations[0]!, [
      { timestamp: new Date(it.clock.now()).toISOString() },
    ]);
    await it.pass(11 * MINUTE, 30 * SECOND);
    expect(it.alarms()).toEqual([]);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });
});
