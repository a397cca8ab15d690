import { z } from "zod";

/**
 * What can be seen of the program: the server, the page and `tidemark status` read this and nothing else.
 * Everything here is JSON; times are milliseconds since the epoch and end in Ms.
 */
export interface View {
  status(): Promise<StatusView>;
  /** Events a second, as far back as the running process remembers. */
  rates(): RatesView;
  organizations(query: OrganizationsQuery): Promise<OrganizationsView>;
  /** Every account's days, newest last. */
  calendar(): Promise<CalendarView>;
  /** One organization's days and windows; undefined when nobody has heard of it. */
  windows(query: WindowsQuery): Promise<WindowsView | undefined>;
  /** What is missing, oldest first, with the sums of all that the query finds. */
  gaps(query: GapsQuery): Promise<GapsView>;
  sinks(): Promise<readonly SinkView[]>;
  deadLetters(query: DeadLettersQuery): Promise<DeadLettersView>;
  /** One with its event's exact bytes, as text. */
  deadLetter(id: number): Promise<DeadLetterBodyView | undefined>;
  drift(limit: number): Promise<DriftView>;
  /** The newest events of the journal, without their contents, oldest first; those after a page number. */
  recent(afterPage: number, limit: number): Promise<RecentView>;
}

/** What only the running process knows; the composition root gives it. */
export interface LiveView {
  readonly startedMs: number;
  alarms(): readonly AlarmView[];
  accounts(): readonly LiveAccount[];
  deliveries(): readonly LiveDelivery[];
  rates(): RatesView;
}

export interface LiveAccount {
  readonly name: string;
  readonly pausedUntilMs: number | null;
  readonly clockOffsetMs: number;
  readonly pace: {
    readonly concurrency: number;
    readonly running: number;
    readonly rate: number;
    readonly requests: number;
    readonly refused: number;
    readonly pausedUntilMs: number;
  };
}

export interface LiveDelivery {
  readonly name: string;
  readonly state: SinkView["state"];
  readonly sinceMs: number;
  readonly reason: string | null;
  readonly remedy: string | null;
  readonly sentEvents: number;
  readonly lastWriteMs: number | null;
}

/** The changes that can be asked for from outside; the composition root supplies them. */
export interface Actions {
  /** Back into the journal, each for its sink alone (R21). Returns how many. */
  replayDeadLetters(choice: DeadLetterChoice): Promise<number>;
  /** Forgets them for good. Returns how many. */
  dropDeadLetters(choice: DeadLetterChoice): Promise<number>;
  /** Tries a paused or waiting sink at once; false when there is none of that name. */
  resumeSink(name: string): Promise<boolean>;
  /** Looks for organizations and events at once; false when there is no such account. */
  pollNow(account: string | undefined): Promise<boolean>;
}

/** By their numbers, or all of one sink. */
export type DeadLetterChoice = { readonly ids: readonly number[] } | { readonly sink: string };

const ms = z.number();
const count = z.int().min(0);

