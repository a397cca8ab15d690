import { z } from "zod";
import { count, incomplete, ms } from "./fields.ts";

export const sinkSchema = z.strictObject({
  name: z.string(),
  type: z.string().nullable().meta({ description: "null: it is not in the config." }),
  guarantee: z.enum(["exactly_once", "at_least_once"]).nullable(),
  promise: z.string().nullable(),
  state: z.enum(["opening", "running", "retrying", "paused", "stopped", "unknown"]),
  sinceMs: ms.nullable(),
  reason: z.string().nullable(),
  remedy: z.string().nullable(),
  position: z.string().meta({ description: "journal:page:event:hash" }),
  lagEvents: count.meta({
    description:
      "Events that it has not passed. With a filter (isFiltered), some of them may not be meant for it: then this is the most that it can lack.",
  }),
  isFiltered: z
    .boolean()
    .default(false)
    .meta({ description: "It has a filter (`only`, `except`), and lagEvents is counted before it." }),
  lagMs: ms.meta({ description: "How long the oldest event that it has not passed has been waiting." }),
  sentEvents: count.nullable().meta({ description: "Since the process started." }),
  committedMs: ms,
  lastWriteMs: ms.nullable(),
  deadLetters: count,
});
export type SinkView = Readonly<z.output<typeof sinkSchema>>;

export const sinksSchema = z.strictObject({ sinks: z.array(sinkSchema), incomplete });
export type SinksView = Readonly<z.output<typeof sinksSchema>>;

/** The events that wait for a sink, in words. A filter is applied when a batch is formed, so they are counted before it. */
export function waitingText({ lagEvents, isFiltered }: Pick<SinkView, "lagEvents" | "isFiltered">): string {
  const events = `${lagEvents.toLocaleString("en")} ${lagEvents === 1 ? "event" : "events"}`;
  return isFiltered ? `up to ${events}, before its filter` : events;
}
