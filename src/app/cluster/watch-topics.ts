import { checkTopics } from "../../cluster/topics.ts";
import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Alarms } from "../../core/alarms.ts";
import { UsageError } from "../../core/errors.ts";
import type { ConnectKafka, KafkaClient } from "../../core/kafka.ts";
import { pause } from "../../core/pause.ts";

export interface WatchedTopics {
  readonly cluster: Pick<ClusterConfig, "name" | "trial">;
  readonly connect: ConnectKafka;
  readonly alarms: Alarms;
  /** The cluster's id when this machine started. */
  readonly id: string | undefined;
}

const WATCH_MS = 60_000;
const CHECK_MS_MAX = 30_000;

/**
 * Settings are checked at the start (C7), but they can be changed later, and topics can be deleted or made again. A lane
 * that runs may notice nothing of it, while a takeover would find its state gone.
 */
export async function watchTopics(
  { cluster, connect, alarms, id }: WatchedTopics,
  signal: AbortSignal,
  everyMs = WATCH_MS,
): Promise<void> {
  const { name, trial } = cluster;

  async function problemsNow(): Promise<readonly string[] | undefined> {
    let link: KafkaClient | undefined;
    try {
      link = await connect(signal);
      const found = await link.within(CHECK_MS_MAX, checkTopics(link, name, trial, signal));
      if (found.cluster === id) return found.problems;
      const now = found.cluster === undefined ? "has no birth record" : `is the cluster ${found.cluster}`;
      return [
        `${name}.state was made again while this machine ran: it was the cluster ${id}, and now it ${now}.`,
      ];
    } catch (error) {
      // Without an answer of Kafka there is nothing to say about the topics; other alarms tell of that.
      return error instanceof UsageError ? [error.message] : undefined;
    } finally {
      link?.end();
    }
  }

  while (!signal.aborted) {
    await pause(everyMs, signal);
    const problems = signal.aborted ? undefined : await problemsNow();
    if (problems === undefined) continue;
    if (problems.length === 0) alarms.clear("cluster_topics", name);
    else
      alarms.raise({
        kind: "cluster_topics",
        subject: name,
        message: `The topics of the cluster are not as they must be: ${problems.join(" ")}`,
        remedy:
          "Correct them before a machine ends: the files of the running machines have the state, and a machine that takes a lane over may find less in Kafka.",
        severity: "critical",
      });
  }
}
