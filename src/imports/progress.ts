import type { Log } from "../core/log.ts";
import type { ReadUntil } from "../core/roster.ts";
import { formatDuration } from "../core/time.ts";
import { hasEnded, type JobPart, type JobRow } from "./job.ts";
import type { ImportStore } from "./store/open.ts";
import type { PartRow } from "./store/parts.ts";
import { takePart } from "./take-part.ts";

/**
 * The states of a job and its moves.
 *
 * - *requested*: the row is on disk; no part of it was taken yet (send-parts.ts describes the parts).
 * - *running*: the service took at least one part.
 * - *quiet*: nothing new was seen for `quietAfter`, while events were read. The next event makes it *running*.
 * - *finished*: every offered user has an outcome. Where that does not happen, or the offer is not known, silence of
 *   `finishAfter` ends the job, and its reason says so. Later events are counted in; one that happened after the end
 *   opens the job again. An application's job with an empty list ends after silence of `quietAfter`.
 * - *ended*: a person ended it (resolve.ts); stored as finished. An event that happened after the end opens it again.
 * - *uncertain*: it is not known whether the service took any part. The schedule goes on after a deadline.
 * - *failed*: the service took nothing.
 *
 * An uncertain part is resolved if exactly one job of unknown origin fits: the same source, begun around the time
 * when the part was sent, and with none but the part's users where the offer is known. That is asked when the events
 * of the next two minutes have been read, because another job may show its events first. A job that began before the
 * part was sent is not its job, unless the clocks differ; then only a person knows. A person may resolve it too. A
 * part of whose users anything is seen in this job was taken: the service gave another part the same id.
 *
 * Jobs that were started elsewhere have no parts and begin as running.
 */
export interface ProgressContext {
  readonly store: ImportStore;
  readonly log: Log;
  /** Silence counts only so far. Absent: nothing is concluded from it. */
  readonly readUntilMs?: ReadUntil;
}

export interface WatchContext extends ProgressContext {
  readonly readUntilMs: ReadUntil;
}

/** Clocks may differ by this much, and a job's first event may come this much later than its request. */
const EARLY_MS = 120_000;
const LATE_MS = 3_600_000;
const RESOLVE_WITHIN_MS = 86_400_000;

/** Makes every move that is due at this time, in one change. */
export async function moveJobs(context: WatchContext, nowMs: number): Promise<void> {
  const { jobs, change } = context.store;
  const isIdle = [
    jobs.rows({ followed: true }),
    jobs.rows({ state: "uncertain" }),
    jobs.endedEarly(nowMs),
  ].every((rows) => rows.length === 0);
  if (!isIdle) await change(() => moveNow(context, nowMs));
}

function moveNow(context: WatchContext, nowMs: number): void {
  const { jobs, parts } = context.store;
  for (const job of [...jobs.rows({ followed: true }), ...jobs.rows({ state: "uncertain" })]) {
    if (nowMs > job.requested_ms + RESOLVE_WITHIN_MS) continue;
    for (const part of parts.of(job.id))
      if (part.state === "uncertain") resolvePart(context, job, part, nowMs);
  }
  for (const job of jobs.rows({ followed: true })) settleJob(context, job.id, nowMs);
  for (const job of jobs.endedEarly(nowMs)) {
    jobs.move(job.id, "running", nowMs, { endedMs: null, reason: null });
    context.log.info({ job: job.id, import: job.import }, "Import goes on after its end.");
  }
}

/** Moves one job by what is known of its parts and users, inside the caller's change. */
export function settleJob(context: ProgressContext, id: number, nowMs: number): void {
  const { store } = context;
  const job = store.jobs.row(id);
  if (job === undefined || hasEnded(job)) return;
  if (job.origin === "elsewhere") {
    watchSilence(context, job, nowMs);
    return;
  }
  const parts = store.parts.of(id);
  const has = (...states: readonly JobPart["state"][]) => parts.some(({ state }) => states.includes(state));
  if (parts.length === 0 && job.offered_ms === null) return;
  if (has("planned", "sent")) {
    if (has("taken") && job.state === "requested") store.jobs.move(id, "running", nowMs);
    return;
  }
  if (has("taken")) {
    watchUsers(context, job, nowMs);
    return;
  }
  if (has("uncertain")) {
    waitUncertain(context, job, parts, nowMs);
    return;
  }
  if (parts.length === 0) {
    end(context, job, nowMs, "nothing was posted: every offered user was skipped");
    return;
  }
  const reason = parts.findLast(({ state }) => state === "refused")?.reason ?? null;
  store.jobs.move(id, "failed", nowMs, { reason, endedMs: nowMs });
}

