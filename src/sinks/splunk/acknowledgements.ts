import { randomUUID } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import { unconfirmed } from "../../core/http/confirmed.ts";
import type { Answer, Requester } from "../../core/http/requester.ts";
import { isSuccess, jsonOf } from "../over-http/status.ts";
import { isRefusedByCollector } from "./answer.ts";

interface Asking {
  readonly requester: Requester;
  readonly clock: Clock;
  readonly destination: string;
  /** The address of the questions, without the channel. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** How long a batch waits for its acknowledgement. */
  readonly timeout: number;
  readonly interval: number;
  /** The error that an answer means; undefined when it means none. */
  meaningOf(answer: Answer): Error | undefined;
}

interface Channel {
  readonly name: string;
  /** Requests with events that are not answered yet. */
  readonly posts: Set<object>;
  /** By the id that the receiver has given. */
  readonly waiting: Map<number, Waiting>;
}

interface Waiting {
  readonly id: number;
  readonly giveUpAtMs: number;
  /** Set by an acknowledgement: the requests that were under way then. */
  after?: Set<object>;
  done(error?: unknown): void;
}

/**
 * The batches that the indexers have not acknowledged yet. A receiver numbers the batches of a channel. A restarted one
 * has lost the batches that wait, and begins again at 0. So an acknowledgement may be about a newer batch:
 *
 * 1. An id that is given out while another batch waits under it means a restart. After a lost answer, ids may have been
 *    given out that are not known here. Both end the channel: all of its batches are sent again on a new one.
 * 2. An acknowledgement counts once every request that was under way when it came is answered, so that rule 1 has seen
 *    their ids.
 *
 * One request asks for all batches, again and again while there are any. A question that fails is asked again: only a
 * batch that is not acknowledged in time is sent again.
 */
export function createAcknowledgements(asking: Asking) {
  const { requester, clock, destination } = asking;
  const stop = new AbortController();
  let current = newChannel();
  let isAsking = false;

  async function ask(): Promise<void> {
    const channel = current;
    const asked = [...channel.waiting.values()];
    const url = `${asking.url}?channel=${channel.name}`;
    const headers = { ...asking.headers, ...channelHeader(channel.name) };
    const body = JSON.stringify({ acks: asked.map(({ id }) => id) });
    const answer = await requester.send({ url, headers, body }, stop.signal);
    if (!isSuccess(answer))
      throw asking.meaningOf(answer) ?? new RetryableError(`Splunk answered ${answer.status}.`);
    const acks = jsonOf(answer)?.acks;
    if (typeof acks !== "object" || acks === null)
      throw unconfirmed(answer, { destination, expected: "the state of acknowledgements" });
    for (const each of asked)
      if ((acks as Record<string, unknown>)[each.id] === true) each.after ??= new Set(channel.posts);
    settle(channel);
  }

  function settle({ waiting }: Channel): void {
    for (const { after, done } of [...waiting.values()]) if (after?.size === 0) done();
  }

  function fail(error: unknown): void {
    for (const { done } of [...current.waiting.values()]) done(error);
  }

  /** Rule 1. */
  function giveUpChannel(channel: Channel, reason: string): RetryableError {
    const error = new RetryableError(reason);
    if (channel !== current) return error;
    fail(error);
    current = newChannel();
    return error;
  }

  function giveUpLate(cause: unknown): void {
    const nowMs = clock.now();
    for (const { giveUpAtMs, done } of [...current.waiting.values()])
      if (nowMs >= giveUpAtMs)
        done(new RetryableError("Splunk did not acknowledge the batch in time.", { cause }));
  }

  async function askWhileWaiting(): Promise<void> {
    while (current.waiting.size > 0 && !stop.signal.aborted) {
      let failure: unknown;
      try {
        await ask();
      } catch (error) {
        failure = error;
        if (!(error instanceof RetryableError)) fail(error);
      }
      giveUpLate(failure);
      if (current.waiting.size > 0) await clock.sleep(asking.interval, stop.signal).catch(() => {});
    }
    isAsking = false;
  }

  async function acknowledged({ waiting }: Channel, id: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const abort = () => done(signal.reason);
      const done = (error?: unknown) => {
        waiting.delete(id);
        signal.removeEventListener("abort", abort);
        if (error === undefined) resolve();
        else reject(error);
      };
      signal.addEventListener("abort", abort, { once: true });
      waiting.set(id, { id, giveUpAtMs: clock.now() + asking.timeout, done });
      if (isAsking) return;
      isAsking = true;
      void askWhileWaiting();
    });
  }

  return {
    /**
     * Sends one batch on the channel and resolves to the answer, once the indexers hold the batch if the answer says
     * that it was taken. `isTaken` throws for an answer that is not Splunk's.
     */
    async send(
      post: (headers: Readonly<Record<string, string>>) => Promise<Answer>,
      isTaken: (answer: Answer) => boolean,
      signal: AbortSignal,
    ): Promise<Answer> {
      const channel = current;
      const own = {};
      channel.posts.add(own);
      let answer: Answer;
      let isDone: boolean;
      try {
        answer = await post(channelHeader(channel.name));
        isDone = isTaken(answer);
      } catch (error) {
        giveUpChannel(channel, LOST);
        throw error;
      }
      const id = jsonOf(answer)?.ackId;
      // The answer of a gateway says nothing about what Splunk has taken.
      if (!isDone && !isRefusedByCollector(answer)) giveUpChannel(channel, LOST);
      if (isDone && typeof id === "number" && channel.waiting.has(id))
        throw giveUpChannel(channel, RESTARTED);
      channel.posts.delete(own);
      for (const { after } of channel.waiting.values()) after?.delete(own);
      settle(channel);
      if (!isDone) return answer;
      if (typeof id !== "number")
        throw new PausedError(
          "Splunk took the batch without an acknowledgement id.",
          "Enable acknowledgement for the token, or remove `acknowledge`.",
        );
      if (channel !== current) throw new RetryableError(LOST);
      await acknowledged(channel, id, signal);
      return answer;
    },
    /** Ends the questions; every batch that waits is refused. */
    close(): void {
      stop.abort();
      fail(new RetryableError("The sink was closed."));
    },
  };
}

const LOST =
  "An answer of Splunk was lost, so acknowledgements can no longer be assigned to batches: those that wait are sent again on a new channel.";
const RESTARTED =
  "Splunk gave an acknowledgement id a second time: it was restarted, or a load balancer sends the requests of one channel to several receivers and needs sticky sessions. The batches that wait are sent again on a new channel.";

function newChannel(): Channel {
  return { name: randomUUID(), posts: new Set(), waiting: new Map() };
}

export function channelHeader(channel: string | undefined): Record<string, string> {
  return channel === undefined ? {} : { "x-splunk-request-channel": channel };
}
