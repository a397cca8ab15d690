/**
 * A timeout signal that is safe to combine with `AbortSignal.any`. Node may garbage-collect a timeout signal
 * that has no listener of its own, and the combined signal then never aborts. The empty listener prevents that.
 */
export function timeoutSignal(ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms);
  signal.addEventListener("abort", () => {}, { once: true });
  return signal;
}
