import { randomInt, randomUUID } from "node:crypto";
import type { App } from "../../app.ts";
import type { RequestTopic } from "../../cluster/request-topic.ts";
import type { StoredRecord } from "../../core/changelog.ts";
import { explain } from "../../core/errors.ts";
import {
  type LaneAnswer,
  type LaneOutcome,
  type LaneQuestion,
  type LaneRequest,
  laneAnswerSchema,
  laneRequestSchema,
  replyPartition,
} from "../../core/lane-requests.ts";
import type { Log } from "../../core/log.ts";
import { RouteError } from "../../core/route.ts";
import { timeoutSignal } from "../../core/timeout.ts";
import { failureOf, ROUTE_REQUEST } from "../requests.ts";

/*
 * Requests between the machines of a cluster (C3). The way of a change:
 *   1. the asker writes it into the partition of its lane
 *   2. the machine that runs the lane stores it in the lane's state together with the offset reached, in one commit
 *   3. the lane carries it out as it does the requests of commands, and stores the outcome
 *   4. the outcome is written into the partition that the asker reads
 * A machine that dies before 2 has taken nothing: the next owner reads on from the stored offset. After 2 the next owner
 * finds the request in the state, and after 3 its outcome, which it sends again. A look skips 2 and 3.
 */

export interface MessengerOptions {
  readonly topic: RequestTopic;
  readonly lanes: number;
  /** The lanes that are open on this machine; a command has none. */
  open(): readonly { readonly lane: number; readonly app: App }[];
  /** Answers a look for all lanes of this machine. */
  look(request: LaneRequest, signal: AbortSignal): Promise<unknown>;
  readonly log: Log;
}

