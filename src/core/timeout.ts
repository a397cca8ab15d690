import { setMaxListeners } from "node:events";
import type { Clock } from "./clock.ts";
import { RetryableError } from "./errors.ts";

/** Runs `work` with a signal that also aborts after `timeoutMs`, then with a RetryableError as its reason. */
export async function withDeadline<Result>(
  limits: { readonly clock: Clock; readonly timeoutMs: number; readonly signal: AbortSignal },
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const { clock, timeoutMs, signal } = limits;
  signal.throwIfAborted();
  const inner = new AbortController();
  const done = new AbortController();
  const stop = () => inner.abort(signal.reason);
  // Many requests may share a signal. Their listeners are removed, so Node's warning of a leak would be wrong.
  setMaxListeners(0, signal);
  signal.addEventListener("abort", stop, { once: true });
  clock.sleep(timeoutMs, done.signal).then(
    () => inner.abort(new RetryableError(`No answer within ${timeoutMs} ms.`)),
    () => {},
  );
  try {
    return await work(inner.signal);
  } finally {
    done.abort();
    signal.removeEventListener("abort", stop);
  }
}

/**
 * A timeout signal that is safe to combine with `AbortSignal.any`. Node may garbage-collect a timeout signal
 * that has no listener of its own, and the combined signal then never aborts. The empty listener prevents that.
 */
export function timeoutSignal(ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms);
  signal.addEventListener("abort", () => {}, { once: true });
  return signal;
}
