import { z } from "zod";
import { topicsOf } from "../cluster/topic-names.ts";
import { durationSchema } from "../core/schema.ts";
import { kafkaSchema } from "../sinks/kafka/config.ts";

const { brokers, tls, sasl, clientId } = kafkaSchema.shape;

export const clusterSchema = z
  .strictObject({
    name: z
      .string()
      .regex(/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}$/, {
        error: "up to 100 letters, digits, dashes and underscores",
      })
      .meta({
        description: "The cluster's name: the prefix of its topics, its group and its transactional ids.",
      }),
    brokers,
    tls,
    sasl,
    clientId,
    machine: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/, {
        error: "up to 100 letters, digits, dots, dashes and underscores",
      })
      .optional()
      .meta({
        description:
          "This machine's name on the page and in logs; by default the host name and a hash of `state`.",
      }),
    sessionTimeout: durationSchema(
      "A machine that does not answer for this long loses its lanes to the others. Nothing is sent to a sink unless Kafka has confirmed the lane within a third of it.",
      { minMs: 6_000, maxMs: 300_000 },
    ).prefault("10s"),
    trial: z.boolean().default(false).meta({
      description: "Accepts topics with fewer than three replicas, to try a cluster with one broker.",
    }),
  })
  .meta({
    description:
      "Runs this process as one machine of a cluster: the state is kept in Kafka, `state` is a directory of copies, and any machine can take over any part of the work. See docs/cluster.md.",
  });

export type ClusterConfig = z.output<typeof clusterSchema>;

/** C11: a takeover happens on another machine, where the files of such a sink are not. */
const LOCAL_SINKS: Readonly<Record<string, string>> = {
  file: "writes files of this machine",
  console: "writes to the output of this machine",
};

/** Parts of a config that a cluster cannot have. */
export function checkCluster(
  config: { readonly cluster?: unknown; readonly shard?: unknown; readonly sinks?: unknown },
  context: z.core.$RefinementCtx<unknown>,
): void {
  if (config.cluster === undefined) return;
  const add = (path: (string | number)[], message: string, input: unknown) =>
    context.addIssue({ code: "custom", path, message, input });
  if (config.shard !== undefined)
    add(["shard"], "a cluster divides the work by itself: remove shard or cluster", config.shard);
  if (!Array.isArray(config.sinks)) return;
  for (const [index, sink] of config.sinks.entries()) {
    const { type, store } = (sink ?? {}) as { readonly type?: string; readonly store?: object };
    for (const { key, message } of clashes(config.cluster, sink)) add(["sinks", index, key], message, sink);
    if (type === "archive" && store !== undefined && !("s3" in store))
      add(
        ["sinks", index, "store"],
        "is a directory of one machine, and another one may continue: keep the archive of a cluster in S3 (store: { s3: … })",
        store,
      );
    const reason = LOCAL_SINKS[type ?? ""];
    if (reason !== undefined)
      add(
        ["sinks", index, "type"],
        `${reason}, and another one may continue: use a sink that all machines reach`,
        type,
      );
  }
}

interface Clash {
  readonly key: string;
  readonly message: string;
}

/** C10: names of a Kafka sink that are the cluster's own. Events would mix with the state, or the two would fence each other. */
function clashes(cluster: unknown, sink: unknown): readonly Clash[] {
  const { name: own } = (cluster ?? {}) as { readonly name?: string };
  const { type, name, transactionalId, ...topics } = (sink ?? {}) as Readonly<Record<string, unknown>>;
  if (type !== "kafka" || own === undefined) return [];
  const taken = Object.values(topicsOf(own));
  const found = ["topic", "positionsTopic"]
    .filter((key) => taken.includes(topics[key] as string))
    .map((key) => ({ key, message: `${topics[key]} is a topic of the cluster itself: choose another one` }));
  if ((transactionalId ?? `${own}.${name}`) !== `${own}.lane`) return found;
  const key = transactionalId === undefined ? "name" : "transactionalId";
  return [
    ...found,
    {
      key,
      message: `gives the sink the transactional ids of the cluster's lanes, ${own}.lane.N: choose another one`,
    },
  ];
}
