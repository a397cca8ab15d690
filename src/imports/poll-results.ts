import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { explain } from "../core/errors.ts";
import type { StartContext } from "./context.ts";
import type { ImportUser } from "./import-news.ts";
import type { JobRow, UserOutcome } from "./job.ts";
import type { PartRow } from "./store/parts.ts";

const POLL_MS = 15_000;
const SLICE_RESULTS = 500;

/** The service lists the results of a Workday import: they are polled, and a change counts as activity. */
export function duePolls(
  context: StartContext,
  nowMs: number,
  signal: AbortSignal,
): { job: number; poll: () => Promise<void> }[] {
  const { store } = context;
  return store.jobs.rows({ followed: true }).flatMap((job) => {
    if (job.kind !== "workday") return [];
    const due = partsDue(context, job, nowMs);
    const poll = async () => {
      for (const part of due) await pollPart(context, job, part, signal);
    };
    return due.length === 0 ? [] : [{ job: job.id, poll }];
  });
}

function partsDue({ store }: StartContext, job: JobRow, nowMs: number): PartRow[] {
  const taken = store.parts.of(job.id).filter(({ state }) => state === "taken");
  const due = taken.filter((part) => part.service_job !== null && (part.next_poll_ms ?? 0) <= nowMs);
  const isPending = ({ part }: PartRow) => store.users.isPartWaiting(job.id, part);
  // Parts without an id of their own share the one of another part, with its results.
  const isAll =
    due.length > 0 && (isOld(job) || taken.some((row) => row.service_job === null && isPending(row)));
  return due.filter((part) => isAll || isPending(part));
}

/** Jobs of the first build do not know which users belong to a part. */
function isOld(job: JobRow): boolean {
  return job.offered_ms === null;
}

async function pollPart(
  { source, store, log, clock }: StartContext,
  job: JobRow,
  part: PartRow,
  signal: AbortSignal,
): Promise<void> {
  if (job.source === null || part.service_job === null) return;
  try {
    const organization = job.organization ?? undefined;
    const results = source(job.account).workdayResults(organization, job.source, part.service_job, signal);
    const { digest, told } = await readResults(results);
    if (digest !== part.results_digest) await tellInSlices(store, job, told);
    // The digest comes last: a process that ends before it reads the results again.
    await store.change(() => {
      const nowMs = clock.now();
      store.parts.polled(job.id, part.part, digest, nowMs + POLL_MS);
      if (digest === part.results_digest) return;
      store.jobs.touch(job.id, nowMs, null, null);
      if (store.jobs.row(job.id)?.state === "quiet") store.jobs.move(job.id, "running", nowMs);
    });
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ job: job.id, reason: explain(error) }, "Workday results could not be read; trying again.");
    await store.change(() => store.parts.polled(job.id, part.part, null, clock.now() + POLL_MS));
  }
}

/** What a result says about a user. */
interface Told {
  readonly user: ImportUser;
  readonly outcome: UserOutcome;
  readonly reason: string | undefined;
}

/** An import takes 200,000 users. The results of all its parts may come in one list. */
const RESULTS_MAX = 250_000;

/** Keeps what the results say, not the rows, which may be large. */
async function readResults(
  results: AsyncIterable<Result>,
): Promise<{ readonly digest: string; readonly told: readonly Told[] }> {
  const told: Told[] = [];
  const digest = createHash("sha256");
  let count = 0;
  for await (const result of results) {
    digest.update(`${count === 0 ? "[" : ","}${JSON.stringify(result)}`);
    if (++count > RESULTS_MAX) throw new Error(`The list of results does not end after ${RESULTS_MAX} rows.`);
    const user = userOf(result);
    if (user !== undefined) told.push({ user, ...outcomeOf(result) });
  }
  return { digest: digest.update(count === 0 ? "[]" : "]").digest("hex"), told };
}

async function tellInSlices(
  store: StartContext["store"],
  job: JobRow,
  results: readonly Told[],
): Promise<void> {
  for (let first = 0; first < results.length; first += SLICE_RESULTS) {
    await store.change(() => {
      for (const { user, outcome, reason } of results.slice(first, first + SLICE_RESULTS))
        store.users.tell(job.id, user, outcome, reason);
    });
    await setImmediate();
  }
}

type Result = Readonly<Record<string, unknown>>;

/** The specification does not show a result; these names are seen in the field. */
function userOf(result: Result): ImportUser | undefined {
  const nested = result.persistedFields;
  const fields = { ...(typeof nested === "object" && nested !== null ? nested : {}), ...result } as Result;
  const text = (...names: readonly string[]) => {
    const found = names
      .map((name) => fields[name])
      .find((value) => typeof value === "string" && value !== "");
    return found as string | undefined;
  };
  const user = {
    userId: text("systemUserId", "system_user_id", "userId"),
    username: text("username"),
    email: text("email"),
  };
  return (user.userId ?? user.username ?? user.email) ? user : undefined;
}

/** Whole words that say that a user was imported. The specification names none, so everything else is no success. */
const DONE =
  /^(success|successful|succeeded|complete|completed|finished|done|ok|imported|created|updated|reactivated|skipped|ignored|unchanged)$/;

/** Messages of a finished result that say that the user was not imported. */
const FAILED =
  /\b(failed|failures?|rejected|denied|refused|aborted|errors?|invalid|unable|unsuccessful(ly)?|could not|couldn't|cannot|can't|not (be )?(successfully )?(created|updated|imported))\b/i;
/** "1 created, 0 failed" is no failure. */
const NO_FAILURE =
  /\b(0|no|without( any)?) (failed|failures?|errors?|rejected)\b|\b(failed|failures?|errors?|rejected): ?0\b/gi;

/** Empty for what says nothing: an absent value, an empty list or object, false, 0. */
function wordsOf(value: unknown): string {
  if (value === undefined || value === null || value === false || value === 0) return "";
  if (typeof value !== "object") return String(value);
  return Object.keys(value).length === 0 ? "" : JSON.stringify(value);
}

/** The import of the user has not ended. */
const IN_PROGRESS = /^$|pend|queue|running|progress|process|started|scheduled/;

/** A status that is not known leaves the user pending, so its results are asked for again. */
function outcomeOf(result: Result): { outcome: UserOutcome; reason: string | undefined } {
  const status = String(result.status ?? "")
    .trim()
    .toLowerCase();
  const errors = [result.error, result.errors].map(wordsOf).find((words) => words !== "");
  const message =
    [result.statusMsg, result.message].map(wordsOf).find((words) => words !== "") ?? errors ?? "";
  const reason = message.slice(0, 500) || undefined;
  if (
    /fail|error|reject|denied|refused|invalid|cancel|abort|timed?.?out/.test(status) ||
    FAILED.test(message.replace(NO_FAILURE, "")) ||
    (result.success === false && !IN_PROGRESS.test(status)) ||
    errors !== undefined
  )
    return { outcome: "failed", reason: reason ?? `the service's status is "${status}"` };
  if (!DONE.test(status)) {
    return {
      outcome: "pending",
      reason: IN_PROGRESS.test(status) ? undefined : `the service's status is "${status}"`,
    };
  }
  const words = `${status} ${message.toLowerCase()} ${String(result.operation ?? "").toLowerCase()}`;
  if (/skip|ignored|unchanged|no change/.test(words))
    return { outcome: "skipped", reason: reason ?? "skipped" };
  if (/reactiv/.test(words)) return { outcome: "reactivated", reason: undefined };
  return { outcome: /creat/.test(words) ? "created" : "updated", reason: undefined };
}
