import { randomBytes } from "node:crypto";
import { connectKafka } from "../../src/app/cluster/connect-kafka.ts";
import { createKafkaChangelog } from "../../src/cluster/kafka-changelog.ts";
import { createTopics, finishTopics, writeBirths } from "../../src/cluster/topics.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";

const never = new AbortController().signal;

/** A cluster's topics of their own, on a broker that is running. */
export async function newCluster(address: string, lanes: number) {
  const name = `test-${randomBytes(5).toString("hex")}`;
  const connect = connectKafka({ brokers: address.split(","), clientId: "test" }, systemClock, silentLog);
  const changelog = createKafkaChangelog({ name, connect, transactionTimeoutMs: 10_000 });
  const link = await connect(never);
  const topics = { name, lanes, replication: 1, trial: true };
  try {
    await createTopics(link, topics);
    await writeBirths(changelog, lanes, never);
    await finishTopics(link, topics);
  } finally {
    link.end();
  }
  return { name, connect, changelog };
}
