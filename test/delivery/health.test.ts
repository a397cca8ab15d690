import { expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import { systemClock } from "../../src/core/clock.ts";
import { RetryableError } from "../../src/core/errors.ts";
import { silentLog } from "../../src/core/log.ts";
import { createHealth } from "../../src/delivery/health.ts";

test.each([
  [new RetryableError("The disk is full.", { remedy: "Free space there." }), "Free space there."],
  [new RetryableError("It is away."), expect.stringContaining("check that the destination is up")],
])("a failure has its own remedy, or that of a destination: %s", (error, remedy) => {
  const alarms = createAlarms(systemClock, silentLog);
  const health = createHealth("disk", systemClock, silentLog, alarms);
  for (let failures = 0; failures < 5; failures++) health.retrying(error);
  expect(health.view()).toMatchObject({ state: "retrying", remedy });
  expect(alarms.list()).toEqual([expect.objectContaining({ kind: "sink_failing", remedy })]);
});
