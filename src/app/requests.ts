import { type Actions, isRepeatable, perform } from "../core/actions.ts";
import { explain } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { createRequests } from "../journal/command-queue.ts";

/**
 * Carries out the requests that commands left for the running process (R15). States of a request:
 *   open     stored by a command
 *   started  marked before the work begins
 *   done     stored with its result
 * A process that ends between started and done leaves a request that may have been carried out. The next
 * process repeats it where a repeat finds nothing left to do, and reports it as interrupted otherwise.
 */
export async function carryOutRequests(
  requests: ReturnType<typeof createRequests>,
  actions: Actions,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  for (const { id, kind, body, wasStarted } of requests.open()) {
    if (wasStarted && !isRepeatable(kind, body)) {
      log.error({ kind, request: id }, "A request was interrupted by a crash.");
      await requests.finish(id, { ok: false, message: INTERRUPTED });
      continue;
    }
    try {
      await requests.start(id);
      const { message } = await perform(actions, kind, body, signal);
      await requests.finish(id, { ok: true, message });
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ err: error, kind }, "A request could not be carried out.");
      await requests.finish(id, { ok: false, message: explain(error) });
    }
  }
}

const INTERRUPTED =
  "The process ended while it carried this out, so it may be done or not. It is not repeated, because that could deliver events twice. Check `tidemark status`, and ask again if it was not done.";
