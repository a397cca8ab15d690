import { refuseForeignAnswers } from "./answers.ts";

/** The parts of kafkajs's request queue that are used here. */
interface RequestQueue {
  readonly pending: readonly unknown[];
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  checkPendingRequests(): void;
  scheduleCheckPendingRequests(): void;
}

const IS_REPAIRED = Symbol("isRepaired");

/** The parts of kafkajs's cluster that are used here. */
interface Cluster {
  retrier<Value>(attempt: (bail: (error: unknown) => void) => Promise<Value>): Promise<Value>;
  metadata(of?: object): Promise<object | null>;
  [IS_REPAIRED]?: boolean;
}

const CLUSTER = "kafkajs/src/cluster/index.js";
const QUEUE = "kafkajs/src/network/requestQueue/index.js";
const CHECK_MS = 10;

/** The repairs are of kafkajs's own classes, so they are made once for the process. */
export async function repairLibrary(): Promise<void> {
  await Promise.all([calmRequestQueues(), keepMetadataErrors(), refuseForeignAnswers()]);
}

/**
 * kafkajs 2.2.4 answers a question about topics with null when no broker could answer it, and fails with a TypeError
 * on it (seen: another program was just making a topic, which has no leader for a moment). With this it asks again.
 */
async function keepMetadataErrors(): Promise<void> {
  const { default: cluster } = (await import(CLUSTER)) as { default: { prototype: Cluster } };
  const { metadata, [IS_REPAIRED]: isRepaired } = cluster.prototype;
  if (isRepaired) return;
  cluster.prototype[IS_REPAIRED] = true;
  cluster.prototype.metadata = function (this: Cluster, of) {
    return this.retrier(async (bail) => {
      const answer = await metadata.call(this, of).catch((error: unknown) => {
        bail(error);
        return undefined;
      });
      if (answer === null) throw new Error("No Kafka broker answered the question about topics.");
      return answer as object;
    });
  };
}

/**
 * kafkajs 2.2.4 sets a timer after every answer whether or not a request waits, with a time in the past,
 * and again each time it fires: a thousand wake-ups a second on an idle connection (seen: 4% of a core),
 * and a warning from newer versions of Node. With this the timer is set for requests that wait alone.
 */
async function calmRequestQueues(): Promise<void> {
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
