import { once } from "node:events";
import { DecisionNeededError, explainWithChoices, UsageError } from "../../core/errors.ts";
import { encodeMessage, messagesOf } from "./frames.ts";
import type { SearchService, ServiceRequest } from "./service.ts";

/** The engine has one thread: more questions at once would take memory and no less time. */
const RUNNING_MAX = 3;

/** Answers the questions of the exporter until its end of the pipe is closed. */
export async function hostService(
  service: SearchService,
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
  signal: AbortSignal,
): Promise<void> {
  const running = new Map<number, { readonly stop: AbortController; readonly work: Promise<unknown> }>();
  const inTurn = createTurns(RUNNING_MAX);
  let isOver = false;

  async function answer(id: number, request: ServiceRequest): Promise<void> {
    const stop = new AbortController();
    const own = AbortSignal.any([signal, stop.signal]);
    const work = inTurn(() => {
      own.throwIfAborted();
      return service.answer(request, own);
    });
    running.set(id, { stop, work });
    try {
      const { status, headers, body, events } = await work;
      await send({ id, status, headers, events }, body);
    } catch (error) {
      // Both are texts for the person who asked.
      const isUsage = error instanceof UsageError || error instanceof DecisionNeededError;
      await send({ id, error: explainWithChoices(error), isUsage });
    } finally {
      running.delete(id);
    }
  }

  async function send(head: object, body?: Buffer): Promise<void> {
    if (isOver) return;
    let isFree = true;
    for (const piece of encodeMessage(head, body)) isFree = output.write(piece);
    if (!isFree) await once(output, "drain");
  }

  for await (const { head } of messagesOf(input)) {
    const { id, cancel, request } = head as { id: number; cancel?: boolean; request?: ServiceRequest };
    if (cancel) running.get(id)?.stop.abort(new Error("The question was withdrawn."));
    else void answer(id, request!);
  }
  isOver = true;
  for (const { stop } of running.values()) stop.abort(new Error("The exporter has ended."));
  // DuckDB deadlocks when it is closed while a call runs.
  await Promise.allSettled([...running.values()].map(({ work }) => work));
}

/** Runs so many at a time, the others in the order in which they came. */
function createTurns(max: number) {
  const waiting: (() => void)[] = [];
  let free = max;
  return async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free++;
      else next();
    }
  };
}
