import { z } from "zod";
import { ALARM_KINDS } from "../alarms.ts";
import { count, incomplete, ms } from "./fields.ts";
import { gapTotalsSchema } from "./gaps.ts";

export const alarmSchema = z.strictObject({
  kind: z.enum(ALARM_KINDS).meta({ description: "The kind of alarm; the operations guide explains each." }),
  subject: z.string().meta({ description: "What it is about: an account, a sink, an organization." }),
  message: z.string(),
  remedy: z.string().meta({ description: "What a person can do." }),
  severity: z.enum(["warning", "critical"]),
  sinceMs: ms,
});
export type AlarmView = Readonly<z.output<typeof alarmSchema>>;

const windowCountsSchema = z
  .strictObject({
    unread: count,
    read: count,
    sealed: count,
    expired: count,
    refused: count,
    live: count,
  })
  .meta({ description: "Windows by state; live ones are counted as live alone." });
export type WindowCounts = z.output<typeof windowCountsSchema>;

const accountSchema = z.strictObject({
  name: z.string(),
  state: z.enum(["reading", "paused", "unknown"]).meta({
    description:
      "paused: the service refuses the account for now, or the state file cannot be written. unknown: no process is running.",
  }),
  pausedUntilMs: ms.nullable(),
  clockOffsetMs: ms
    .nullable()
    .meta({ description: "How far the service's clock is ahead of ours, in milliseconds." }),
  polledMs: ms.nullable().meta({
    description:
      "When a poll for new events last succeeded, or now where there is nothing to poll; null: none has succeeded since the process started.",
  }),
  overdueMs: ms.nullable().meta({
    description:
      "How long the most overdue poll for new events has been due, in milliseconds; null: no process is running.",
  }),
  pace: z
    .strictObject({
      concurrency: count.meta({ description: "Requests that may be under way at once just now." }),
      running: count,
      requestsPerSecondMax: z.number().nullable().meta({ description: "null: no limit has been met." }),
      requests: count,
      refused: count.meta({ description: "Requests the service refused as too many." }),
      pausedUntilMs: ms,
    })
    .nullable(),
  organizations: z.strictObject({ active: count, vanished: count, refused: count }),
  windows: windowCountsSchema,
  liveLagMs: ms
    .nullable()
    .meta({ description: "How far the live reading is behind the service's clock, worst stream." }),
  unreadFromMs: ms.nullable().meta({
    description: "Where the oldest stretch begins that was never read and is still asked for.",
  }),
  lossInMs: ms
    .nullable()
    .meta({ description: "Until the service forgets that stretch; null when there is none." }),
});
export type AccountView = Readonly<z.output<typeof accountSchema>>;

export const statusSchema = z.strictObject({
  version: z.string(),
  shard: z
    .string()
    .nullable()
    .meta({ description: "`i/n`, counted from 0: the share of the organizations in this state; null: all." }),
  nowMs: ms,
  startedMs: ms.nullable().meta({
    description:
      "null: no process is running, only its file was read. A command in a cluster gives the start of the machine that has run longest.",
  }),
  health: z.enum(["good", "degraded", "bad"]).meta({
    description:
      "bad: a critical alarm, or a sink or account that is refused. degraded: a warning, a sink that is behind or refused events, or no running process.",
  }),
  headline: z.string().meta({ description: "The same in words, the worst first." }),
  alarms: z.array(alarmSchema),
  accounts: z.array(accountSchema),
  journal: z.strictObject({
    usedBytes: count,
    budgetBytes: count.nullable(),
    heldUpBy: z.string().nullable().meta({ description: "The reader that is furthest behind, if any is." }),
    backlogBytes: count,
    backlogEvents: count,
    endPage: count,
  }),
  totals: z.strictObject({
    events: count.meta({ description: "Events that the journal has and knows of." }),
    apiCount: count.meta({
      description:
        "What the service said in its last answers about closed windows. An event that several windows have read, for other services or accounts, counts once; where that cannot be counted, those windows count that hold the most.",
    }),
    heldCount: count.meta({ description: "What was held of those windows right after." }),
    differing: count.meta({ description: "Windows in which the two differ." }),
    doubted: count.default(0).meta({
      description: "Closed windows that may lack events: the service listed some events twice there.",
    }),
    late: count.meta({ description: "Events found after their time had been read." }),
    organizations: count,
    deadLetters: count,
    windows: windowCountsSchema,
    gaps: gapTotalsSchema,
    importJobs: z.record(z.string(), count).meta({ description: "Import jobs by state." }),
  }),
  lateness: z
    .array(z.strictObject({ atMostMs: ms, events: count }))
    .meta({ description: "Late events by how long after their own time they arrived." }),
  incomplete,
});
export type StatusView = Readonly<z.output<typeof statusSchema>>;

export const ratesSchema = z.strictObject({
  bucketMs: count,
  fromMs: ms.meta({ description: "Where the first bucket begins." }),
  received: z.array(z.number()).meta({ description: "New events a second, a bucket each." }),
  live: z
    .array(z.number())
    .meta({ description: "The part of them that was read as it happened; the rest is history." }),
  sent: z.record(z.string(), z.array(z.number())).meta({ description: "Delivered events a second by sink." }),
});
export type RatesView = Readonly<z.output<typeof ratesSchema>>;
