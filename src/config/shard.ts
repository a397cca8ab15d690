import { join } from "node:path";
import type { ArchiveConfig } from "../archive/config.ts";
import { type Shard, shardLabel } from "../core/shard.ts";
import { sinks } from "../sinks/index.ts";
import type { Config, SinkConfig } from "./schema.ts";

/** The config of one shard: everything that two shards must not share carries the shard's label. */
export function configOfShard(config: Omit<Config, "shard">, shard: Shard): Config {
  const label = shardLabel(shard);
  const list = config.sinks as unknown as readonly SinkConfig[];
  const own = list.map((sink) => (sink.type === "archive" ? archiveBelow(sink, label) : sinkOf(sink, label)));
  return { ...config, sinks: own as unknown as Config["sinks"], shard };
}

function sinkOf(sink: SinkConfig, label: string): SinkConfig {
  const definition = sinks.find(({ type }) => type === sink.type);
  return (definition?.ofShard?.(sink, label, sink.name) as SinkConfig | undefined) ?? sink;
}

/** An archive's log has one writer, so each shard or lane has an archive of its own below the configured place. */
export function archiveBelow(sink: SinkConfig, label: string): SinkConfig & ArchiveConfig {
  const archive = sink as SinkConfig & ArchiveConfig;
  const { origin, store } = archive;
  return {
    ...archive,
    origin: `${origin}/${label}`,
    store:
      "directory" in store
        ? { directory: join(store.directory, label) }
        : { s3: { ...store.s3, prefix: `${store.s3.prefix ?? ""}${label}/` } },
  };
}
