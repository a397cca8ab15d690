import { hash } from "node:crypto";
import { join } from "node:path";
import type { ArchiveConfig } from "../archive/config.ts";
import type { Config, SinkConfig } from "./schema.ts";
import { archiveBelow } from "./shard.ts";

export function laneFile(directory: string, lane: number): string {
  return join(directory, `lane-${lane}.db`);
}

/** The config of one lane. Everything that two lanes must not share carries the lane's number (C10). */
export function configOfLane(config: Config, lane: number, lanes: number): Config {
  const { cluster, server: _server, ...rest } = config;
  const list = config.sinks as unknown as readonly SinkConfig[];
  return {
    ...rest,
    state: laneFile(config.state, lane),
    shard: { index: lane, count: lanes },
    journal: { ...config.journal, budget: Math.floor(config.journal.budget / lanes) },
    sinks: list.map((sink) => sinkOfLane(sink, cluster!.name, lane)) as unknown as Config["sinks"],
  };
}

export function sinkOfLane(sink: SinkConfig, cluster: string, lane: number): SinkConfig {
  if (sink.type === "archive") return archiveOfLane(sink, lane);
  if (sink.type !== "kafka") return sink;
  const { transactionalId } = sink as SinkConfig & { readonly transactionalId?: string };
  const id = transactionalId ?? `${cluster}.${sink.name}`;
  return { ...sink, transactionalId: `${id}.${lane}` } as SinkConfig;
}

/** An archive of its own for each lane, below the configured origin and prefix. */
export function archiveOfLane(sink: SinkConfig, lane: number): SinkConfig & ArchiveConfig {
  return archiveBelow(sink, `lane-${lane}`);
}

/** C15: what two machines of one cluster must agree on. Secrets do not count. */
export function configDigest({ accounts, sinks, imports }: Config): string {
  return hash("sha256", JSON.stringify({ accounts, sinks, imports })).slice(0, 16);
}