export interface Messenger {
  /**
   * Asks the machine that runs the lane. undefined: no answer came in time; a change is carried out later all the same.
   * Rejects where Kafka did not confirm the request in time.
   */
  ask(
    lane: number,
    question: LaneQuestion,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<LaneAnswer | undefined>;
  answer(lane: number, origin: string, outcome: LaneOutcome): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
}

/** Offsets are stored with changes; without changes after so many records. */
const STORE_AFTER = 1000;
/** Outcomes of this age are sent again when a lane is opened. */
const RESEND_MS = 120_000;
const ANSWER_BYTES_MAX = 900_000;

interface OpenLane {
  readonly app: App;
  /** Looks before this offset were asked of the machine before us. */
  readonly newFrom: number;
  storedNext: number;
}

export function createMessenger({ topic, lanes, open, look, log }: MessengerOptions): Messenger {
  const stopped = new AbortController();
  const replyTo = randomInt(lanes);
  const waiting = new Map<string, (answer: LaneAnswer) => void>();
  const positions = new Map<number, number>();
  const known = new Map<number, OpenLane>();
  let ready = () => {};
  const isReady = new Promise<void>((resolve) => {
    ready = resolve;
  });

  /** What was asked is done by then, except for a look. */
  async function answer(lane: number, origin: string, outcome: LaneOutcome, tooLarge = 504): Promise<void> {
    const value: LaneAnswer = { to: origin, lane, ...outcome };
    const fits = JSON.stringify(value).length < ANSWER_BYTES_MAX;
    const sent = fits ? value : { to: origin, lane, ...failureOf(new RouteError(tooLarge, TOO_LARGE)) };
    try {
      await topic.send(replyPartition(origin), "answer", sent, stopped.signal);
    } catch (error) {
      log.warn({ lane, err: explain(error) }, "An answer could not be sent to the machine that asked.");
    }
  }

  /** Follows the lanes that are open here now, and the partition for our answers. */
  async function follow(): Promise<ReadonlyMap<number, number>> {
    const now = new Map(open().map(({ lane, app }) => [lane, app]));
    for (const [lane, { app }] of known) {
      if (now.get(lane) === app) continue;
      known.delete(lane);
      if (lane !== replyTo) positions.delete(lane);
    }
    for (const [lane, app] of now) {
      if (known.has(lane)) continue;
      const newFrom = await topic.endOf(lane, stopped.signal);
      const storedNext = app.requests.next();
      known.set(lane, { app, newFrom, storedNext });
      positions.set(lane, storedNext);
      for (const { origin, result } of app.requests.finishedSince(Date.now() - RESEND_MS))
        void answer(lane, origin, result);
    }
    if (!positions.has(replyTo)) {
      positions.set(replyTo, await topic.endOf(replyTo, stopped.signal));
      ready();
    }
    return new Map(positions);
  }

  async function take(
    partition: number,
    records: readonly StoredRecord[],
    { from, next }: { readonly from: number; readonly next: number },
  ): Promise<void> {
    for (const record of records) if (record.key === "answer") receive(record);
    const lane = known.get(partition);
    if (lane !== undefined) {
      const refuse = (id: string) =>
        void answer(partition, id, failureOf(new RouteError(503, NOT_UNDERSTOOD)));
      const asked = records.flatMap((record) => requestOf(record, log, refuse));
      for (const { request, offset } of asked)
        if (isLook(request) && offset >= lane.newFrom) void answerLook(partition, request);
      const changes = asked.filter(({ request }) => !isLook(request)).map(({ request }) => stored(request));
      if (changes.length > 0 || next - lane.storedNext > STORE_AFTER) {
        await lane.app.requests.take(changes, next);
        lane.storedNext = next;
      }
    }
    // The lane may have been opened meanwhile, which sets the position back.
    if (positions.get(partition) === from) positions.set(partition, next);
  }

  function receive({ value }: StoredRecord): void {
    const parsed = laneAnswerSchema.safeParse(jsonOf(value));
    if (parsed.success) waiting.get(parsed.data.to)?.(parsed.data);
  }

  async function answerLook(lane: number, request: LaneRequest): Promise<void> {
    try {
      const value = await look(request, stopped.signal);
      await answer(lane, request.id, { ok: true, message: "", value }, 503);
    } catch (error) {
      await answer(lane, request.id, failureOf(error));
    }
  }

  return {
    answer,
    async ask(lane, question, timeoutMs, signal) {
      const id = `${replyTo}:${randomUUID()}`;
      const limit = AbortSignal.any([signal, timeoutSignal(timeoutMs)]);
      const given = new Promise<LaneAnswer | undefined>((resolve) => {
        waiting.set(id, resolve);
        limit.addEventListener("abort", () => resolve(undefined), { once: true });
      });
      try {
        await Promise.race([isReady, given]);
        if (limit.aborted) throw signal.aborted ? signal.reason : new RouteError(503, NOT_SENT);
        const sent = topic.send(lane, "ask", { ...question, id }, signal);
        sent.catch(() => {});
        const isSent = await Promise.race([sent.then(() => true), given.then(() => !limit.aborted)]);
        if (!isSent) throw signal.aborted ? signal.reason : new RouteError(504, MAY_BE_SENT);
        return await given;
      } finally {
        waiting.delete(id);
      }
    },
    async run(signal) {
      signal.addEventListener("abort", () => stopped.abort(signal.reason), { once: true });
      await topic.follow(
        {
          positions: follow,
          take,
          lost(partition, { first, end }) {
            const at = positions.get(partition) ?? 0;
            log.warn(
              { partition, at, first },
              "Requests are no longer in the topic; reading goes on behind them.",
            );
            positions.set(partition, at < first ? first : end);
          },
          trouble: (error) => log.warn({ err: explain(error) }, "Requests of other machines cannot be read."),
        },
        signal,
      );
      await topic.end();
    },
  };
}

// The HTTP API answers these with 503, or with 504 where the request may have been carried out.
const NOT_UNDERSTOOD =
  "The machine that runs the lane has another version and does not understand the request.";
const NOT_SENT = "Kafka does not answer, so the request was not sent. Try again when it does.";
const MAY_BE_SENT =
  "Kafka did not confirm the request in time, so it may still be carried out. Look at the result before you ask again.";
const TOO_LARGE = "The answer is too large for one message: ask for less.";

function isLook({ kind }: LaneRequest): boolean {
  return kind === "look" || kind === "look_route";
}

function stored(request: LaneRequest) {
  const { id: origin } = request;
  if (request.kind === "action") return { origin, kind: request.action, body: request.body };
  return { origin, kind: ROUTE_REQUEST, body: request.kind === "route" ? request.call : null };
}

function requestOf({ key, value, offset }: StoredRecord, log: Log, refuse: (id: string) => void) {
  if (key !== "ask") return [];
  const json = jsonOf(value);
  const parsed = laneRequestSchema.safeParse(json);
  if (parsed.success) return [{ request: parsed.data, offset }];
  log.warn({ offset }, "A request is not understood; another version may have written it.");
  const { id } = (json ?? {}) as { readonly id?: unknown };
  if (typeof id === "string" && /^\d+:/.test(id)) refuse(id);
  return [];
}

function jsonOf(value: Uint8Array | null): unknown {
  try {
    return JSON.parse(Buffer.from(value ?? []).toString());
  } catch {
    return undefined;
  }
}
