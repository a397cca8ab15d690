import { expect, test } from "vitest";
import { createFitness, FITNESS_LIMITS } from "../../src/app/cluster/fitness.ts";
import type { LaneState, LaneStatus } from "../../src/app/cluster/lane.ts";

const UNFIT_MS = FITNESS_LIMITS.unfitMs;

const lane = (state: LaneState, ...alarms: string[]): LaneStatus =>
  ({
    ...{ lane: 0, state, sinceMs: 0, records: 0 },
    ...(state === "running" ? { app: { alarms: { list: () => alarms.map((kind) => ({ kind })) } } } : {}),
  }) as unknown as LaneStatus;
const other = (state: LaneState, ...kinds: string[]) => ({
  lanes: [{ lane: 1, state, sinceMs: 0, records: 0, behindEvents: 0 }],
  alarms: kinds.map((kind) => ({ kind, subject: "", message: "" })),
});

test("C13 a machine that can commit to none of its lanes for minutes leaves, if another machine works", () => {
  const fitness = createFitness();
  const own = [lane("waiting"), lane("opening")];
  expect(fitness.look(own, [other("running")], 0)).toBeUndefined();
  expect(fitness.look(own, [other("running")], UNFIT_MS - 1)).toBeUndefined();
  expect(fitness.look(own, [other("running")], UNFIT_MS)).toContain("opened or committed");
  expect(fitness.look(own, [other("running")], UNFIT_MS + 1)).toBeUndefined();
});

test("C13 a machine that cannot read from the service leaves, if another machine can", () => {
  const fitness = createFitness();
  const own = [lane("running", "discovery_failed"), lane("running", "window_failing")];
  fitness.look(own, [other("running")], 0);
  expect(fitness.look(own, [other("running")], UNFIT_MS)).toContain("can read from the service");
});

test.each([
  ["one lane works", [lane("running"), lane("waiting")], [other("running")]],
  ["no other machine works", [lane("waiting")], [other("waiting")]],
  [
    "the others cannot read either",
    [lane("running", "window_failing")],
    [other("running", "window_failing")],
  ],
  ["a lane waits for a person", [lane("stopped")], [other("running")]],
  ["it has no lanes", [], [other("running")]],
])("C13 it stays where %s", (_, own, others) => {
  const fitness = createFitness();
  fitness.look(own, others, 0);
  expect(fitness.look(own, others, 10 * UNFIT_MS)).toBeUndefined();
});

test("C13 trouble that ends in between is not added up", () => {
  const fitness = createFitness();
  fitness.look([lane("waiting")], [other("running")], 0);
  fitness.look([lane("running")], [other("running")], UNFIT_MS / 2);
  fitness.look([lane("waiting")], [other("running")], UNFIT_MS);
  expect(fitness.look([lane("waiting")], [other("running")], 1.5 * UNFIT_MS)).toBeUndefined();
});
