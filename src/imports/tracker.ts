import type { Database } from "better-sqlite3";
import type { Clock } from "../core/clock.ts";
import type { JournalEvent } from "../core/event.ts";
import type { JobRow } from "./job.ts";
import { type ImportNews, mayBeImport, newsOf } from "./meaning.ts";
import { openUsers } from "./users.ts";

/**
 * A reader of the journal: events whose correlation id is a job's become that job's timeline, and what
 * became of each user is worked out from all of that user's events, whatever order they came in.
 *
 * An event that carries the correlation of an import nobody here started makes a job of its own, of origin
 * `elsewhere`. That is also where events wait that come before the answer to their start: when the answer
 * names the id, the job takes them over.
 */
export interface Tracker {
  /** In journal order, at least once: an event that is known already changes nothing. All or nothing. */
  apply(events: readonly JournalEvent[]): void;
}

export interface TrackerOptions {
  /** For jobs that were started elsewhere. */
  readonly quietAfterMs: number;
  readonly finishAfterMs: number;
}

export function openTracker(db: Database, clock: Clock, options: TrackerOptions): Tracker {
  const users = openUsers(db);
  const byServiceJob = db.prepare<[string, string], JobRow>(
    "SELECT * FROM jobs WHERE service_job = ? ORDER BY account = ? DESC, id LIMIT 1",
  );
  const insertFound = db.prepare(
    `INSERT INTO jobs (account, organization, kind, source, request, origin, requested_by, requested_ms, answer_by_ms,
       service_job, state, state_ms, quiet_after_ms, finish_after_ms, active_ms, ended_ms)
     VALUES (@account, @organization, @kind, @source, '{}', 'elsewhere', 'elsewhere', @ms, @ms,
       @serviceJob, @state, @nowMs, @quietAfterMs, @finishAfterMs, @nowMs, @endedMs)`,
  );
  const awaited = "SELECT 1 FROM jobs WHERE service_job IS NULL AND state IN ('requested', 'uncertain')";
  const isAnyAwaited = db.prepare<[], unknown>(awaited);
  const isAwaited = db.prepare<[string, string | null], unknown>(
    `${awaited} AND account = ? AND (organization IS NULL OR organization = ?)`,
  );
  const touch = db.prepare(
    `UPDATE jobs SET active_ms = max(active_ms, @nowMs), source = coalesce(source, @source),
       first_event_ms = min(coalesce(first_event_ms, @ms), @ms), last_event_ms = max(coalesce(last_event_ms, @ms), @ms)
     WHERE id = @job`,
  );
  const run = db.prepare("UPDATE jobs SET state = 'running', state_ms = ? WHERE id = ? AND state = 'quiet'");

  /** An old job that is found in history has ended long ago. */
  function found(event: JournalEvent, news: ImportNews): JobRow {
    const nowMs = clock.now();
    const isOld = event.timestampMs < nowMs - options.finishAfterMs;
    insertFound.run({
      account: event.account,
      organization: event.organization,
      kind: news.kind,
      source: news.source ?? null,
      ms: event.timestampMs,
      serviceJob: news.serviceJob,
      state: isOld ? "finished" : "running",
      endedMs: isOld ? nowMs : null,
      nowMs,
      ...options,
    });
    return byServiceJob.get(news.serviceJob, event.account)!;
  }

  function jobFor(event: JournalEvent, news: ImportNews): JobRow | undefined {
    const known = byServiceJob.get(news.serviceJob, event.account);
    if (known !== undefined || news.isImport === false) return known;
    const isWanted = news.isImport ?? isAwaited.get(event.account, event.organization) !== undefined;
    return isWanted ? found(event, news) : undefined;
  }

  function applyOne(event: JournalEvent): void {
    const news = newsOf(event);
    if (news === undefined) return;
    const job = jobFor(event, news);
    if (job === undefined || !users.add(job.id, event, news)) return;
    touch.run({ nowMs: clock.now(), ms: event.timestampMs, job: job.id, source: news.source ?? null });
    run.run(clock.now(), job.id);
  }

  /** Most correlations are of other things than imports: that is seen without parsing the event. */
  function mayMatter(event: JournalEvent): boolean {
    const { correlationId } = event;
    if (correlationId === undefined) return false;
    return mayBeImport(event) || byServiceJob.get(correlationId, event.account) !== undefined;
  }

  return {
    apply: db.transaction((events: readonly JournalEvent[]) => {
      const isAnyone = isAnyAwaited.get() !== undefined;
      for (const event of events) if (isAnyone || mayMatter(event)) applyOne(event);
    }).immediate,
  };
}
