import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { explain } from "../core/errors.ts";
import type { StartContext } from "./context.ts";
import type { ImportUser } from "./import-news.ts";
import type { JobRow, UserOutcome } from "./job.ts";
import { outcomeOfResult, type WorkdayResult } from "./result-outcome.ts";
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
  results: AsyncIterable<WorkdayResult>,
): Promise<{ readonly digest: string; readonly told: readonly Told[] }> {
  const told: Told[] = [];
  const digest = createHash("sha256");
  let count = 0;
  for await (const result of results) {
    digest.update(`${count === 0 ? "[" : ","}${JSON.stringify(result)}`);
    if (++count > RESULTS_MAX) throw new Error(`The list of results does not end after ${RESULTS_MAX} rows.`);
    const user = userOf(result);
    if (user !== undefined) told.push({ user, ...outcomeOfResult(result) });
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

/** The specification does not show a result; these names are seen in the field. */
function userOf(result: WorkdayResult): ImportUser | undefined {
  const nested = result.persistedFields;
  const fields = {
    ...(typeof nested === "object" && nested !== null ? nested : {}),
    ...result,
  } as WorkdayResult;
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
