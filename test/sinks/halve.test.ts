import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import { elasticsearch } from "../../src/sinks/bulk/elasticsearch.ts";
import { halveUntilNamed } from "../../src/sinks/over-http/halve.ts";
import { drive } from "../contract/drive.ts";
import { type StandInServer, startServer } from "../stand-ins/server.ts";
import { makeEvents } from "../support/events.ts";

/** What the destination does with a record: with the request that contains it, or with the record alone. */
type Fate = "taken" | "request refused" | "refused" | "busy" | "unreachable" | "paused" | "too large";
const FATES: readonly Fate[] = [
  ...["taken", "taken", "taken", "taken", "request refused", "refused"],
  ...["busy", "unreachable", "paused", "too large"],
] as Fate[];

describe("a batch that is sent in halves until refused events are known", () => {
  test("no record is left out: each is stored, refused, or named for the next attempt", async () => {
    const fates = fc.array(fc.constantFrom(...FATES), { minLength: 1, maxLength: 40 });
    await fc.assert(fc.asyncProperty(fates, fc.infiniteStream(fc.boolean()), attempts), { numRuns: 500 });
  });

  test("R27 a destination that refuses everything gets delivery to decide after a few events", async () => {
    const records = Array.from({ length: 64 }, () => ({})) as never[];
    let requests = 0;
    const error = await halveUntilNamed(records, async () => {
      requests++;
      return { reason: "400" };
    }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect((error as RejectedEventsError).rejected).toHaveLength(16);
    expect((error as RejectedEventsError).remaining).toHaveLength(48);
    expect(requests).toBeLessThan(40);
  });

  test("an error amid halving leaves only what is not sent yet", async () => {
    const records = Array.from({ length: 8 }, () => ({})) as never[];
    let requests = 0;
    const error = await halveUntilNamed(records, async () => {
      // The whole is refused, its first half is taken, and then the destination goes away.
      if (++requests === 1) return { reason: "422" };
      if (requests > 2) throw new RetryableError("503", { retryAfterMs: 3000 });
      return undefined;
    }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RetryableError);
    expect(error).toMatchObject({ remaining: [4, 5, 6, 7], retryAfterMs: 3000 });
  });

  /** Each record's trouble ends at some time, except a refusal. */
  async function attempts(fates: readonly Fate[], isOver: Iterator<boolean>): Promise<void> {
    const now = [...fates];
    const stored = new Set<number>();
    const refused = new Set<number>();
    const over = () => isOver.next().value === true;
    let left = fates.map((_, number) => number);
    for (let round = 0; left.length > 0; round++) {
      expect(round).toBeLessThan(1000);
      const records = left.map((number) => ({ number })) as never[];
      const numbers = left;
      const send = async (_: unknown, places: readonly number[]) => {
        const named = (fate: Fate) => places.filter((place) => now[numbers[place]!] === fate);
        for (const fate of ["unreachable", "paused", "too large"] as const) {
          const [first] = named(fate);
          if (first === undefined) continue;
          if (over()) now[numbers[first]!] = "taken";
          if (fate === "unreachable") throw new RetryableError("reset");
          throw fate === "paused" ? new PausedError("403", "Allow it.") : new TooLargeError("413");
        }
        if (named("request refused").length > 0) return { reason: "400" };
        for (const place of named("taken")) stored.add(numbers[place]!);
        const busy = named("busy");
        const bad = named("refused");
        for (const place of busy) if (over()) now[numbers[place]!] = "taken";
        const rejected = bad.map((index) => ({ index, reason: "400" }));
        if (rejected.length > 0) throw new RejectedEventsError("400", rejected, { remaining: busy });
        if (busy.length > 0) throw new RetryableError("429", { remaining: busy });
        return undefined;
      };
      const error = await halveUntilNamed(records, send).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (error === undefined) left = [];
      else if (error instanceof RejectedEventsError) {
        for (const { index } of error.rejected) refused.add(numbers[index]!);
        left = (error.remaining ?? []).map((index) => numbers[index]!);
      } else if (error instanceof RetryableError)
        left = (error.remaining ?? numbers.map((_, index) => index)).map((index) => numbers[index]!);
    }
    fates.forEach((fate, number) => {
      const isRefused = fate === "refused" || fate === "request refused";
      expect({ number, fate, isStored: stored.has(number), isRefused: refused.has(number) }).toEqual({
        ...{ number, fate, isStored: !isRefused, isRefused },
      });
    });
  }
});

describe("elasticsearch behind a gateway that refuses requests with a certain event", () => {
  const POISON = (150).toString(16).padStart(24, "0");
  let server: StandInServer;
  afterEach(() => server.close());

  test.each([400, 429, 503])("every event is stored or refused where single items get %i", async (status) => {
    const stored = new Set<string>();
    let troubles = 20;
    server = await startServer(({ path, body }) => {
      if (!path.startsWith("/_bulk")) return { status: 200, body: { version: { number: "9.0.0" } } };
      if (body.includes(POISON)) return { status: 400, body: { error: "a rule of the gateway" } };
      const lines = body.toString().trimEnd().split("\n");
      const items = lines.flatMap((line, at) => {
        if (at % 2 === 1) return [];
        const { _id } = JSON.parse(line).create;
        if (at % 34 === 0 && troubles-- > 0)
          return [{ create: { status, error: { type: "some_exception", reason: "some reason" } } }];
        stored.add(_id);
        return [{ create: { status: 201 } }];
      });
      const errors = items.some(({ create }) => create.status !== 201);
      return { status: 200, body: { took: 1, errors, items } };
    });
    const events = makeEvents(300);
    const target = { definition: elasticsearch, config: { url: server.url, gzip: false, template: false } };
    const { deadLetters } = await drive(target, events, { batchEvents: 300 });
    const missing = events.filter(({ identity }) => !stored.has(identity) && !deadLetters.has(identity));
    expect(missing.map(({ id }) => id)).toEqual([]);
    expect(deadLetters.has(events[150]!.identity)).toBe(true);
    if (status === 400) expect(deadLetters.size).toBeGreaterThan(1);
    else expect(deadLetters.size).toBe(1);
  });
});
