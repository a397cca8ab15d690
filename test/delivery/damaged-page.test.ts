import { afterEach, describe, expect, test } from "vitest";
import { RetryableError, UsageError } from "../../src/core/errors.ts";
import { resolutionOf } from "../../src/delivery/position.ts";
import { eventsBetween } from "../../src/journal/left-out.ts";
import { eventTexts, timeMs } from "../support/pages.ts";
import {
  createHarness,
  deliverAll,
  type Harness,
  type HarnessOptions,
  never,
  stepUntilIdle,
} from "./support.ts";

const PAGES = 6;
const behind = resolutionOf("behind-damage");

describe("R16 a damaged page between whole ones", () => {
  let harness: Harness;
  afterEach(() => harness.close());

  /** Pages of five events each. */
  async function make(options: HarnessOptions = {}): Promise<Harness> {
    harness = createHarness({ limits: { recordsMax: 100 }, ...options });
    for (let page = 0; page < PAGES; page++) await harness.append(eventTexts(page * 5, 5));
    return harness;
  }

  function damage(page: number): void {
    const { db } = harness.fixture;
    const body = db.prepare("SELECT body FROM bodies WHERE page = ?").pluck().get(page) as Buffer;
    body[20]! ^= 4;
    db.prepare("UPDATE bodies SET body = ? WHERE page = ?").run(body, page);
    harness.fixture.reopen();
  }

  const without = (page: number) => [
    ...eventTexts(0, (page - 1) * 5),
    ...eventTexts(page * 5, (PAGES - page) * 5),
  ];

  test.each([
    ["in one batch", {}],
    ["in batches of one page, several in flight", { writesMax: 4, limits: { recordsMax: 5 } }],
    ["exactly once", { guarantee: "exactly_once", boundsFirst: true }],
  ] as const)(
    "all before it is delivered and committed, and a person can go on behind it alone: %s",
    async (_, options) => {
      const { destination, start } = await make(options);
      damage(4);
      const delivery = await start();
      await stepUntilIdle(delivery);
      expect(destination.held).toEqual(eventTexts(0, 15));
      const { state, remedy, position } = delivery.status();
      expect([state, position.page, position.event]).toEqual(["stopped", 3, 5]);
      const [since, until] = [timeMs(15), timeMs(19) + 1].map((ms) => new Date(ms).toISOString());
      expect(remedy).toContain("`tidemark sinks resume sink --from behind-damage`");
      expect(remedy).toContain(
        `\`tidemark backfill --account acme --sink sink --since ${since} --until ${until}\``,
      );
      expect(remedy).not.toContain("--from now");
      await delivery.resolve(behind, never);
      await deliverAll(harness, delivery);
      expect(destination.held).toEqual(without(4));
      expect(harness.alarms.list()).toEqual([]);
    },
  );

  test("there is nothing to go behind at a whole page, and nothing is changed", async () => {
    const { start, destination } = await make();
    const delivery = await start();
    await expect(delivery.resolve(behind, never)).rejects.toThrow(UsageError);
    await deliverAll(harness, delivery);
    expect(destination.held).toEqual(eventTexts(0, PAGES * 5));
    await expect(delivery.resolve(behind, never)).rejects.toThrow("does not stand at a damaged page");
  });

  test("R19 a batch that was begun and ends before it is delivered", async () => {
    const { destination, append, start } = await make({ guarantee: "exactly_once", boundsFirst: true });
    destination.script.push(() => {
      throw new RetryableError("cut");
    });
    await (await start()).step(never);
    await append(eventTexts(PAGES * 5, 5));
    damage(PAGES + 1);
    const delivery = await start();
    await stepUntilIdle(delivery);
    expect([delivery.status().state, destination.held]).toEqual(["stopped", eventTexts(0, PAGES * 5)]);
    await delivery.resolve(behind, never);
    expect(delivery.status().position.page).toBe(PAGES + 1);
  });

  test("R19 in a batch that was begun: it goes on behind the damage, and what is left out is known", async () => {
    const { destination, start, fixture } = await make({ guarantee: "exactly_once", boundsFirst: true });
    destination.script.push(() => {
      throw new RetryableError("cut");
    });
    await (await start()).step(never);
    damage(2);
    const delivery = await start();
    await stepUntilIdle(delivery);
    expect([delivery.status().state, destination.held]).toEqual(["stopped", []]);
    const from = delivery.status().position;
    await delivery.resolve(behind, never);
    const left = eventsBetween(fixture.db, "sink", from, delivery.status().position);
    expect(left).toEqual([{ account: "acme", events: 10, fromMs: timeMs(0), toMs: timeMs(9) }]);
    await deliverAll(harness, delivery);
    expect(destination.held).toEqual(eventTexts(10, 20));
  });
});
