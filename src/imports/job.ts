import { z } from "zod";

const STORED_STATES = ["requested", "running", "quiet", "finished", "failed", "uncertain"] as const;
export type StoredState = (typeof STORED_STATES)[number];
/** A row that a person ended is stored as finished. */
export const JOB_STATES = [...STORED_STATES, "ended"] as const;
export type JobState = (typeof JOB_STATES)[number];

export const OUTCOMES = ["created", "updated", "reactivated", "failed", "skipped", "pending"] as const;
export type UserOutcome = (typeof OUTCOMES)[number];

export type Operation = "users.create" | "users.update";

/** The request of an import to the service. */
export const requestSchema = z.strictObject({
  operations: z
    .array(z.enum(["users.create", "users.update"]))
    .min(1)
    .default(["users.create", "users.update"])
    .meta({ description: "What the import may do: users.create, users.update, or both." }),
  allowUserReactivation: z
    .boolean()
    .default(false)
    .meta({ description: "Lets suspended users be reactivated when they are updated." }),
  queryString: z
    .string()
    .optional()
    .meta({ description: "A filter that is passed to the source; its meaning depends on the connector." }),
});
export type JobRequest = z.output<typeof requestSchema>;

/** Which of a Workday integration's workers are posted, and how. */
export const choiceSchema = z.strictObject({
  only: z.array(z.string().min(1)).default([]).meta({
    description:
      "Only workers that match every one of these: field=value, or text that any field contains. Workday only.",
  }),
  exclude: z
    .array(z.string().min(1))
    .default([])
    .meta({ description: "Workers that are left out, by username or e-mail address. Workday only." }),
  onlyNew: z.boolean().default(false).meta({
    description: "Only workers who are not users yet. Needs a service that lists its users. Workday only.",
  }),
  state: z.enum(["STAGED", "ACTIVATED"]).optional().meta({
    description:
      "The state of the users that are created; the service's own choice when absent. Workday only.",
  }),
  postNameless: z.boolean().default(false).meta({
    description: "Posts workers without a first or last name instead of skipping them. Workday only.",
  }),
});
export type Choice = z.output<typeof choiceSchema>;

const time = z.iso.datetime();

const countsSchema = z
  .strictObject({
    created: z.int(),
    updated: z.int(),
    reactivated: z.int(),
    failed: z.int(),
    skipped: z.int(),
    pending: z.int(),
    events: z.int().meta({ description: "Events that belong to the job." }),
  })
  .meta({ description: "Users by what became of them." });
export type Counts = z.output<typeof countsSchema>;

/** One request to the service: a Workday import is posted in several. */
const partSchema = z.strictObject({
  part: z.int(),
  state: z.enum(["planned", "sent", "taken", "refused", "uncertain"]),
  serviceJob: z.string().nullable(),
  users: z.int().meta({ description: "Users that it carries." }),
  reason: z.string().nullable(),
});
export type JobPart = z.output<typeof partSchema>;

/** A job as people and programs see it. */
export const jobSchema = z.strictObject({
  id: z.int().meta({ description: "The job's number here." }),
  import: z.string().nullable().meta({ description: "The import of the config that it belongs to." }),
  account: z.string(),
  organization: z.string().nullable(),
  kind: z.enum(["application", "workday"]),
  source: z.string().nullable().meta({ description: "The application or Workday integration." }),
  request: z.record(z.string(), z.unknown()),
  origin: z.enum(["command", "api", "schedule", "elsewhere"]),
  requestedBy: z.string(),
  requestedAt: time,
  serviceJob: z.string().nullable().meta({ description: "The service's job id, which its events carry." }),
  state: z.enum(JOB_STATES),
  stateSince: time,
  reason: z.string().nullable(),
  firstEventAt: time.nullable(),
  lastEventAt: time.nullable(),
  endedAt: time.nullable(),
  counts: countsSchema,
  offered: z
    .int()
    .nullable()
    .meta({ description: "Users that the source offered; null while it is not known." }),
  offerNote: z.string().nullable().meta({
    description:
      "Why the offer is not known, such as how far its list was read, or why it may contain users that the import leaves out.",
  }),
  unaccounted: z.int().nullable().meta({
    description:
      "Offered users without an outcome after the end; null before it, or where the offer is not exactly known.",
  }),
  staged: z.int().meta({
    description:
      "Users of the job that can be activated: they are STAGED, or were created and no event says their state.",
  }),
  summary: z.string().meta({ description: "The account of the job in words." }),
  parts: z.array(partSchema),
});
export type Job = z.output<typeof jobSchema>;

export const jobUserSchema = z.strictObject({
  userId: z.string().nullable(),
  username: z.string().nullable(),
  email: z.string().nullable(),
  outcome: z.enum(OUTCOMES),
  reason: z.string().nullable(),
  event: z.string().nullable().meta({ description: "The id of the event that says so." }),
  timestamp: z.string().nullable(),
  offered: z.boolean().meta({ description: "The source offered the user; others were found in events." }),
  state: z.string().nullable().meta({ description: "STAGED or ACTIVATED, where events said so." }),
});
export type JobUser = z.output<typeof jobUserSchema>;

