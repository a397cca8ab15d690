import { checkTopics } from "../../cluster/topics.ts";
import type { ClusterConfig } from "../../config/cluster-schema.ts";
import { systemClock } from "../../core/clock.ts";
import { explain } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import { connectKafka } from "../cluster/connect-kafka.ts";
import type { CheckFinding } from "./finding.ts";

const CHECK_MS_MAX = 30_000;

/** Looks at the topics of the cluster, as `run` does; gives the number of its lanes where it can be known. */
export async function* checkClusterTopics(
  cluster: ClusterConfig,
  log: Log,
  signal: AbortSignal,
): AsyncGenerator<CheckFinding, number | undefined> {
  const { name, trial } = cluster;
  const subject = `cluster ${name}`;
  try {
    const link = await connectKafka(cluster, systemClock, log)(signal);
    const { lanes, problems } = await link
      .within(CHECK_MS_MAX, checkTopics(link, name, trial, signal))
      .finally(() => link.end());
    for (const message of problems) yield { subject, ok: false, message };
    if (problems.length === 0)
      yield { subject, ok: true, message: `its topics are there, for ${lanes} lanes` };
    return lanes;
  } catch (error) {
    if (signal.aborted) throw error;
    yield { subject, ok: false, message: explain(error) };
    return undefined;
  }
}
