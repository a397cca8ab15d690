import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import type { Answer, Requester } from "../../core/http/requester.ts";
import { isSuccess, jsonOf } from "../over-http/status.ts";

interface Asking {
  readonly requester: Requester;
  readonly clock: Clock;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** How long a batch waits for its acknowledgement. */
  readonly timeout: number;
  readonly interval: number;
  /** The error that an answer means; undefined when it means none. */
  meaningOf(answer: Answer): Error | undefined;
}

interface Waiting {
  readonly giveUpAtMs: number;
  done(error?: unknown): void;
}

/**
 * The batches that the indexers have not acknowledged yet. One request asks for all of them, again and again while
 * there are any. An answer that does not come or cannot be read is asked for again: only a batch that is not
 * acknowledged in time is sent again.
 */
export function createAcknowledgements(asking: Asking) {
  const { requester, clock, url, headers } = asking;
  const waiting = new Map<number, Waiting>();
  const stop = new AbortController();
  let isAsking = false;

  async function ask(): Promise<void> {
    const body = JSON.stringify({ acks: [...waiting.keys()] });
    const answer = await requester.send({ url, headers, body }, stop.signal);
    if (!isSuccess(answer))
      throw asking.meaningOf(answer) ?? new RetryableError(`Splunk answered ${answer.status}.`);
    const acks = (jsonOf(answer)?.acks ?? {}) as Record<string, unknown>;
    for (const [id, isDone] of Object.entries(acks)) if (isDone === true) waiting.get(Number(id))?.done();
  }

  function giveUp(cause: unknown): void {
    const nowMs = clock.now();
    for (const { giveUpAtMs, done } of [...waiting.values()])
      if (nowMs >= giveUpAtMs)
        done(new RetryableError("Splunk did not acknowledge the batch in time.", { cause }));
  }

  async function askWhileWaiting(): Promise<void> {
    while (waiting.size > 0 && !stop.signal.aborted) {
      let failure: unknown;
      try {
        await ask();
      } catch (error) {
        failure = error;
        if (!(error instanceof RetryableError)) for (const { done } of [...waiting.values()]) done(error);
      }
      giveUp(failure);
      if (waiting.size > 0) await clock.sleep(asking.interval, stop.signal).catch(() => {});
    }
    isAsking = false;
  }

  return {
    /** Resolves once the indexers hold the batch with this id. */
    async of(id: unknown, signal: AbortSignal): Promise<void> {
      if (typeof id !== "number")
        throw new PausedError(
          "Splunk took the batch without an acknowledgement id.",
          "Enable acknowledgement for the token, or remove `acknowledge`.",
        );
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
        waiting.set(id, { giveUpAtMs: clock.now() + asking.timeout, done });
        if (isAsking) return;
        isAsking = true;
        void askWhileWaiting();
      });
    },
    /** Ends the questions; every batch that waits is refused. */
    close(): void {
      stop.abort();
      for (const { done } of [...waiting.values()]) done(new RetryableError("The sink was closed."));
    },
  };
}