export const jobEventSchema = z.strictObject({
  identity: z.string(),
  eventId: z.string().nullable(),
  eventType: z.string(),
  timestamp: z.string(),
  username: z.string().nullable(),
  outcome: z.enum(OUTCOMES).nullable(),
  reason: z.string().nullable(),
});
export type JobEvent = z.output<typeof jobEventSchema>;

/** The job's row. */
export interface JobRow {
  readonly id: number;
  readonly import: string | null;
  readonly account: string;
  readonly organization: string | null;
  readonly kind: "application" | "workday";
  readonly source: string | null;
  readonly request: string;
  readonly origin: Job["origin"];
  readonly requested_by: string;
  readonly requested_ms: number;
  readonly answer_by_ms: number;
  readonly service_job: string | null;
  readonly state: StoredState;
  readonly state_ms: number;
  readonly reason: string | null;
  readonly quiet_after_ms: number;
  readonly finish_after_ms: number;
  readonly active_ms: number;
  readonly first_event_ms: number | null;
  readonly last_event_ms: number | null;
  readonly ended_ms: number | null;
  /** The person that ended it. */
  readonly ended_by: string | null;
  readonly offered_ms: number | null;
  readonly offer_note: string | null;
  readonly sender: string | null;
}

/** Facts about a job beside its row. */
export interface JobFacts {
  readonly counts: Counts;
  readonly offered: number;
  /** Offered users without an outcome. */
  readonly waiting: number;
  readonly staged: number;
  /** Events that were too large to be read. */
  readonly passedOver: number;
  readonly parts: readonly JobPart[];
}

/** A job that goes on after its end keeps the time of it while its import has another open job. */
export function hasEnded({ ended_ms, state }: Pick<JobRow, "ended_ms" | "state">): boolean {
  return ended_ms !== null && state !== "running" && state !== "quiet";
}

export function jobOf(row: JobRow, facts: JobFacts): Job {
  const offered = row.offered_ms === null ? null : facts.offered;
  const isOver = hasEnded(row);
  return {
    id: row.id,
    import: row.import,
    account: row.account,
    organization: row.organization,
    kind: row.kind,
    source: row.source,
    request: JSON.parse(row.request) as Record<string, unknown>,
    origin: row.origin,
    requestedBy: row.requested_by,
    requestedAt: iso(row.requested_ms),
    serviceJob: row.service_job,
    state: row.ended_by === null ? row.state : "ended",
    stateSince: iso(row.state_ms),
    reason: reasonOf(row, facts),
    firstEventAt: isoOrNull(row.first_event_ms),
    lastEventAt: isoOrNull(row.last_event_ms),
    endedAt: isOver ? isoOrNull(row.ended_ms) : null,
    counts: facts.counts,
    offered,
    offerNote: row.offer_note,
    unaccounted: isOver && offered !== null && row.offer_note === null ? facts.waiting : null,
    staged: facts.staged,
    summary: summaryOf(row, offered, facts),
    parts: [...facts.parts],
  };
}

/** The number of users without an outcome in the reason of a job that silence ended. Events may come later. */
const COUNTED = /; \d+ (offered|listed) users have no outcome/;

function reasonOf(row: JobRow, { waiting, passedOver }: JobFacts): string | null {
  const isComplete = row.offered_ms !== null && waiting === 0;
  const isCounted = row.reason !== null && COUNTED.test(row.reason);
  const reason = isCounted
    ? isComplete
      ? null
      : row.reason.replace(COUNTED, `; ${waiting} $1 users have no outcome`)
    : row.reason;
  if (passedOver === 0 || isComplete) return reason;
  const words = `Of its events, ${passedOver} ${passedOver === 1 ? "was" : "were"} passed over because of the size (more than 100,000 values or 4 MB): the users that they tell of may have no outcome here.`;
  return reason === null ? words : `${reason.replace(/\.$/, "")}. ${words}`;
}

/** "40 offered: 22 created, 13 updated, 5 failed, 0 unaccounted". Outcomes that did not occur are left out. */
function summaryOf(row: JobRow, offered: number | null, { counts, waiting }: JobFacts): string {
  const words = (["created", "updated", "reactivated", "failed", "skipped"] as const)
    .filter((outcome) => counts[outcome] > 0)
    .map((outcome) => `${counts[outcome]} ${outcome}`);
  if (offered === null) {
    const known = words.length === 0 ? "No outcome is known" : words.join(", ");
    return `${known}; the number of users offered is not known`;
  }
  const isOver = hasEnded(row);
  if (row.offer_note !== null) {
    const unsure = waiting === 0 ? "without an outcome" : "without an outcome, perhaps left out";
    words.push(`${waiting} ${isOver ? unsure : "waiting"}`);
    return `at most ${offered} offered: ${words.join(", ")}`;
  }
  words.push(isOver ? `${waiting} unaccounted` : `${waiting} waiting`);
  return `${offered} offered: ${words.join(", ")}`;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms);
}
