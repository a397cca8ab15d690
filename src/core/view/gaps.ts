import { z } from "zod";
import { count, incomplete, ms } from "./fields.ts";

export const gapTotalsSchema = z.strictObject({
  gaps: count.meta({ description: "Stretches of one organization whose events are missing or may be." }),
  organizations: count,
  durationMs: ms.meta({ description: "Their length, summed over organizations." }),
  events: count.meta({ description: "Missing events of those gaps whose number is known." }),
  open: count.meta({ description: "Stretches that are refused now and tried again; not counted above." }),
  openMs: ms,
  aside: count.meta({
    description:
      "Stretches that are not asked for: their organization is not in the config any more, or the service no longer lists it. Not counted above.",
  }),
  asideMs: ms,
});

export const gapsQuerySchema = z.strictObject({
  account: z.string().optional().meta({ description: "Only this account's." }),
  organization: z
    .string()
    .optional()
    .meta({ description: "Only this organization's or provider's; empty for the key's own organization." }),
  fromMs: z.coerce.number().optional().meta({ description: "Only gaps that end after this time." }),
  toMs: z.coerce.number().optional().meta({ description: "Only gaps that begin before this time." }),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(10_000)
    .default(500)
    .meta({ description: "How many at the most." }),
});
export type GapsQuery = z.output<typeof gapsQuerySchema>;

const gapSchema = z.strictObject({
  id: count.nullable().meta({ description: "null while the gap is open." }),
  account: z.string(),
  provider: z.string().nullable(),
  organization: z
    .string()
    .nullable()
    .meta({ description: "null for a provider's portal and for the key's own organization." }),
  services: z.array(z.string()),
  fromMs: ms,
  toMs: ms,
  reason: z.enum(["expired", "refused", "unchecked", "unreadable"]).meta({
    description:
      "expired: the service forgot it before it was read. refused: the service refused it, or its organization was not asked for any more; `detail` says which. unchecked: read, but not compared again before the service forgot it. unreadable: one event that could not be read.",
  }),
  detail: z.string(),
  events: count.nullable().meta({ description: "Missing events, where their number is known." }),
  foundMs: ms.nullable(),
  open: z.boolean().meta({ description: "Refused now, or not asked for; the service may still hold it." }),
  nextMs: ms.nullable().meta({ description: "When an open gap is tried again; null: it is not." }),
});
export type GapView = Readonly<z.output<typeof gapSchema>>;
export const gapsSchema = z.strictObject({ totals: gapTotalsSchema, gaps: z.array(gapSchema), incomplete });
export type GapsView = Readonly<z.output<typeof gapsSchema>>;
