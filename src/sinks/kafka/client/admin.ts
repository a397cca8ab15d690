import type { Kafka } from "kafkajs";
import type { KafkaAdmin } from "../../../core/kafka.ts";

/** Kafka's number of a topic among the things that have settings. */
const TOPIC = 2;

export async function withAdmin<Value>(
  kafka: Kafka,
  work: (admin: KafkaAdmin) => Promise<Value>,
): Promise<Value> {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await work({
      list: () => admin.listTopics(),
      async describe(names) {
        const { topics } = await admin.fetchTopicMetadata({ topics: [...names] });
        return topics.map(({ name, partitions }) => ({
          name,
          partitions: partitions.map(({ partitionId, leader, replicas }) => ({
            partition: partitionId,
            leader,
            replicas: replicas.length,
          })),
        }));
      },
      async create(topics) {
        await admin.createTopics({
          waitForLeaders: false,
          topics: topics.map(({ topic, partitions, replication, settings }) => ({
            topic,
            numPartitions: partitions,
            replicationFactor: replication,
            configEntries: [...settings],
          })),
        });
      },
      async settings(names, only) {
        const configNames = only === undefined ? {} : { configNames: [...only] };
        const resources = names.map((name) => ({ type: TOPIC, name, ...configNames }));
        const answer = await admin.describeConfigs({ includeSynonyms: false, resources }).catch(typed);
        return new Map(
          answer.resources.map(({ resourceName, configEntries }) => [
            resourceName,
            new Map(configEntries.map(({ configName, configValue }) => [configName, configValue])),
          ]),
        );
      },
      async deleteRecords({ topic, partition }, before) {
        // The client finds the leader only of a topic that it was asked about before.
        await admin.fetchTopicOffsets(topic);
        await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
      },
    });
  } finally {
    await admin.disconnect();
  }
}

/** The client refuses a request that the broker does not know by an error without a type. */
function typed(error: Error): never {
  if (error.name !== "KafkaJSServerDoesNotSupportApiKey") throw error;
  throw Object.assign(new Error(error.message, { cause: error }), { type: "UNSUPPORTED_VERSION" });
}
