import { afterEach, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy } from "./proxy.ts";
import { COMPLETE, DAY, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

const BODY_BYTES_MAX = 200_000;

/** Reads so many events, 10 ms apart, with their own filler; gives the bytes of each answer. */
async function readAll(count: number, fillerBytes: (index: number) => number): Promise<readonly number[]> {
  const simulator = { organizations: 1, events: 0, gzip: false };
  ({ world, proxy } = await openProxied({ simulator, account: { bodyMax: "200KB" } }));
  const events = Array.from({ length: count }, (_, index) => ({
    timestamp: new Date(START_MS - 2 * DAY + 10 * index).toISOString(),
    filler: "x".repeat(fillerBytes(index)),
  }));
  world.simulator.control.append(world.organizations[0]!, events);
  await world.drain();
  expect(await world.compare()).toMatchObject({ ...COMPLETE, held: count });
  const answers = proxy.exchanges.filter(({ path }) => path.endsWith("/events"));
  return answers.map(({ body }) => body.length);
}

test("R8 pages grow again behind neighbours that are too large for one body", async () => {
  const isLarge = (index: number) => index === 300 || index === 301;
  const answers = await readAll(1500, (index) => (isLarge(index) ? 120_000 : 0));
  expect(answers.length).toBeLessThan(80);
});

test("R8 pages of large events do not grow and fail in turn", async () => {
  const answers = await readAll(100, () => 70_000);
  expect(answers.filter((bytes) => bytes > BODY_BYTES_MAX).length).toBeLessThan(20);
});
