import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createMessenger, type Messenger } from "../../src/app/cluster/messenger.ts";
import { carryOutRequests, createUnderWay, errorOf } from "../../src/app/requests.ts";
import type { App } from "../../src/app.ts";
import type { Followed, RequestTopic } from "../../src/cluster/request-topic.ts";
import type { Actions } from "../../src/core/actions.ts";
import type { StoredRecord } from "../../src/core/changelog.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { defineRoute } from "../../src/core/route.ts";
import { createRequests } from "../../src/journal/command-queue.ts";
import { type LaneFixture, laneFixture } from "../journal/replication/support.ts";

const never = new AbortController().signal;
const ACTION = { kind: "action", action: "poll", body: {} } as const;

/** The topic in memory, with the promises of its interface. */
function modelTopic(): RequestTopic & { readonly records: StoredRecord[][] } {
  const records: StoredRecord[][] = [[], []];
  let wake = () => {};
  async function step(followed: Followed): Promise<void> {
    for (const [partition, from] of await followed.positions()) {
      const found = records[partition]!.slice(from);
      if (found.length > 0)
        await followed
          .take(partition, found, { from, next: from + found.length })
          .catch((error: unknown) => followed.trouble(error));
    }
  }
  return {
    records,
    async send(partition, key, value) {
      const list = records[partition]!;
      list.push({ key, value: Buffer.from(JSON.stringify(value)), offset: list.length, timeMs: 0 });
      wake();
    },
    endOf: async (partition) => records[partition]!.length,
    async follow(followed, signal) {
      while (!signal.aborted) {
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
          setTimeout(resolve, 5);
        });
        await step(followed);
        await woken;
      }
    },
    async end() {},
  };
}

