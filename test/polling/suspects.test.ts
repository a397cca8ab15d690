import { expect, test } from "vitest";
import { createLearned, type PollContext } from "../../src/polling/context.ts";
import { groupsFor } from "../../src/polling/plan/groups.ts";
import { noteServed } from "../../src/polling/read/troubled.ts";

test("R32 a plan does not put a suspect together with others before it was served", () => {
  const learned = createLearned(8192);
  const clock = { now: () => 1000, sleep: async () => {} };
  const source = { headerBytes: ({ organizations = [] }) => organizations.length * 10 };
  const context = { learned, clock, source } as unknown as PollContext;
  const members = ["a", "b", "c", "d"].map((id) => ({ id, traffic: 0 }));
  for (const { id } of members) learned.suspectUntilMs.set(id, 2000);
  const stream = { id: 1, organizations: ["a", "b", "c"] } as unknown as Parameters<typeof noteServed>[1];
  noteServed(context, stream);
  expect(groupsFor(context, members)).toEqual([["d"], ["a", "b", "c"]]);
  learned.suspectUntilMs.clear();
  expect(groupsFor(context, members)).toEqual([["a", "b", "c", "d"]]);
});
