/**
 * A signal that aborts after so long, to be combined with others by `AbortSignal.any`. A plain
 * `AbortSignal.timeout` that nobody listens to may be collected as garbage, and then never aborts
 * what was made from it; a listener of its own keeps it.
 */
export function timeoutSignal(ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms);
  signal.addEventListener("abort", () => {}, { once: true });
  return signal;
}
