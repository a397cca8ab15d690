import { z } from "zod";

export const JOB_STATES = ["requested", "running", "quiet", "finished", "failed", "uncertain"] as const;
export type JobState = (typeof JOB_STATES)[number];

export const OUTCOMES = ["created", "updated", "reactivated", "failed", "pending"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type Operation = "users.create" | "users.update";

/** What an import asks of the service. */
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
    .meta({ description: "A filter that is passed to the source; what it means is the connector's affair." }),
});
export type JobRequest = z.output<typeof requestSchema>;

const time = z.iso.datetime();

export const countsSchema = z
  .strictObject({
    created: z.int(),
    updated: z.int(),
    reactivated: z.int(),
    failed: z.int(),
    pending: z.int(),
    events: z.int().meta({ description: "Events that belong to the job." }),
  })
  .meta({ description: "Users by what became of them." });
export type Counts = z.output<typeof countsSchema>;

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
});
export type Job = z.output<typeof jobSchema>;

export const jobUserSchema = z.strictObject({
  userId: z.string().nullable(),
  username: z.string().nullable(),
  email: z.string().nullable(),
  outcome: z.enum(OUTCOMES),
  reason: z.string().nullable(),
  event: z.string().nullable().meta({ description: "The id of the event that told it." }),
  timestamp: z.string().nullable(),
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
  readonly state: JobState;
  readonly state_ms: number;
  readonly reason: string | null;
  readonly quiet_after_ms: number;
  readonly finish_after_ms: number;
  readonly active_ms: number;
  readonly first_event_ms: number | null;
  readonly last_event_ms: number | null;
  readonly ended_ms: number | null;
  readonly results_digest: string | null;
  readonly next_poll_ms: number | null;
}

export function jobOf(row: JobRow, counts: Counts): Job {
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
    state: row.state,
    stateSince: iso(row.state_ms),
    reason: row.reason,
    firstEventAt: isoOrNull(row.first_event_ms),
    lastEventAt: isoOrNull(row.last_event_ms),
    endedAt: isoOrNull(row.ended_ms),
    counts,
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms);
}
