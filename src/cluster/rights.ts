import { UsageError } from "../core/errors.ts";
import { COORDINATOR_NOT_FOUND, errorTypes } from "../core/kafka.ts";

type Refusal = (name: string) => string;

/** By the broker's word for the refusal: what the user of the cluster lacks. */
const REFUSALS: Readonly<Record<string, Refusal>> = {
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (name) =>
    `does not let this user write as "${name}.lane.…": allow it Write and Describe on transactional ids with the prefix "${name}."`,
  TOPIC_AUTHORIZATION_FAILED: (name) =>
    `does not let this user use a topic of the cluster: allow it Read, Write, Describe, DescribeConfigs and Delete on topics with the prefix "${name}.", and Create for "tidemark cluster create"`,
  GROUP_AUTHORIZATION_FAILED: (name) =>
    `does not let this user join the group that divides the lanes: allow it Read on the group "${name}"`,
  CLUSTER_AUTHORIZATION_FAILED: () =>
    "refuses this user an operation on the whole Kafka cluster: allow it IdempotentWrite on brokers before 2.8",
};

/** Explains a refusal of Kafka and names the right to allow; undefined for other errors. */
export function refusedRight(error: unknown, name: string): UsageError | undefined {
  const refusal = errorTypes(error)
    .map((type) => REFUSALS[type])
    .find((one) => one !== undefined);
  if (refusal === undefined) return undefined;
  return new UsageError(
    `Kafka ${refusal(name)}. docs/cluster.md lists all rights. Nothing is lost meanwhile.`,
    {
      cause: error,
    },
  );
}

/** The client keeps no reason when it is shown no coordinator, which a missing right causes too. */
export function inWords(error: unknown, name: string): unknown {
  const refused = refusedRight(error, name);
  if (refused !== undefined || !errorTypes(error).includes(COORDINATOR_NOT_FOUND)) return refused ?? error;
  return new Error(
    `Kafka names no coordinator for the lane: its brokers are starting, or this user lacks Describe on transactional ids with the prefix "${name}.".`,
    { cause: error },
  );
}
