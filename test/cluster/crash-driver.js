// A member of a group whose client crashes, as when all brokers are away for a while: BROKERS NAME. Says whether the library
// starts the crashed client again by itself, for each of two crashes.
import kafkajs from "kafkajs";
import { connectKafka } from "../../dist/src/app/cluster/connect-kafka.js";
import { joinGroup } from "../../dist/src/cluster/membership.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";

const [brokers, name] = process.argv.slice(2);
const connect = connectKafka({ brokers: brokers.split(","), clientId: "test" }, systemClock, silentLog);
const leaving = new AbortController();
const restarts = [];
let isAway = false;

const { consumer } = kafkajs.Kafka.prototype;
kafkajs.Kafka.prototype.consumer = function (options) {
  const [assigner] = options.partitionAssigners;
  const failing = ({ cluster, ...rest }) => {
    const getNodeIds = cluster.getNodeIds.bind(cluster);
    cluster.getNodeIds = () => {
      if (isAway) throw new kafkajs.KafkaJSConnectionError("the broker is away");
      return getNodeIds();
    };
    return assigner({ cluster, ...rest });
  };
  const made = consumer.call(this, { ...options, partitionAssigners: [failing] });
  made.on(made.events.CRASH, ({ payload }) => {
    restarts.push(payload.restart);
    isAway = false;
    if (restarts.length === 2) leaving.abort();
  });
  return made;
};

await joinGroup(
  {
    ...{ name, lanes: 1, sessionTimeoutMs: 20_000 },
    connect,
    facts: () => ({ machine: "one", schema: 1, laneSchema: 0, config: "", held: [] }),
    assigned: () => {
      isAway = true;
    },
    alive: () => {},
    trouble: () => {},
  },
  leaving.signal,
);
process.stdout.write(`${restarts}\n`);
process.exit(0);
