/** The slowest body that is waited for: eight at once on a line of 1 Mbit/s. */
const BYTES_PER_MS_MIN = 16;

/**
 * Calls `expired` once, when a body has taken longer than the grace and what its bytes need at the slowest rate. Silence is
 * bounded by the idle time-out of the connection; this bounds a drip.
 */
export function watchRate(graceMs: number, isPaused: () => boolean, expired: () => void) {
  const startedMs = performance.now();
  let received = 0;
  let isOver = false;
  let timer = setTimeout(look, graceMs).unref();

  /** What came while this process was busy or stopped is read before the body is judged. */
  function look(): void {
    setImmediate(judge);
  }

  function judge(): void {
    if (isOver) return;
    const leftMs = startedMs + graceMs + received / BYTES_PER_MS_MIN - performance.now();
    // While it is paused, it waits for us.
    if (leftMs <= 0 && !isPaused()) expired();
    else timer = setTimeout(look, leftMs > 0 ? Math.ceil(leftMs) : graceMs).unref();
  }

  return {
    received(bytes: number): void {
      received += bytes;
    },
    stop(): void {
      isOver = true;
      clearTimeout(timer);
    },
  };
}
