import { z } from "zod";
import { count, incomplete, ms } from "./fields.ts";

export const deadLettersQuerySchema = z.strictObject({
  sink: z.string().optional().meta({ description: "Only this sink's." }),
  group: z.string().optional().meta({ description: "Only those of this group." }),
  before: z.coerce
    .number()
    .int()
    .optional()
    .meta({ description: "Only those with smaller numbers, to page on." }),
  limit: z.coerce.number().int().min(1).max(1000).default(50).meta({ description: "How many at the most." }),
});
export type DeadLettersQuery = z.output<typeof deadLettersQuerySchema>;

const deadLetterSchema = z.strictObject({
  id: count,
  sink: z.string(),
  reason: z.string(),
  storedMs: ms,
  account: z.string(),
  organization: z.string().nullable(),
  provider: z.string().nullable(),
  service: z.string(),
  eventType: z.string(),
  timestamp: z.string(),
  bytes: count,
  answer: z.string().nullable().meta({ description: "The destination's own answer, where it gave one." }),
  group: z.string().meta({ description: "The id of its group." }),
});
export type DeadLetterView = Readonly<z.output<typeof deadLetterSchema>>;
export const deadLetterBodySchema = deadLetterSchema.extend({ body: z.string() });
export type DeadLetterBodyView = Readonly<z.output<typeof deadLetterBodySchema>>;
const deadLetterGroupSchema = z.strictObject({
  id: z.string(),
  sink: z.string(),
  reason: z.string().meta({ description: "Without the parts that differ from event to event." }),
  count,
  firstMs: ms,
  lastMs: ms,
  example: z.strictObject({ id: count, reason: z.string(), answer: z.string().nullable() }),
});
export type DeadLetterGroupView = Readonly<z.output<typeof deadLetterGroupSchema>>;
export const deadLettersSchema = z.strictObject({
  total: count,
  groups: z.array(deadLetterGroupSchema).meta({ description: "By sink and reason, the largest first." }),
  letters: z.array(deadLetterSchema),
  incomplete,
});
export type DeadLettersView = Readonly<z.output<typeof deadLettersSchema>>;
