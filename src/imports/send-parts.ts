import { setImmediate } from "node:timers/promises";
import { timeoutSignal } from "../core/timeout.ts";
import type { StartContext } from "./context.ts";
import { hold, JobTakenOverError, takeJob } from "./hold.ts";
import { type JobRow, requestSchema } from "./job.ts";
import { planParts } from "./plan-parts.ts";
import { settleJob } from "./progress.ts";
import type { OfferedUser, StartAnswer } from "./source.ts";
import type { PartRow } from "./store/parts.ts";
import type { PartUser } from "./store/users.ts";
import { takePart } from "./take-part.ts";

/**
 * A job is sent in parts, each one request to the service. Every step is on disk before the next one, so that a
 * killed process can be replaced by another.
 *
 * 1. The offer is read, and stored together with the planned parts: one part for an application, one part for
 *    each 100 workers of a Workday integration. Users that are not posted are stored with their reason.
 * 2. *planned* → *sent*: written before the request goes out.
 * 3. *sent* → *taken*: the service answered with its job id.
 *    *sent* → *refused*: where the answer names users, those fail and the others are planned again; where it does
 *    not, the part is planned again in two halves, until one user is left, who fails with the service's reason.
 *    A refusal of the call itself (401, 402, 403, 404) fails all users that are not sent yet.
 *    *sent* → *planned*: the service certainly did not take it (429, not reachable); tried again later.
 *    *sent* → *uncertain*: the answer was lost, or the process ended before it came. Its events resolve it
 *    (progress.ts), or a person. An application's import is never repeated; a part of a Workday import is sent
 *    again when no event of its users was seen (recover.ts). Where that is refused it stays uncertain, because the
 *    first request may have been taken; its events resolve the part also while it waits for another try.
 *
 * A job that a person ends is sent no further. The answer to a request that is out then still gives it its id.
 */
export async function sendJob(context: StartContext, id: number, signal: AbortSignal): Promise<void> {
  const { store, clock, log, sender, sending } = context;
  if (sending.has(id)) return;
  sending.add(id);
  try {
    const job = await store.change(() => takeJob(context, id));
    if (job === undefined) return;
    if (store.parts.of(id).length === 0 && job.offered_ms === null) await planParts(context, job, signal);
    for (;;) {
      const part = store.parts.of(id).find(({ state }) => state === "planned");
      if (part === undefined || part.at_ms > clock.now()) break;
      if (!(await sendPart(context, job, part, signal))) break;
    }
  } catch (error) {
    if (!(error instanceof JobTakenOverError)) throw error;
    log.warn({ job: id }, "Another process goes on with this import, because this one was silent for long.");
    return;
  } finally {
    sending.delete(id);
    // Another process may go on from here.
    await store.change(() => store.jobs.renew(id, sender, clock.now()));
  }
  await store.change(() => settleJob({ store, log }, id, clock.now()));
}

/** How long the service may take to answer a start. */
const START_MS = 120_000;
export const TRIES_MAX = 6;
const RETRY_MS = 15_000;
/** A service may ask for a wait of a day. One request is tried this often all the same (R33). */
const RETRY_MS_MAX = 600_000;

/** False: a person has ended the job, and nothing was sent. */
async function sendPart(
  context: StartContext,
  job: JobRow,
  part: PartRow,
  signal: AbortSignal,
): Promise<boolean> {
  const { store, clock, sender } = context;
  // An application's import may have 200,000 users, and its request has none of them.
  const users = job.kind === "workday" ? store.users.ofPart(job.id, part.part) : [];
  const nowMs = clock.now();
  const isSent = await store.change(() => {
    hold(context, job.id);
    if (isEndedByPerson(store, job.id)) return false;
    store.parts.move(job.id, part.part, { state: "sent", atMs: nowMs, tries: part.tries + 1 });
    return true;
  });
  if (!isSent) return false;
  const limited = AbortSignal.any([signal, timeoutSignal(START_MS)]);
  const source = context.source(job.account);
  const organization = job.organization ?? undefined;
  const answer =
    job.kind === "workday"
      ? await source.startWorkday(organization, job.source ?? "", postedOf(users), limited)
      : await source.start(
          organization,
          job.source ?? "",
          requestSchema.parse(JSON.parse(job.request)),
          limited,
        );
  const tries = part.tries + 1;
  if (job.kind === "application") await failListed(context, job, { ...part, tries }, answer);
  const isHeld = await store.change(() => {
    // After a long silence another process may have taken over, but the answer is still about this request.
    const now = store.parts.of(job.id).find((row) => row.part === part.part);
    // A part that is not sent again: a person has ended the job, and an event may have opened it since.
    const isLast = isEndedByPerson(store, job.id) || (now?.tries === TRIES_MAX && tries < TRIES_MAX);
    if (isLast && now?.state === "uncertain") settleLastPart(context, job, now, answer);
    else if (!isLast && now?.tries === tries && (now.state === "sent" || now.state === "uncertain"))
      settlePart(context, job, { ...part, tries }, users, answer);
    return store.jobs.row(job.id)?.sender === sender;
  });
  if (!isHeld) throw new JobTakenOverError();
  return true;
}

function isEndedByPerson(store: Store, id: number): boolean {
  return store.jobs.row(id)?.ended_by != null;
}

