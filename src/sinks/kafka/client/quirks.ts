/** The parts of kafkajs's request queue that are used here. */
interface RequestQueue {
  readonly pending: readonly unknown[];
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  checkPendingRequests(): void;
  scheduleCheckPendingRequests(): void;
}

const QUEUE = "kafkajs/src/network/requestQueue/index.js";
const CHECK_MS = 10;

/**
 * kafkajs 2.2.4 sets a timer after every answer whether or not a request waits, with a time in the past,
 * and again each time it fires: a thousand wake-ups a second on an idle connection (seen: 4% of a core),
 * and a warning from newer versions of Node. With this the timer is set for requests that wait alone.
 */
export async function calmRequestQueues(): Promise<void> {
  const { default: queue } = (await import(QUEUE)) as { default: { prototype: RequestQueue } };
  queue.prototype.scheduleCheckPendingRequests = function (this: RequestQueue) {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const waitMs = Math.max(this.throttledUntil - Date.now(), CHECK_MS);
    this.throttleCheckTimeoutId = setTimeout(() => {
      this.throttleCheckTimeoutId = null;
      this.checkPendingRequests();
    }, waitMs);
  };
}
