import { expect, it } from "vitest";
import { lanesWithoutOwner } from "../../src/cluster/owners.ts";

const machine = (...lanes: [lane: number, state: string, sinceMs: number][]) => ({
  lanes: lanes.map(([lane, state, sinceMs]) => ({ lane, state, sinceMs })),
});

it.each([
  ["every lane runs", [machine([0, "running", 1]), machine([1, "running", 2])], []],
  ["a lane is being opened", [machine([0, "running", 1]), machine([1, "opening", 2])], [1]],
  ["no machine has a lane", [machine([0, "running", 1])], [1]],
  [
    "a machine that hangs still says that it runs a lane that another one opens",
    [machine([0, "running", 1], [1, "running", 1]), machine([1, "opening", 5])],
    [1],
  ],
  [
    "a machine that lost a lane before says that it opens it",
    [machine([0, "running", 1], [1, "opening", 1]), machine([1, "running", 5])],
    [],
  ],
])("tells which lanes no machine runs: %s", (_words, machines, lanes) => {
  expect(lanesWithoutOwner(2, machines)).toEqual(lanes);
});