describe("C3 requests between machines", () => {
  let fixture: LaneFixture;
  let topic: ReturnType<typeof modelTopic>;
  let polled: number;
  const stop: AbortController[] = [];
  const actions = {
    poll: async () => {
      polled++;
      return { message: "Polled.", count: 1 };
    },
  } as unknown as Actions;
  beforeEach(() => {
    fixture = laneFixture();
    topic = modelTopic();
    polled = 0;
  });
  afterEach(async () => {
    for (const one of stop.splice(0)) one.abort();
    await fixture.close();
  });

  /** A machine with lane 0, or one without lanes. */
  async function machine(name?: string) {
    const lane = name === undefined ? undefined : await fixture.open(name);
    const app = lane && ({ requests: createRequests(lane.state, systemClock) } as unknown as App);
    const ending = new AbortController();
    stop.push(ending);
    const messenger: Messenger = createMessenger({
      ...{ topic, lanes: 2, log: silentLog },
      open: () => (app === undefined ? [] : [{ lane: 0, app }]),
      look: async (request) => ({ seen: request.kind === "look" ? request.part : "" }),
    });
    const running = messenger.run(ending.signal);
    return {
      messenger,
      requests: app?.requests,
      carryOut: () =>
        carryOutRequests(app!.requests, actions, silentLog, never, {
          routes: [],
          answer: (origin, outcome) => messenger.answer(0, origin, outcome),
        }),
      async die() {
        ending.abort();
        await running;
        await lane?.close();
      },
    };
  }

  async function until(condition: () => boolean): Promise<void> {
    for (let tries = 0; !condition() && tries < 2000; tries++) await systemClock.sleep(5, never);
    expect(condition()).toBe(true);
  }

  test("C3 what is asked of a lane is carried out by its owner, and the asker gets the outcome", async () => {
    const owner = await machine("one");
    const asker = await machine();
    const answer = asker.messenger.ask(0, ACTION, 60_000, never);
    await until(() => owner.requests!.open().length === 1);
    await owner.carryOut();
    expect(await answer).toMatchObject({ ok: true, message: "Polled.", count: 1, lane: 0 });
    expect(polled).toBe(1);
  });

  test("C3 the offset taken is part of the lane's state: the next owner goes on behind it, and carries out what was taken", async () => {
    const asker = await machine();
    const first = await machine("one");
    const answer = asker.messenger.ask(0, ACTION, 60_000, never);
    await until(() => first.requests!.open().length === 1);
    await first.die();
    const second = await machine("two");
    await until(() => second.requests!.next() === 1);
    expect(second.requests!.open()).toHaveLength(1);
    await second.carryOut();
    expect(await answer).toMatchObject({ ok: true });
    await second.die();
    const third = await machine("one");
    await systemClock.sleep(50, never);
    expect(third.requests!.open()).toHaveLength(0);
    expect(polled).toBe(1);
  });

  test("C3 a lane that no machine runs is waited for as long as asked, although garbage is collected meanwhile", async () => {
    const asker = await machine();
    setFlagsFromString("--expose_gc");
    const collecting = setInterval(runInNewContext("gc") as () => void, 20);
    try {
      const waited = new Promise((resolve) => setTimeout(resolve, 30_000, "still waiting").unref());
      const answer = asker.messenger.ask(1, ACTION, 500, never);
      expect(await Promise.race([answer, waited])).toBeUndefined();
    } finally {
      clearInterval(collecting);
    }
  });

  test("C3 a topic that does not take the request is an error after the time that was given", async () => {
    const asker = await machine();
    await asker.messenger.ask(1, ACTION, 50, never);
    const { send } = topic;
    topic.send = () => new Promise(() => {});
    const waited = new Promise((_, reject) => setTimeout(reject, 30_000, new Error("still waiting")).unref());
    const answer = asker.messenger.ask(1, ACTION, 200, never);
    await expect(Promise.race([answer, waited])).rejects.toMatchObject({
      ...{ name: "RouteError", status: 504 },
      message: expect.stringContaining("Kafka did not confirm the request in time"),
    });
    const stopping = new AbortController();
    const stopped = asker.messenger.ask(1, ACTION, 60_000, stopping.signal);
    stopping.abort(new Error("stopped"));
    await expect(Promise.race([stopped, waited])).rejects.toThrow("stopped");
    topic.send = send;
  });

  test("C3 a request that could not be sent is refused with 503 for the HTTP API", async () => {
    topic.endOf = () => new Promise(() => {});
    const asker = await machine();
    await expect(asker.messenger.ask(1, ACTION, 50, never)).rejects.toMatchObject({
      ...{ name: "RouteError", status: 503 },
      message: expect.stringContaining("the request was not sent"),
    });
  });

  test("C3 a change that its owner's end interrupted is reported with 504: a job may have begun", async () => {
    const asker = await machine();
    const first = await machine("one");
    const call = { method: "POST", path: "/api/imports", caller: "test" } as const;
    const answer = asker.messenger.ask(0, { kind: "route", call }, 60_000, never);
    await until(() => first.requests!.open().length === 1);
    await first.requests!.start(first.requests!.open()[0]!.id);
    await first.die();
    await (await machine("two")).carryOut();
    expect(errorOf((await answer)!)).toMatchObject({
      ...{ name: "RouteError", status: 504 },
      message: expect.stringContaining("a job may have begun"),
    });
  });

  test("C3 an answer that is too large, and a request that is not understood, are refusals with their own text", async () => {
    const asker = await machine();
    await machine("one");
    const refusal = async (question: unknown) =>
      errorOf((await asker.messenger.ask(0, question as typeof ACTION, 60_000, never))!);
    const large = { kind: "look", part: "x".repeat(1_000_000), values: [] };
    expect(await refusal(large)).toMatchObject({
      ...{ name: "RouteError", status: 503 },
      message: expect.stringContaining("too large"),
    });
    expect(await refusal({ kind: "unheard of" })).toMatchObject({
      ...{ name: "RouteError", status: 503 },
      message: expect.stringContaining("has another version"),
    });
  });

  test("C3 an import that waits for the service holds up no other request of its lane, and is carried out once", async () => {
    const owner = await machine("one");
    const asker = await machine();
    let starts = 0;
    let end = () => {};
    const slow = new Promise<void>((resolve) => {
      end = resolve;
    });
    const route = defineRoute({
      ...{ method: "POST", path: "/api/imports", summary: "", scope: "write", params: z.strictObject({}) },
      ...{ query: z.strictObject({}), body: z.strictObject({}), response: z.strictObject({ id: z.int() }) },
      async run() {
        starts++;
        await slow;
        return { id: 7 };
      },
    });
    const underWay = createUnderWay();
    const carryOut = () =>
      carryOutRequests(owner.requests!, actions, silentLog, never, {
        ...{ routes: [route], underWay },
        answer: (origin, outcome) => owner.messenger.answer(0, origin, outcome),
      });
    const call = {
      method: "POST",
      path: "/api/imports",
      params: {},
      query: {},
      body: {},
      caller: "ann",
    } as const;
    const answer = asker.messenger.ask(0, { kind: "route", call }, 60_000, never);
    await until(() => owner.requests!.open().length === 1);
    await carryOut();
    const other = asker.messenger.ask(0, ACTION, 60_000, never);
    await until(() => owner.requests!.open().length === 2);
    await carryOut();
    expect(await other).toMatchObject({ ok: true, message: "Polled." });
    await carryOut();
    end();
    expect(await answer).toMatchObject({ ok: true, value: { id: 7 } });
    await carryOut();
    expect([starts, underWay.byRequest.size]).toEqual([1, 0]);
  });

  test("C3 a request that arrives twice is carried out once", async () => {
    const owner = await machine("one");
    const request = { ...ACTION, id: "1:same" };
    await topic.send(0, "ask", request, never);
    await topic.send(0, "ask", request, never);
    await until(() => owner.requests!.next() === 2);
    await owner.carryOut();
    await topic.send(0, "ask", request, never);
    await until(() => owner.requests!.next() === 3);
    await owner.carryOut();
    expect(polled).toBe(1);
  });

  test("C3 an owner that dies before it has sent the outcome leaves it to the next one", async () => {
    const asker = await machine();
    const first = await machine("one");
    const answer = asker.messenger.ask(0, ACTION, 60_000, never);
    await until(() => first.requests!.open().length === 1);
    const answering = carryOutRequests(first.requests!, actions, silentLog, never, {
      routes: [],
      answer: () => Promise.reject(new Error("killed here")),
    });
    await expect(answering).rejects.toThrow("killed here");
    await first.die();
    await machine("two");
    expect(await answer).toMatchObject({ ok: true, message: "Polled." });
    expect(polled).toBe(1);
  });

  test("C3 a lane that no machine runs gives no answer in time, and the request waits for its next owner", async () => {
    const asker = await machine();
    expect(await asker.messenger.ask(0, ACTION, 50, never)).toBeUndefined();
    const owner = await machine("one");
    await until(() => owner.requests!.open().length === 1);
  });

  test("C3 a look is answered at once, changes nothing, and is not repeated by the next owner", async () => {
    const owner = await machine("one");
    const asker = await machine();
    const commits = fixture.changelog.commits;
    const look = { kind: "look", part: "status", values: [] } as const;
    expect(await asker.messenger.ask(0, look, 60_000, never)).toMatchObject({ value: { seen: "status" } });
    expect(fixture.changelog.commits).toBe(commits);
    await owner.die();
    const answers = topic.records.flat().length;
    await machine("two");
    await systemClock.sleep(50, never);
    expect(topic.records.flat()).toHaveLength(answers);
  });

  test("C3 an answer of a newer version, with fields and errors that are not known here, is an answer", async () => {
    const asker = await machine();
    const answer = asker.messenger.ask(0, ACTION, 60_000, never);
    const asked = () => topic.records[0]!.find(({ key }) => key === "ask");
    await until(() => asked() !== undefined);
    const { id } = JSON.parse(asked()!.value!.toString()) as { id: string };
    const newer = {
      ...{ to: id, lane: 0, ok: false, message: "No." },
      error: "newer_kind",
      more: { of: "it" },
    };
    await topic.send(Number.parseInt(id, 10), "answer", newer, never);
    expect(await answer).toEqual({ to: id, lane: 0, ok: false, message: "No.", error: undefined });
  });

  test("C3 a record that is no request is passed over", async () => {
    const owner = await machine("one");
    await topic.send(0, "ask", { kind: "unheard of", id: "1:x" }, never);
    await topic.send(0, "ask", { ...ACTION, id: "1:y" }, never);
    await until(() => owner.requests!.open().length === 1);
    expect(owner.requests!.next()).toBe(2);
  });
});
