import { testChangelog } from "../contract/changelog.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();

testChangelog(
  "Kafka",
  async () => {
    const { changelog } = await newCluster(suite.address, 2);
    return { changelog, close: async () => {} };
  },
  suite.skip,
);
