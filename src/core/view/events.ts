import { z } from "zod";
import { count, incomplete, ms } from "./fields.ts";

export const driftSchema = z.strictObject({
  total: count.meta({ description: "Differences between events and the documentation, by field." }),
  rows: z.array(
    z.strictObject({
      services: z.array(z.string()),
      kind: z.string(),
      path: z.string(),
      detail: z.string(),
      firstMs: ms,
      lastMs: ms,
      events: count,
    }),
  ),
  incomplete,
});
export type DriftView = Readonly<z.output<typeof driftSchema>>;

export const recentSchema = z.strictObject({
  endPage: count,
  more: count.meta({
    description: "Events after the page that was asked for, up to `endPage`, that are not in `events`.",
  }),
  events: z.array(
    z.strictObject({
      page: count,
      index: count,
      account: z.string(),
      organization: z.string().nullable(),
      name: z.string().nullable(),
      service: z.string(),
      eventType: z.string(),
      timestampMs: ms,
      fetchedMs: ms,
    }),
  ),
});
export type RecentView = Readonly<z.output<typeof recentSchema>>;
