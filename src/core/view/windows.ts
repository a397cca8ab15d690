import { z } from "zod";
import { count, incomplete, ms } from "./fields.ts";

export const DAY_STATES = ["expired", "refused", "unread", "live", "read", "sealed"] as const;

const dayShares = {
  day: z.iso.date().meta({ description: "In UTC." }),
  expired: z.number(),
  refused: z.number(),
  unread: z.number(),
  live: z.number(),
  read: z.number(),
  sealed: z.number(),
  apiCount: count.nullable().meta({
    description:
      "What the service said of the windows of this day. null: there is none, or a window covers several days and cannot be counted by day.",
  }),
  heldCount: count.nullable().meta({ description: "What was held of those windows right after." }),
  late: count.nullable().meta({
    description:
      "Events found after their time had been read. null: some were found in organizations that are read together, and whose they are was not counted.",
  }),
  askedMs: ms.nullable().meta({ description: "When the oldest of those answers was given." }),
};

export const calendarSchema = z.strictObject({
  madeMs: ms,
  days: z.array(z.strictObject(dayShares)).meta({
    description:
      "The states are in organizations: 2.5 unread are two and a half organizations' day. Where services were added, an organization counts with each of its queries.",
  }),
  incomplete,
});
export type CalendarView = Readonly<z.output<typeof calendarSchema>>;
export type CalendarDay = CalendarView["days"][number];

export const windowsQuerySchema = z.strictObject({
  account: z.string().meta({ description: "The account." }),
  organization: z
    .string()
    .default("")
    .meta({ description: "The organization's or provider's id; empty for the key's own organization." }),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(5000)
    .default(500)
    .meta({ description: "How many windows at the most, newest first." }),
});
export type WindowsQuery = z.output<typeof windowsQuerySchema>;

const windowSchema = z.strictObject({
  id: count,
  fromMs: ms,
  toMs: ms,
  state: z.enum(DAY_STATES),
  apiCount: count.nullable().meta({
    description: "The service's count of this organization's events; null until it is known.",
  }),
  heldCount: count.nullable().meta({ description: "What was held of them right after." }),
  late: count.nullable().meta({
    description:
      "Events found after the window had been read; null: some were found in organizations that are read together, and whose they are was not counted.",
  }),
  repeated: count.meta({ description: "Of all organizations that are read together." }),
  changed: count.meta({ description: "Of all organizations that are read together." }),
  askedMs: ms.nullable(),
  nextMs: ms.nullable(),
  reason: z.string().nullable(),
  services: z.array(z.string()),
  groupSize: count.meta({ description: "How many organizations are read together by this query." }),
  reader: z.string().nullable(),
});
export type WindowView = Readonly<z.output<typeof windowSchema>>;

export const windowsSchema = z.strictObject({
  account: z.string(),
  organization: z.string(),
  name: z.string(),
  days: z.array(z.strictObject(dayShares)).meta({
    description:
      "The states are shares of the day. Where several queries read the same time, the worst of their states counts.",
  }),
  total: count,
  windows: z.array(windowSchema),
});
export type WindowsView = Readonly<z.output<typeof windowsSchema>>;
