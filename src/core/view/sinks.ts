import { z } from "zod";
import { count, ms } from "./fields.ts";

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
  lagEvents: count,
  lagMs: ms.meta({ description: "How long the oldest event that it has not passed has been waiting." }),
  sentEvents: count.nullable().meta({ description: "Since the process started." }),
  committedMs: ms,
  lastWriteMs: ms.nullable(),
  deadLetters: count,
});
export type SinkView = Readonly<z.output<typeof sinkSchema>>;
