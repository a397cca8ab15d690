import { expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { ask, createLearned, type PollContext } from "../../src/polling/context.ts";
import { createServiceClock } from "../../src/polling/limits/service-clock.ts";

const clock = { now: () => 5000, sleep: async () => {} };

test("answers without a Date raise an alarm, until one has it again", async () => {
  const alarms = createAlarms(clock, silentLog);
  let dateMs: number | undefined;
  const context = {
    account: "acme",
    alarms,
    clock,
    learned: createLearned(8192),
    metrics: silentMetrics,
    pace: { run: (_: unknown, __: unknown, work: () => unknown) => work() },
    serviceClock: createServiceClock(clock),
    source: { events: async () => ({ head: { dateMs } }) },
  } as unknown as PollContext;
  const { signal } = new AbortController();
  const once = () => ask(context, {} as never, {}, { signal } as never, 0 as never);
  await once();
  expect(alarms.list()).toMatchObject([{ kind: "no_service_time", subject: "acme", severity: "warning" }]);
  dateMs = 9000;
  await once();
  expect(alarms.list()).toEqual([]);
  expect(context.serviceClock.now()).toBe(9000);
});

test("R32 a group has to be answered within ten times what answers lately took; one organization has the whole time", async () => {
  const patience: (number | undefined)[] = [];
  const learned = createLearned(8192);
  const context = {
    account: "acme",
    alarms: createAlarms(clock, silentLog),
    clock,
    learned,
    metrics: silentMetrics,
    pace: { run: (_: unknown, __: unknown, work: () => unknown) => work() },
    serviceClock: createServiceClock(clock),
    source: {
      events: async (_: unknown, __: unknown, { patienceMs }: { patienceMs?: number }) => {
        patience.push(patienceMs);
        return { head: { dateMs: 5000 } };
      },
    },
  } as unknown as PollContext;
  const { signal } = new AbortController();
  const askFor = (organizations: string[]) =>
    ask(context, {} as never, { organizations }, { signal } as never, 0 as never);
  await askFor(["a", "b"]);
  await askFor(["a", "b"]);
  learned.slowMs = 3000;
  await askFor(["a", "b"]);
  await askFor(["a"]);
  expect(patience).toEqual([20_000, 10_000, 30_000, undefined]);
});
