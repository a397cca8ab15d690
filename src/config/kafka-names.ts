import { shardLabel } from "../core/shard.ts";
import type { Config, SinkConfig } from "./schema.ts";

type KafkaConfig = SinkConfig & { readonly delivery?: string; readonly transactionalId?: string };

/**
 * Kafka holds a sink's position under its transactional id, which has the sink's name in it unless the config gives one.
 * Gives the id that a renamed sink needs in the config to find its position; undefined where it needs none.
 */
export function idOfRenamed(config: Config, from: string, to: string): string | undefined {
  const list = config.sinks as unknown as readonly KafkaConfig[];
  const sink = list.find(({ name }) => name === to);
  if (sink?.type !== "kafka" || sink.delivery !== "exactly_once") return undefined;
  const idOf = (name: string) =>
    config.cluster === undefined ? `tidemark-${name}` : `${config.cluster.name}.${name}`;
  const ending = config.shard === undefined ? "" : `-${shardLabel(config.shard)}`;
  const { transactionalId } = sink;
  // The config of a shard always has one. Elsewhere the user chose it.
  if (transactionalId !== undefined && ending === "") return undefined;
  return transactionalId === undefined || transactionalId === `${idOf(to)}${ending}` ? idOf(from) : undefined;
}
