import { describe, expect, test } from "vitest";
import { hasOtherConfig } from "../../src/app/cluster/report.ts";
import { assignLanes, type GroupMember, type MemberFacts } from "../../src/cluster/assign.ts";
import { createSelfFence } from "../../src/cluster/self-fence.ts";

const member = (id: string, facts: Partial<MemberFacts> = {}): GroupMember => ({
  id,
  facts: { machine: id, schema: 1, laneSchema: 1, config: "a", held: [], ...facts },
});
const assign = (members: readonly GroupMember[], lanes = 16) =>
  Object.fromEntries(assignLanes(members, lanes)) as Record<string, number[]>;
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at);

describe("C13 assignment", () => {
  test("C13 every lane goes to one member, in equal shares", () => {
    const assigned = assign([member("a"), member("b"), member("c")]);
    expect(
      Object.values(assigned)
        .flat()
        .toSorted((a, b) => a - b),
    ).toEqual(range(0, 16));
    expect(Object.values(assigned).map((list) => list.length)).toEqual([6, 5, 5]);
  });

  test("C13 only as many lanes move as a new member must get", () => {
    const assigned = assign([
      member("a", { held: range(0, 8) }),
      member("b", { held: range(8, 16) }),
      member("c"),
    ]);
    expect(assigned.c).toHaveLength(5);
    for (const lane of assigned.a!) expect(range(0, 8)).toContain(lane);
    for (const lane of assigned.b!) expect(range(8, 16)).toContain(lane);
  });

  test("C13 when a member leaves, the others keep theirs", () => {
    const assigned = assign([member("a", { held: range(0, 6) }), member("b", { held: range(6, 11) })]);
    expect(assigned.a).toEqual(expect.arrayContaining(range(0, 6)));
    expect(assigned.b).toEqual(expect.arrayContaining(range(6, 11)));
    expect(assigned.a!.length + assigned.b!.length).toBe(16);
  });

  test("C13 a lane that two members claim, and one that does not exist, go to one member and to none", () => {
    const assigned = assign([member("a", { held: [0, 1, 99] }), member("b", { held: [0, 1] })], 4);
    expect(Object.values(assigned).flat().toSorted()).toEqual([0, 1, 2, 3]);
  });
});

describe("C14 and C15", () => {
  test("C14 the newer version gets no lane until half of the members have it, then all", () => {
    const old = [member("a"), member("b")];
    expect(assign([...old, member("c", { schema: 2 })]).c).toEqual([]);
    const half = assign([...old, member("c", { schema: 2 }), member("d", { schema: 2 })]);
    expect([half.a, half.b]).toEqual([[], []]);
    expect(half.c!.length + half.d!.length).toBe(16);
  });

  test("C14 a member that does not know the schema of a lane gets none, however few know it", () => {
    const assigned = assign([member("a"), member("b"), member("c", { schema: 2, laneSchema: 2 })]);
    expect([assigned.a, assigned.b]).toEqual([[], []]);
    expect(assigned.c).toHaveLength(16);
  });

  test("C15 members with another config get no lanes until they are the majority", () => {
    const two = [member("a", { held: range(0, 8) }), member("b", { held: range(8, 16) })];
    expect(assign([...two, member("c", { config: "b" })]).c).toEqual([]);
    const even = assign([two[0]!, member("c", { config: "b" })]);
    expect(even.c).toEqual([]);
    const most = assign([two[0]!, member("c", { config: "b" }), member("d", { config: "b" })]);
    expect(most.a).toEqual([]);
  });
});

describe("C9 the self-fence", () => {
  test("C9 opens with a confirmation and closes a third of the session later, by the larger of both clocks", () => {
    const now = { wallMs: 1_000_000, monotonicMs: 5000 };
    const fence = createSelfFence(3000, () => ({ ...now }));
    expect(fence.isOpen()).toBe(false);
    fence.confirm({ ...now });
    fence.check();
    now.wallMs += 3001;
    expect(() => fence.check()).toThrow("nothing is sent");
    fence.confirm({ ...now, monotonicMs: now.monotonicMs + 1 });
    // The wall clock is set back an hour: the other one still counts.
    now.wallMs -= 3_600_000;
    now.monotonicMs += 3002;
    expect(fence.isOpen()).toBe(false);
  });

  test("C9 an answer that comes late counts from when it was asked for", () => {
    const now = { wallMs: 1_000_000, monotonicMs: 5000 };
    const fence = createSelfFence(3000, () => ({ ...now }));
    const askedAt = { ...now };
    now.wallMs += 60_000;
    now.monotonicMs += 60_000;
    fence.confirm(askedAt);
    expect(fence.isOpen()).toBe(false);
  });
});

test("C15 a machine without lanes knows when those that run them have another config", () => {
  const running = { lanes: [{ lane: 0, state: "running", sinceMs: 0, records: 0, behindEvents: 0 }] };
  const idle = { lanes: [] };
  expect(
    hasOtherConfig("a", [
      { config: "b", ...running },
      { config: "a", ...idle },
    ]),
  ).toBe(true);
  expect(
    hasOtherConfig("a", [
      { config: "b", ...running },
      { config: "a", ...running },
    ]),
  ).toBe(false);
  expect(hasOtherConfig("a", [{ config: "b", ...idle }])).toBe(false);
  // A machine of an earlier version says nothing about its config.
  expect(hasOtherConfig("a", [running])).toBe(false);
});
