import { expect, test } from "vitest";
import { mergeSinks } from "../../src/app/cluster/merge-status.ts";
import type { SinkView } from "../../src/core/view/sinks.ts";

const sink = (state: SinkView["state"], reason: string | null) =>
  ({ name: "bus", state, reason, lastWriteMs: null, sentEvents: null }) as Partial<SinkView> as SinkView;

test("a sink that waits for its destination in one lane has that reason in the whole cluster", () => {
  const waiting = sink("running", "It has been writing for more than 30s.");
  for (const lanes of [
    [sink("running", null), waiting, sink("running", null)],
    [waiting, sink("running", null)],
  ])
    expect(mergeSinks(lanes)).toMatchObject([{ state: "running", reason: waiting.reason }]);
  expect(mergeSinks([waiting, sink("paused", "403")])).toMatchObject([{ state: "paused", reason: "403" }]);
});
