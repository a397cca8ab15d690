import { z } from "zod";
import { count, ms } from "./fields.ts";
import { alarmSchema } from "./status.ts";

/** One process as the page of another shows it. */
const peerSchema = z.strictObject({
  address: z.string().nullable().meta({ description: "null: the process that answers." }),
  problem: z
    .string()
    .nullable()
    .meta({ description: "Why nothing is known of it: it does not answer, or refuses the token." }),
  shard: z.string().nullable(),
  version: z.string().nullable(),
  health: z.enum(["good", "degraded", "bad", "unknown"]),
  headline: z.string(),
  startedMs: ms.nullable(),
  organizations: count,
  events: count,
  deadLetters: count,
  gaps: count,
  liveLagMs: ms.nullable(),
  lossInMs: ms.nullable(),
  sinks: z.strictObject({
    running: count,
    all: count,
    worst: z
      .strictObject({
        name: z.string(),
        state: z.string(),
        lagEvents: count,
        lagMs: ms,
        isFiltered: z.boolean(),
      })
      .nullable()
      .meta({ description: "The sink that is furthest behind or does not run; null: all have everything." }),
  }),
  lanes: z
    .array(
      z.strictObject({
        lane: count,
        state: z.string(),
        sinceMs: ms,
        behindEvents: count,
        reason: z.string().nullable(),
      }),
    )
    .nullable()
    .meta({ description: "The lanes of a machine of a cluster; null: it is a shard." }),
  alarms: z.array(z.object({ ...alarmSchema.shape, kind: z.string() })),
});
export type PeerView = Readonly<z.output<typeof peerSchema>>;

export const peersSchema = z.strictObject({
  configured: z.boolean().meta({ description: "Whether the config lists other shards, or has a cluster." }),
  kind: z.enum(["shards", "machines"]),
  problems: z
    .array(z.string())
    .meta({ description: "Shards that no listed process reads, and shards that two of them read." }),
  totals: z.strictObject({
    processes: count,
    answering: count,
    organizations: count,
    events: count,
    deadLetters: count,
    alarms: count,
  }),
  peers: z.array(peerSchema).meta({ description: "The worst first." }),
});
export type PeersView = Readonly<z.output<typeof peersSchema>>;
