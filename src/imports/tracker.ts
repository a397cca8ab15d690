import type { Clock } from "../core/clock.ts";
import type { JournalEvent } from "../core/event.ts";
import { type ImportNews, mayBeImport, newsOf } from "./import-news.ts";
import type { JobRow } from "./job.ts";
import type { ImportStore } from "./store/open.ts";

/**
 * A reader of the journal: events whose correlation id is a job's become that job's timeline, and all of a user's
 * events together decide what became of the user, whatever order they came in.
 *
 * An event with the correlation of an import that was not started here makes a job of its own, of origin
 * `elsewhere`. Events that come before the answer to their start wait there too: when the answer names the id,
 * the job takes them over.
 */
export interface Tracker {
  /** In journal order, at least once: an event that is known already changes nothing. All or nothing. */
  apply(events: readonly JournalEvent[]): Promise<void>;
}

export interface TrackerOptions {
  /** For jobs that were started elsewhere. */
  readonly quietAfterMs: number;
  readonly finishAfterMs: number;
}

export function createTracker(store: ImportStore, clock: Clock, options: TrackerOptions): Tracker {
  const { jobs, users } = store;

  /** An old job that is found in history has ended long ago. */
  function found(event: JournalEvent, news: ImportNews): JobRow {
    const nowMs = clock.now();
    return jobs.createFound({
      account: event.account,
      organization: event.organization,
      kind: news.kind,
      source: news.source ?? null,
      ms: event.timestampMs,
      serviceJob: news.serviceJob,
      hasEnded: event.timestampMs < nowMs - options.finishAfterMs,
      nowMs,
      ...options,
    });
  }

  function jobFor(event: JournalEvent, news: ImportNews): JobRow | undefined {
    const known = jobs.byServiceJob(news.serviceJob, event);
    if (known !== undefined || news.isImport === false) return known;
    const isWanted = news.isImport ?? jobs.isAwaited(event.account, event.organization);
    return isWanted ? found(event, news) : undefined;
  }

  function applyOne(event: JournalEvent): void {
    const news = newsOf(event);
    if (news === undefined) return;
    const job = jobFor(event, news);
    if (job === undefined || !users.addEvent(job.id, event, news)) return;
    jobs.touch(job.id, clock.now(), event.timestampMs, news.source ?? null);
    if (job.state === "quiet") jobs.move(job.id, "running", clock.now());
  }

  /** Most correlations are of other things than imports: that is seen without parsing the event. */
  function mayMatter(event: JournalEvent, isAnyKnown: boolean): boolean {
    const { correlationId } = event;
    if (correlationId === undefined) return false;
    return mayBeImport(event) || (isAnyKnown && jobs.byServiceJob(correlationId, event) !== undefined);
  }

  return {
    async apply(events) {
      // A job is awaited before its request is sent, so a look outside the change is not too early.
      const isAnyKnown = jobs.isAny();
      if (!jobs.isAwaited() && !events.some((event) => mayMatter(event, isAnyKnown))) return;
      await store.change(() => {
        const isAnyAwaited = jobs.isAwaited();
        for (const event of events) if (isAnyAwaited || mayMatter(event, true)) applyOne(event);
      });
    },
  };
}