function watchUsers(context: ProgressContext, job: JobRow, nowMs: number): void {
  const isKnown = job.offered_ms !== null;
  if (!isKnown || context.store.users.isWaiting(job.id)) watchSilence(context, job, nowMs);
  else if (!isEmptyAndFresh(context, job, nowMs)) end(context, job, nowMs, null);
}

/** The service reads an application's source itself, so it may find users although the list was empty. */
function isEmptyAndFresh(context: ProgressContext, job: JobRow, nowMs: number): boolean {
  const { store, readUntilMs } = context;
  if (job.kind !== "application" || store.users.totals(job.id).offered > 0) return false;
  if (readUntilMs === undefined) return true;
  const readMs = readTo({ readUntilMs }, job, job.active_ms, nowMs);
  noteUnread(context, job, readMs === undefined, nowMs);
  return readMs === undefined || readMs - job.active_ms < job.quiet_after_ms;
}

function watchSilence(context: ProgressContext, job: JobRow, nowMs: number): void {
  const { store, readUntilMs } = context;
  if (job.state === "requested") store.jobs.move(job.id, "running", nowMs);
  if (readUntilMs === undefined) return;
  const readMs = readTo({ readUntilMs }, job, job.active_ms, nowMs);
  noteUnread(context, job, readMs === undefined, nowMs);
  const idleMs = (readMs ?? job.active_ms) - job.active_ms;
  const dueMs = lastDueMs(context, job);
  if (idleMs >= job.finish_after_ms && readMs! - dueMs >= job.finish_after_ms) {
    end(context, job, nowMs, silenceReason(context, job));
    return;
  }
  if (job.state === "running" && idleMs >= job.quiet_after_ms) store.jobs.move(job.id, "quiet", nowMs);
}

/** When the last part whose answer was lost is judged, or sent again (recover.ts). Silence ends no job before it. */
function lastDueMs({ store }: ProgressContext, job: JobRow): number {
  const lost = store.parts.of(job.id).filter(({ state }) => state === "uncertain");
  return Math.max(0, ...lost.map(({ at_ms }) => at_ms + lostAfterMs(job)));
}

/** How long the events after a lost answer are read before its part is sent again. */
export function lostAfterMs({ quiet_after_ms }: JobRow): number {
  return Math.max(quiet_after_ms, EARLY_MS);
}

/** Undefined: the events are not read now. */
export function readTo(
  { readUntilMs }: Pick<WatchContext, "readUntilMs">,
  { account, organization }: JobRow,
  sinceMs: number,
  nowMs: number,
): number | undefined {
  const readMs = readUntilMs(account, organization, sinceMs);
  return readMs === undefined ? undefined : Math.min(nowMs, readMs);
}

const UNREAD =
  "The events of its organization cannot be read now, so it is not known whether it still runs. It goes on when they are read again; `tidemark imports resolve ID --ended` ends it by hand.";

/** The job's view says why it does not end. */
function noteUnread({ store }: ProgressContext, job: JobRow, isUnread: boolean, nowMs: number): void {
  if (isUnread && job.reason === null) store.jobs.move(job.id, job.state, nowMs, { reason: UNREAD });
  if (!isUnread && job.reason === UNREAD) store.jobs.move(job.id, job.state, nowMs, { reason: null });
}

function silenceReason({ store }: ProgressContext, job: JobRow): string {
  const silence = `Taken for finished because nothing was seen of it for ${formatDuration(job.finish_after_ms)}`;
  if (job.offered_ms === null) {
    const cause = job.offer_note ?? "The offer was not stored.";
    return `${silence}. Only silence can end it, because the number of users offered is not known. ${cause}`;
  }
  if (job.offer_note !== null)
    return `${silence}; ${store.users.totals(job.id).waiting} listed users have no outcome. ${job.offer_note}`;
  const lost = store.parts.of(job.id).some(({ state }) => state === "uncertain");
  const cause = lost ? " The answer to a part of it was lost." : "";
  return `${silence}; ${store.users.totals(job.id).waiting} offered users have no outcome.${cause}`;
}

