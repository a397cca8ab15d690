// A member of a group that leaves while the client starts its fetches anew, as after the loss of a broker: BROKERS NAME.
import { setTimeout as sleep } from "node:timers/promises";
import kafkajs from "kafkajs";
import { connectKafka } from "../../dist/src/app/cluster/connect-kafka.js";
import { joinGroup } from "../../dist/src/cluster/membership.js";
import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";

const [brokers, name] = process.argv.slice(2);
const connect = connectKafka({ brokers: brokers.split(","), clientId: "test" }, systemClock, silentLog);
const leaving = new AbortController();
/** Two fetches of the one broker, which come one after the other; then one. */
let fetches = 2;
let isSeen = false;

function changeFetches() {
  const { consumer } = kafkajs.Kafka.prototype;
  kafkajs.Kafka.prototype.consumer = function (options) {
    const [assigner] = options.partitionAssigners;
    const counted = ({ cluster, ...rest }) => {
      const getNodeIds = cluster.getNodeIds.bind(cluster);
      cluster.getNodeIds = () => {
        isSeen ||= fetches === 1;
        return Array.from({ length: fetches }, () => getNodeIds()[0]);
      };
      return assigner({ cluster, ...rest });
    };
    return consumer.call(this, { ...options, partitionAssigners: [counted] });
  };
}

changeFetches();
let isJoined = false;
const left = joinGroup(
  {
    ...{ name, lanes: 1, sessionTimeoutMs: 20_000 },
    connect,
    facts: () => ({ machine: "one", schema: 1, laneSchema: 0, config: "", held: [] }),
    assigned: () => {
      isJoined = true;
    },
    alive: () => {},
    trouble: (error) => process.stderr.write(`${error}\n`),
  },
  leaving.signal,
);
while (!isJoined) await sleep(10);
await sleep(2500);
fetches = 1;
while (!isSeen) await sleep(5);
leaving.abort();
await left;
process.stdout.write("left\n");
process.exit(0);
