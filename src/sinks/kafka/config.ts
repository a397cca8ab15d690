import { z } from "zod";
import { plainHttpSchema } from "../../core/http/plain-http.ts";
import { durationSchema, sizeSchema, tlsSchema } from "../../core/schema.ts";
import { secretSchema } from "../../core/secret.ts";
import type { SinkContext } from "../../core/sink.ts";
import { checkTemplate } from "./topic-names.ts";

const username = z.string().min(1).meta({ description: "The user." });
const password = secretSchema("The user's password.");

const saslSchema = z
  .discriminatedUnion("mechanism", [
    z.strictObject({
      mechanism: z
        .enum(["plain", "scram_sha_256", "scram_sha_512"])
        .meta({ description: "How the brokers know us: by name and password." }),
      username,
      password,
    }),
    z.strictObject({
      mechanism: z.literal("oauthbearer").meta({ description: "By a token of an authorization server." }),
      tokenUrl: z
        .url({ protocol: /^https?$/ })
        .meta({ description: "The token endpoint of the authorization server (client credentials grant)." }),
      clientId: z.string().min(1).meta({ description: "The client's id at the authorization server." }),
      clientSecret: secretSchema("The client's secret at the authorization server."),
      scope: z.string().optional().meta({ description: "The scope to ask for." }),
      plainHttp: plainHttpSchema,
    }),
    z.strictObject({
      mechanism: z.literal("aws_msk_iam").meta({
        description: "By AWS credentials, at Amazon MSK; needs `tls: {}` and the brokers' port 9098.",
      }),
      region: z.string().min(1).meta({ description: "The AWS region of the cluster." }),
    }),
  ])
  .meta({ description: "How to log in; without it, not at all." });

const compressionSchema = z.enum(["none", "gzip", "snappy", "lz4", "zstd"]);
export type KafkaCompression = z.output<typeof compressionSchema>;

export const kafkaSchema = z.strictObject({
  brokers: z
    .array(z.string().regex(/^[^\s:/]+:\d{1,5}$/, { error: "write a broker as host:port" }))
    .min(1)
    .meta({ description: "Brokers to ask first, as `host:port`; the others are learned from them." }),
  topic: z
    .string()
    .superRefine((template, check) => {
      const problem = checkTemplate(template);
      if (problem !== undefined) check.addIssue({ code: "custom", message: problem });
    })
    .meta({
      description:
        "The topic, or a template of {account}, {organization} and {service}: `audit-{organization}`.",
    }),
  delivery: z.enum(["exactly_once", "at_least_once"]).default("exactly_once").meta({
    description:
      "With at_least_once no transaction and no positions topic are used, for brokers that lack or deny transactions, such as Azure Event Hubs below its premium tier. A crash can then write a batch twice.",
  }),
  key: z.enum(["organization", "identity", "none"]).default("organization").meta({
    description:
      "The key of a record. By organization its events stay in one partition and in order; by identity, or without a key, they are spread evenly.",
  }),
  positionsTopic: z
    .string()
    .regex(/^[a-zA-Z0-9._-]{1,249}$/, { error: "letters, digits, `.`, `_` and `-`, at most 249" })
    .default("tidemark-positions")
    .meta({
      description: "The compacted topic that holds the position, written in one transaction with the events.",
    }),
  transactionalId: z.string().min(1).max(200).optional().meta({
    description:
      "Who this sink is to Kafka, also the key of its position; by default `tidemark-` and the sink's name. Must differ wherever two installations share a cluster.",
  }),
  createTopics: z
    .strictObject({
      partitions: z.int().min(1).max(10_000).meta({ description: "Partitions of a new topic of events." }),
      replication: z.int().min(1).max(32).meta({ description: "Replicas of a new topic." }),
    })
    .optional()
    .meta({
      description:
        "Creates topics that are missing; without it a missing topic pauses the sink. A topic that the sink has delivered events to, exactly once, is not created again.",
    }),
  compression: compressionSchema.optional().meta({
    description:
      "How batches are compressed: zstd unless stated, which needs Kafka 2.1; with `delivery: at_least_once` gzip unless stated, because Azure Event Hubs takes nothing else. snappy and lz4 need the package kafkajs-snappy or kafkajs-lz4.",
  }),
  tls: tlsSchema.optional().meta({
    description: "Present, if only as `{}`: connect by TLS. The broker's certificate is always verified.",
  }),
  sasl: saslSchema.optional(),
  clientId: z
    .string()
    .min(1)
    .default("tidemark")
    .meta({ description: "The client's name in the brokers' logs." }),
  batchRecordsMax: z
    .int()
    .min(1)
    .max(100_000)
    .default(10_000)
    .meta({ description: "Events in one transaction." }),
  batchBytesMax: sizeSchema("Bytes of events in one transaction, before compression.", {
    min: 1024,
    max: 64_000_000,
  }).default(8_000_000),
  transactionTimeout: durationSchema(
    "After this time the brokers abort a transaction that was not ended; readers wait for it.",
    { minMs: 1_000, maxMs: 900_000 },
  ).default(60_000),
  openTimeout: durationSchema(
    "How long to wait at opening for another producer's open transaction that holds a position of this sink.",
    { minMs: 1_000, maxMs: 900_000 },
  ).default(90_000),
});

export type KafkaConfig = z.output<typeof kafkaSchema>;
export type KafkaContext = SinkContext<KafkaConfig>;

/** Brokers without transactions are mostly Azure Event Hubs, which takes gzip alone. */
export function kafkaCompressionOf({
  compression,
  delivery,
}: Pick<KafkaConfig, "compression" | "delivery">): KafkaCompression {
  return compression ?? (delivery === "at_least_once" ? "gzip" : "zstd");
}

/** Survives openings in one process. */
export function memoryOf({ memory }: KafkaContext): Map<string, unknown> {
  return memory ?? new Map();
}

/** Warnings that need nothing but the config. */
export function advise(config: KafkaConfig): readonly string[] {
  const words: string[] = [];
  if (config.delivery === "at_least_once") {
    words.push("delivery is at_least_once: after a crash some events can be in the topic twice.");
  }
  if (config.sasl && !config.tls) {
    words.push("sasl without tls: credentials and events cross the network in the clear; add `tls: {}`.");
  }
  if (config.createTopics?.replication === 1) {
    words.push("createTopics.replication is 1: what Kafka holds is lost with a single disk.");
  }
  return words;
}
