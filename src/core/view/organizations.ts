import { z } from "zod";
import { count, incomplete, ms } from "./fields.ts";

export const organizationsQuerySchema = z.strictObject({
  search: z
    .string()
    .max(200)
    .default("")
    .meta({ description: "Part of an id or a name, whatever its case." }),
  account: z.string().optional().meta({ description: "Only this account's." }),
  problems: z
    .enum(["true", "false"])
    .default("false")
    .transform((text) => text === "true")
    .meta({
      description:
        "true: only those that are refused, behind, unread in part, have a gap, or hold fewer events than the service counts.",
    }),
  sort: z
    .enum(["lag", "name", "traffic", "last_event"])
    .default("lag")
    .meta({ description: "Worst, first in the alphabet, busiest, or longest silent first." }),
  offset: z.coerce.number().int().min(0).default(0).meta({ description: "How many to leave out first." }),
  limit: z.coerce.number().int().min(1).max(1000).default(100).meta({ description: "How many at the most." }),
});
export type OrganizationsQuery = z.output<typeof organizationsQuerySchema>;

const organizationSchema = z.strictObject({
  account: z.string(),
  id: z.string().meta({ description: "Empty for the key's own organization." }),
  kind: z.enum(["organization", "own", "provider"]),
  name: z.string(),
  state: z.enum(["active", "vanished", "refused"]).meta({
    description:
      "vanished: it is not in the config any more, or the service no longer lists it; `reason` says which. It is not read.",
  }),
  reason: z.string().nullable(),
  nextMs: ms.nullable().meta({ description: "When a refused one is tried again." }),
  lagMs: ms
    .nullable()
    .meta({ description: "How far its live reading is behind; null when it is not read live." }),
  readToMs: ms.nullable().meta({
    description:
      "Up to when the account has read it; null: nothing, or another account has taken over its windows.",
  }),
  unreadMs: ms.meta({ description: "How much of its time line was never read." }),
  gapMs: ms.meta({ description: "How much of it the service forgot before it was read." }),
  lastEventMs: ms.nullable(),
  events: count.nullable(),
  eventsPerHour: z.number().nullable().meta({ description: "null until it is known." }),
  apiCount: count.nullable().meta({
    description:
      "The service's count of its events in closed windows, as the account reads it, where it is known by organization. An event that windows of several services have read counts once.",
  }),
  heldCount: count.nullable().meta({ description: "What was held of those windows right after." }),
  groupSize: count.meta({ description: "How many are read together with it in one query." }),
});
export type OrganizationView = Readonly<z.output<typeof organizationSchema>>;

export const organizationsSchema = z.strictObject({
  total: count,
  matched: count,
  problems: count.meta({
    description:
      "Those that are refused, behind, unread in part, have a gap, or hold fewer events than the service counts.",
  }),
  worstLagMs: ms.nullable(),
  rows: z.array(organizationSchema),
  incomplete,
});
export type OrganizationsView = Readonly<z.output<typeof organizationsSchema>>;
