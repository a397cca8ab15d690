import type { ConnectKafka } from "../../cluster/link.ts";
import type { Clock } from "../../core/clock.ts";
import type { Log } from "../../core/log.ts";
import { withCluster } from "../../sinks/kafka/cluster.ts";
import type { KafkaConfig, KafkaContext } from "../../sinks/kafka/config.ts";
import { connect } from "../../sinks/kafka/connect.ts";

export type KafkaAccess = Pick<KafkaConfig, "brokers" | "clientId"> &
  Partial<Pick<KafkaConfig, "tls" | "sasl">>;

/** The cluster connects to Kafka as the Kafka sink does. */
export function connectKafka(access: KafkaAccess, clock: Clock, log: Log): ConnectKafka {
  return async (signal) => {
    const config = { ...access, compression: "gzip" } as KafkaConfig;
    const connection = await connect({ config, clock, log, signal } as KafkaContext);
    const { kafka, codec, end, within } = connection;
    return {
      kafka,
      compression: codec.number,
      end,
      within,
      withBrokers: (work) => withCluster(connection, work),
    };
  };
}