export const alarmSchema = z.strictObject({
  kind: z.string().meta({ description: "The kind of alarm, as the operations guide lists it." }),
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

export const accountSchema = z.strictObject({
  name: z.string(),
  state: z.enum(["reading", "paused", "unknown"]).meta({
    description: "paused: the service refuses the account for now. unknown: no process is running.",
  }),
  pausedUntilMs: ms.nullable(),
  clockOffsetMs: ms
    .nullable()
    .meta({ description: "How far the service's clock is ahead of ours, in milliseconds." }),
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
  unreadFromMs: ms.nullable().meta({ description: "Where the oldest stretch begins that was never read." }),
  lossInMs: ms
    .nullable()
    .meta({ description: "Until the service forgets that stretch; null when there is none." }),
});
export type AccountView = Readonly<z.output<typeof accountSchema>>;

const gapTotalsSchema = z.strictObject({
  gaps: count.meta({ description: "Stretches of one organization whose events are missing or may be." }),
  organizations: count,
  durationMs: ms.meta({ description: "Their length, summed over organizations." }),
  events: count.meta({ description: "Missing events of those gaps whose number is known." }),
  open: count.meta({ description: "Stretches that are refused now and tried again; not counted above." }),
  openMs: ms,
});

export const statusSchema = z.strictObject({
  version: z.string(),
  nowMs: ms,
  startedMs: ms.nullable().meta({ description: "null: no process is running, only its file was read." }),
  health: z.enum(["good", "degraded", "bad"]).meta({
    description: "bad: a critical alarm stands. degraded: a warning stands, or a sink does not take events.",
  }),
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
    apiCount: count.meta({ description: "What the service said in its last answers about closed windows." }),
    heldCount: count.meta({ description: "What was held of those windows right after." }),
    differing: count.meta({ description: "Windows in which the two differ." }),
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
});
export type StatusView = Readonly<z.output<typeof statusSchema>>;

export const ratesSchema = z.strictObject({
  bucketMs: count,
  fromMs: ms.meta({ description: "Where the first bucket begins." }),
  received: z.array(z.number()).meta({ description: "New events a second, a bucket each." }),
  sent: z.record(z.string(), z.array(z.number())).meta({ description: "Delivered events a second by sink." }),
});
export type RatesView = Readonly<z.output<typeof ratesSchema>>;

export const organizationsQuerySchema = z.strictObject({
  search: z
    .string()
    .max(200)
    .default("")
    .meta({ description: "Part of an id or a name, whatever its case." }),
  account: z.string().optional().meta({ description: "Only this account's." }),
  sort: z
    .enum(["lag", "name", "traffic", "last_event"])
    .default("lag")
    .meta({ description: "Worst, first in the alphabet, busiest, or longest silent first." }),
  offset: z.coerce.number().int().min(0).default(0).meta({ description: "How many to leave out first." }),
  limit: z.coerce.number().int().min(1).max(1000).default(100).meta({ description: "How many at the most." }),
});
export type OrganizationsQuery = z.output<typeof organizationsQuerySchema>;

export const organizationSchema = z.strictObject({
  account: z.string(),
  id: z.string().meta({ description: "Empty for the key's own organization." }),
  kind: z.enum(["organization", "own", "provider"]),
  name: z.string(),
  state: z.enum(["active", "vanished", "refused"]),
  reason: z.string().nullable(),
  nextMs: ms.nullable().meta({ description: "When a refused one is tried again." }),
  lagMs: ms
    .nullable()
    .meta({ description: "How far its live reading is behind; null when it is not read live." }),
  unreadMs: ms.meta({ description: "How much of its time line was never read." }),
  gapMs: ms.meta({ description: "How much of it the service forgot before it was read." }),
  lastEventMs: ms.nullable(),
  events: count.nullable(),
  eventsPerHour: z.number().nullable(),
  groupSize: count.meta({ description: "How many are read together with it in one query." }),
});
export type OrganizationView = Readonly<z.output<typeof organizationSchema>>;

export const organizationsSchema = z.strictObject({
  total: count,
  matched: count,
  worstLagMs: ms.nullable(),
  rows: z.array(organizationSchema),
});
export type OrganizationsView = Readonly<z.output<typeof organizationsSchema>>;

export const DAY_STATES = ["expired", "refused", "unread", "live", "read", "sealed"] as const;

const dayShares = {
  day: z.iso.date().meta({ description: "In UTC." }),
  expired: z.number(),
  refused: z.number(),
  unread: z.number(),
  live: z.number(),
  read: z.number(),
  sealed: z.number(),
  apiCount: count
    .nullable()
    .meta({ description: "What the service said of the windows that lie in this day alone." }),
  heldCount: count.nullable().meta({ description: "What was held of those windows right after." }),
  late: count,
  askedMs: ms.nullable().meta({ description: "When the oldest of those answers was given." }),
};

export const calendarSchema = z.strictObject({
  madeMs: ms,
  days: z.array(z.strictObject(dayShares)).meta({
    description: "The states are in organizations: 2.5 unread are two and a half organizations' day.",
  }),
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

export const windowSchema = z.strictObject({
  id: count,
  fromMs: ms,
  toMs: ms,
  state: z.enum(DAY_STATES),
  apiCount: count.nullable(),
  heldCount: count.nullable(),
  late: count,
  repeated: count,
  changed: count,
  askedMs: ms.nullable(),
  nextMs: ms.nullable(),
  reason: z.string().nullable(),
  services: z.array(z.string()),
  groupSize: count.meta({ description: "Above 1 the counts are those of the whole group." }),
  reader: z.string().nullable(),
});
export type WindowView = Readonly<z.output<typeof windowSchema>>;

export const windowsSchema = z.strictObject({
  account: z.string(),
  organization: z.string(),
  name: z.string(),
  days: z.array(z.strictObject(dayShares)).meta({ description: "The states are shares of the day." }),
  total: count,
  windows: z.array(windowSchema),
});
export type WindowsView = Readonly<z.output<typeof windowsSchema>>;

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

export const gapSchema = z.strictObject({
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
      "expired: the service forgot it before it was read. refused: the service refused it. unchecked: read, but not compared again before the service forgot it. unreadable: one event that could not be read.",
  }),
  detail: z.string(),
  events: count.nullable().meta({ description: "Missing events, where their number is known." }),
  foundMs: ms.nullable(),
  open: z
    .boolean()
    .meta({ description: "Refused now; the service may still hold it, and it is tried again." }),
  nextMs: ms.nullable().meta({ description: "When an open gap is tried again." }),
});
export type GapView = Readonly<z.output<typeof gapSchema>>;
export const gapsSchema = z.strictObject({ totals: gapTotalsSchema, gaps: z.array(gapSchema) });
export type GapsView = Readonly<z.output<typeof gapsSchema>>;

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

export const deadLettersQuerySchema = z.strictObject({
  sink: z.string().optional().meta({ description: "Only this sink's." }),
  before: z.coerce
    .number()
    .int()
    .optional()
    .meta({ description: "Only those with smaller numbers, to page on." }),
  limit: z.coerce.number().int().min(1).max(1000).default(50).meta({ description: "How many at the most." }),
});
export type DeadLettersQuery = z.output<typeof deadLettersQuerySchema>;

export const deadLetterSchema = z.strictObject({
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
});
export type DeadLetterView = Readonly<z.output<typeof deadLetterSchema>>;
export const deadLetterBodySchema = deadLetterSchema.extend({ body: z.string() });
export type DeadLetterBodyView = Readonly<z.output<typeof deadLetterBodySchema>>;
export const deadLettersSchema = z.strictObject({ total: count, letters: z.array(deadLetterSchema) });
export type DeadLettersView = Readonly<z.output<typeof deadLettersSchema>>;

export const driftSchema = z.strictObject({
  total: count.meta({ description: "Ways in which events differ from what is documented." }),
  rows: z.array(
    z.strictObject({
      service: z.string(),
      kind: z.string(),
      path: z.string(),
      detail: z.string(),
      firstMs: ms,
      lastMs: ms,
      events: count,
    }),
  ),
});
export type DriftView = Readonly<z.output<typeof driftSchema>>;

export const recentSchema = z.strictObject({
  endPage: count,
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
