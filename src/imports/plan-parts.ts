import { explain } from "../core/errors.ts";
import { type Chosen, chooseUsers } from "./choose.ts";
import { ANSWER_BY_MS, type StartContext } from "./context.ts";
import { choiceSchema, type JobRow } from "./job.ts";
import type { OfferedUser } from "./source.ts";

const PART_USERS_MAX = 100;
const OFFER_USERS_MAX = 200_000;
/** The lease of the sender is renewed after so many users of a long offer. */
const RENEW_USERS = 1000;

/** Reads the offer and stores it with the planned parts, in one transaction. A job that cannot be planned fails. */
export async function planParts(context: StartContext, job: JobRow, signal: AbortSignal): Promise<void> {
  const { store, clock, log } = context;
  const offered = await readOffer(context, job, signal);
  if (offered === undefined) return;
  const nowMs = clock.now();
  if (offered === "unknown") {
    await store.change(() => store.parts.plan(job.id, job.account, nowMs));
    return;
  }
  const posted = offered.filter(({ skipped }) => skipped === null).length;
  await store.change(() => {
    const perPart = job.kind === "workday" ? PART_USERS_MAX : Math.max(1, posted);
    const parts: number[] = [];
    let count = 0;
    const users = offered.map(({ user, skipped }) => {
      if (skipped !== null) return { user, skipped, part: null };
      const at = Math.floor(count++ / perPart);
      parts[at] ??= store.parts.plan(job.id, job.account, nowMs);
      return { user, skipped, part: parts[at] };
    });
    if (job.kind === "application" && parts.length === 0) store.parts.plan(job.id, job.account, nowMs);
    store.users.offer(job.id, users);
    store.jobs.offered(job.id, nowMs);
  });
  log.info({ job: job.id, offered: offered.length, posted }, "Import users read.");
}

/** The offer with the choice made; undefined when the job has failed, "unknown" where the source does not say. */
async function readOffer(
  context: StartContext,
  job: JobRow,
  signal: AbortSignal,
): Promise<readonly Chosen[] | "unknown" | undefined> {
  const source = context.source(job.account);
  const organization = job.organization ?? undefined;
  const offer = { kind: job.kind, source: job.source ?? "" };
  const users: OfferedUser[] = [];
  try {
    if (job.kind === "application" && "queryString" in (JSON.parse(job.request) as object)) return "unknown";
    for await (const user of source.offered(organization, offer, signal)) {
      if (users.push(user) > OFFER_USERS_MAX)
        throw new Error(`more than ${OFFER_USERS_MAX} users are offered`);
      if (users.length % RENEW_USERS === 0) await renew(context, job.id);
    }
    if (job.kind === "application") return users.map((user) => ({ user, skipped: null }));
    if (users.length === 0) return fail(context, job, "the integration offers no workers");
    const choice = choiceSchema.parse(JSON.parse(job.request));
    const existing = choice.onlyNew ? await source.existing(organization, signal) : undefined;
    if (choice.onlyNew && existing === undefined)
      return fail(context, job, "onlyNew is not possible: the service does not list its users");
    return chooseUsers(users, choice, existing);
  } catch (error) {
    if (signal.aborted) throw error;
    if (job.kind === "application") {
      context.log.warn({ job: job.id, reason: explain(error) }, "The users on offer could not be read.");
      return "unknown";
    }
    return fail(context, job, `the workers could not be read: ${explain(error)}`);
  }
}

async function fail({ store, clock, log }: StartContext, job: JobRow, reason: string): Promise<undefined> {
  const nowMs = clock.now();
  await store.change(() => store.jobs.move(job.id, "failed", nowMs, { reason, endedMs: nowMs }));
  log.error(
    { job: job.id, import: job.import, account: job.account, reason },
    "Import failed before its start.",
  );
  return undefined;
}

async function renew({ store, clock, sender }: StartContext, job: number): Promise<void> {
  await store.change(() => store.jobs.send(job, sender, clock.now() + ANSWER_BY_MS));
}
