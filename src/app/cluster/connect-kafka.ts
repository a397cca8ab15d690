import type { Clock } from "../../core/clock.ts";
import type { ConnectKafka } from "../../core/kafka.ts";
import type { Log } from "../../core/log.ts";
import { connect } from "../../sinks/kafka/client/connect.ts";
import type { KafkaConfig, KafkaContext } from "../../sinks/kafka/config.ts";

export type KafkaAccess = Pick<KafkaConfig, "brokers" | "clientId"> &
  Partial<Pick<KafkaConfig, "tls" | "sasl">>;

/** The cluster connects to Kafka as the Kafka sink does. */
export function connectKafka(access: KafkaAccess, clock: Clock, log: Log): ConnectKafka {
  const config = { ...access, compression: "gzip" } as KafkaConfig;
  return (signal) => connect({ config, clock, log, signal } as KafkaContext);
}