/** A refusal decides only where no other request of the part may have been taken. */
function settleLastPart(
  { store, clock, log }: StartContext,
  job: JobRow,
  { part, first_sent_ms: firstSentMs }: PartRow,
  answer: StartAnswer,
): void {
  if (answer.kind === "started") takePart({ store, log }, job, part, answer.serviceJob, clock.now());
  else if (answer.kind !== "uncertain" && firstSentMs === null)
    store.parts.move(job.id, part, { state: "refused", reason: answer.reason });
}

const SLICE_USERS = 500;

/**
 * The listed users of an application's import that will not be tried again fail, in slices. This comes before the part
 * is refused: a process that ends in between leaves it sent, so that the next one calls it uncertain.
 */
async function failListed(
  { store }: StartContext,
  { id }: JobRow,
  { part, tries }: PartRow,
  answer: StartAnswer,
): Promise<void> {
  const isOver = answer.kind === "refused" || (answer.kind === "unavailable" && tries >= TRIES_MAX);
  if (!isOver) return;
  const reason = `${answer.kind === "refused" ? "refused" : "not sent"}: ${answer.reason}`;
  const failSome = () => store.change(() => store.users.failSome(id, part, reason, SLICE_USERS));
  while ((await failSome()) === SLICE_USERS) await setImmediate();
}

function postedOf(users: readonly PartUser[]): OfferedUser[] {
  return users.map(({ user }) => user).filter((user) => user !== null);
}

function settlePart(
  { store, clock, log }: StartContext,
  job: JobRow,
  part: PartRow,
  users: readonly PartUser[],
  answer: StartAnswer,
): void {
  const nowMs = clock.now();
  const fields = {
    job: job.id,
    import: job.import,
    account: job.account,
    part: part.part,
    users: users.length,
  };
  const move = (change: Parameters<typeof store.parts.move>[2]) =>
    store.parts.move(job.id, part.part, change);
  switch (answer.kind) {
    case "started":
      takePart({ store, log }, job, part.part, answer.serviceJob, nowMs);
      return;
    case "unavailable":
      if (part.tries < TRIES_MAX) {
        const backOffMs = Math.min(RETRY_MS * 2 ** (part.tries - 1), RETRY_MS_MAX);
        const waitMs = Math.min(Math.max(backOffMs, answer.retryAfterMs ?? 0), RETRY_MS_MAX);
        move({ state: "planned", atMs: nowMs + waitMs, reason: answer.reason });
        log.warn({ ...fields, reason: answer.reason, waitMs }, "Import start not taken; trying again.");
        return;
      }
      giveUp(store, job, part, users, answer.reason, `not sent: ${answer.reason}`);
      return;
    case "uncertain":
      move({ state: "uncertain", reason: answer.reason });
      log.warn({ ...fields, reason: answer.reason }, "Import start uncertain.");
      return;
    case "refused":
      log.error({ ...fields, reason: answer.reason }, "Import refused by the service.");
      if (job.kind === "workday" && answer.about === "users") {
        move({ state: "refused", reason: answer.reason });
        isolate(store, job, part, users, answer, nowMs);
      } else {
        giveUp(store, job, part, users, answer.reason, `refused: ${answer.reason}`);
        failRest(store, job, answer.reason);
      }
  }
}

type Store = StartContext["store"];

/** Its users fail, unless an earlier request of it may have been taken. */
function giveUp(
  store: Store,
  job: JobRow,
  part: PartRow,
  users: readonly PartUser[],
  reason: string,
  outcome: string,
): void {
  if (part.first_sent_ms !== null) {
    const doubt = `the first answer was lost; sent again, it was not taken: ${reason}`;
    store.parts.move(job.id, part.part, { state: "uncertain", tries: TRIES_MAX, reason: doubt });
    return;
  }
  store.parts.move(job.id, part.part, { state: "refused", reason });
  failUsers(store, users, outcome);
}

/** The users that the answer names fail, the others are planned again; without names both halves are. */
function isolate(
  store: Store,
  job: JobRow,
  { first_sent_ms: firstSentMs }: PartRow,
  users: readonly PartUser[],
  answer: Extract<StartAnswer, { kind: "refused" }>,
  nowMs: number,
): void {
  const plan = (some: readonly PartUser[]) => planUsers(store, job, some, nowMs, firstSentMs);
  const named = new Map((answer.users ?? []).map(({ index, reason }) => [index, reason]));
  for (const [index, reason] of named)
    if (users[index]) failUsers(store, [users[index]], `refused: ${reason}`);
  const rest = users.filter((_, index) => !named.has(index));
  if (rest.length < users.length) {
    plan(rest);
  } else if (users.length === 1) {
    failUsers(store, users, `refused: ${answer.reason}`);
  } else {
    const middle = Math.ceil(users.length / 2);
    plan(users.slice(0, middle));
    plan(users.slice(middle));
  }
}

function planUsers(
  store: Store,
  job: JobRow,
  users: readonly PartUser[],
  nowMs: number,
  firstSentMs: number | null,
): void {
  if (users.length === 0) return;
  const part = store.parts.plan(job.id, job.account, nowMs, firstSentMs);
  store.users.moveToPart(
    users.map(({ id }) => id),
    part,
  );
}

/** The call itself is refused, so the other parts would be as well. */
function failRest(store: Store, job: JobRow, reason: string): void {
  const outcome = `not sent, because an earlier part was refused: ${reason}`;
  for (const part of store.parts.of(job.id).filter(({ state }) => state === "planned"))
    giveUp(store, job, part, store.users.ofPart(job.id, part.part), reason, outcome);
}

function failUsers(store: Store, users: readonly PartUser[], reason: string): void {
  store.users.fail(
    users.map(({ id }) => id),
    reason,
  );
}
