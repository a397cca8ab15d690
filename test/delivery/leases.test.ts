import { afterEach, describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import type { Batch } from "../../src/core/sink.ts";
import { eventTexts } from "../support/pages.ts";
import { createHarness, type Harness, stepUntilIdle } from "./support.ts";

/*
 * Who holds the memory of a page, and for how long. The journal of these tests fills returned memory with a
 * pattern, so a view that outlives its lease shows other bytes.
 */
describe("leases on pages", () => {
  let harness: Harness;
  afterEach(() => harness.close());

  const one = (text: string) => text.replaceAll("\n", " ");
  const events = (from: number, count: number) => eventTexts(from, count).map(one);
  const textsOf = (batch: Batch) => batch.records.map(({ body }) => Buffer.from(body).toString());

  test("a batch keeps its pages while it is written, whatever else the reader reads meanwhile", async () => {
    harness = createHarness();
    const [first, second] = [events(0, 4), events(10, 4)];
    await harness.append(first);
    await harness.append(second);
    harness.fixture.reopen();
    const delivery = await harness.start();
    const seen: string[] = [];
    harness.destination.otherwise = async (batch, store) => {
      // A look back and past the end: neither may free what the batch holds.
      const reader = await harness.fixture.journal.reader("sink");
      const back = await reader.read(reader.position);
      back?.lease.release();
      expect(await reader.read(harness.fixture.journal.end())).toBeNull();
      expect(await reader.hasMore(reader.position)).toBe(true);
      seen.push(...textsOf(batch));
      store();
    };
    await stepUntilIdle(delivery);
    expect(seen).toEqual([...first, ...second]);
    expect(harness.fixture.memory.heldBytes()).toBe(0);
  });

  test("a sink that keeps a view after its write sees that it is invalid", async () => {
    harness = createHarness();
    await harness.append(events(0, 4));
    harness.fixture.reopen();
    const delivery = await harness.start();
    let kept: Uint8Array | undefined;
    harness.destination.script.push((batch, store) => {
      kept = batch.records[0]!.body;
      store();
    });
    await stepUntilIdle(delivery);
    expect(harness.destination.held).toEqual(events(0, 4));
    expect(Buffer.from(kept!).toString("latin1")).toMatch(/^\xdb+$/);
  });

  test("nothing is held after failures, dead letters, filters and waits", async () => {
    harness = createHarness({
      wants: (event) => event.id !== "0".repeat(24),
      limits: { recordBytesMax: 250, recordsMax: 3 },
    });
    await harness.append([...events(0, 5), JSON.stringify({ id: "large", text: "x".repeat(400) })]);
    await harness.append(events(20, 5));
    harness.fixture.reopen();
    const delivery = await harness.start();
    const away = () => {
      throw new RetryableError("away");
    };
    harness.destination.script.push(away, away);
    for (let round = 0; round < 5; round++) {
      await stepUntilIdle(delivery);
      harness.clock.advance(60_000);
    }
    expect(harness.destination.held).toEqual([...events(1, 4), ...events(20, 5)]);
    expect(delivery.status().deadLetters).toBe(1);
    expect(harness.fixture.memory.heldBytes()).toBe(0);
  });
});