function end({ store, log }: ProgressContext, job: JobRow, nowMs: number, reason: string | null): void {
  store.jobs.move(job.id, "finished", nowMs, { endedMs: nowMs, reason });
  const { id, import: name, account } = job;
  log.info({ job: id, import: name, account, ...store.users.counts(id), reason }, "Import finished.");
}

function waitUncertain(
  { store, log }: ProgressContext,
  job: JobRow,
  parts: readonly PartRow[],
  nowMs: number,
): void {
  const fields = { job: job.id, import: job.import, account: job.account };
  const reason = parts.find(({ state }) => state === "uncertain")?.reason ?? null;
  if (job.state !== "uncertain") store.jobs.move(job.id, "uncertain", nowMs, { reason });
  if (nowMs < job.answer_by_ms + job.finish_after_ms) return;
  store.jobs.move(job.id, "uncertain", nowMs, { endedMs: nowMs });
  log.warn(fields, "Import start still uncertain; its schedule goes on.");
}

/**
 * Jobs of unknown origin that may be this part's: with some of its users, and with no others than those of parts
 * whose answers were lost, because the service may have given these one id.
 */
export function candidatesOf(store: ImportStore, job: JobRow, part: PartRow): JobRow[] {
  const [fromMs, toMs] = [firstSentMs(part) - EARLY_MS, part.at_ms + LATE_MS];
  const found = store.jobs.candidates(job, fromMs, toMs);
  // Asked every second, and the names of a long list take a while.
  if (found.length === 0) return [];
  const lost = store.parts.of(job.id).filter((row) => row.state === "uncertain" || isSentAgain(row));
  const namesOf = (own: number) => store.users.names(job.id, own).flat();
  const [offered, all] = [new Set(namesOf(part.part)), new Set(lost.flatMap((row) => namesOf(row.part)))];
  return found.filter(({ id }) => {
    if (offered.size === 0) return true;
    const theirs = store.users.names(id);
    const isIn = (names: ReadonlySet<string>) => (user: readonly string[]) =>
      user.some((name) => names.has(name));
    return theirs.some(isIn(offered)) && theirs.every(isIn(all));
  });
}

/** Whether the part waits for another try although its first request may have been taken. */
export function isSentAgain({ state, first_sent_ms }: PartRow): boolean {
  return state === "planned" && first_sent_ms !== null;
}

const firstSentMs = (part: PartRow) => part.first_sent_ms ?? part.at_ms;

/** Takes the one job that fits, where there is one, inside the caller's change. */
export function resolvePart(context: WatchContext, job: JobRow, part: PartRow, nowMs: number): void {
  const { store, log } = context;
  // Another part got the id of this part's job, so its events are the job's already.
  const ownJob = store.jobs.row(job.id)?.service_job ?? null;
  if (ownJob !== null && store.users.isSeen(job.id, part.part)) {
    takePart({ store, log }, job, part.part, ownJob, nowMs);
    return;
  }
  // The time of a planned part is that of its next try.
  const sinceMs = isSentAgain(part) ? firstSentMs(part) : part.at_ms;
  if ((readTo(context, job, sinceMs, nowMs) ?? 0) < sinceMs + EARLY_MS) return;
  const candidates = candidatesOf(store, job, part);
  const [only] = candidates;
  if (only === undefined || candidates.length > 1 || only.service_job === null) return;
  const isSure = store.users.names(job.id, part.part).length > 0;
  const sentMs = only.first_event_ms ?? firstSentMs(part);
  if (sentMs < firstSentMs(part)) return;
  if (
    !isSure &&
    (only.source?.toLowerCase() !== job.source?.toLowerCase() ||
      store.jobs.rivals(job, sentMs - LATE_MS, sentMs + EARLY_MS) > 1)
  )
    return;
  const serviceJob = only.service_job;
  takePart({ store, log }, job, part.part, serviceJob, nowMs);
  log.info({ job: job.id, import: job.import, part: part.part, serviceJob }, "Import found by its events.");
}
