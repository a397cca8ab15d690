import type { TopicRights } from "../../../core/kafka.ts";
import type { InternalCluster } from "./internals.ts";

/*
 * Metadata requests of version 8, which kafkajs does not have: only these say what the user may do with a topic.
 * The request names the topics and asks for the operations; the response has a bit field for each topic.
 */

const METADATA = 3;
const VERSION = 8;
const ENCODER = "kafkajs/src/protocol/encoder.js";
/** The bits of the operations, as AclOperation numbers them. */
const OPERATIONS = { read: 3, write: 4 } as const;
const NOT_PROVIDED = -2_147_483_648;

interface Encoder {
  writeArray(values: readonly string[], type: "string"): Encoder;
  writeBoolean(value: boolean): Encoder;
}

/** Undefined for brokers that do not know this version of the request. */
export async function rightsOf(
  cluster: InternalCluster,
  topics: readonly string[],
): Promise<readonly TopicRights[] | undefined> {
  await cluster.refreshMetadata();
  const broker = await cluster.findControllerBroker();
  if ((broker.versions?.[METADATA]?.maxVersion ?? 0) < VERSION) return undefined;
  const { default: Encoder } = (await import(ENCODER)) as { default: new () => Encoder };
  return broker.connectionPool.send({
    request: {
      apiKey: METADATA,
      apiVersion: VERSION,
      apiName: "Metadata",
      encode: async () =>
        new Encoder()
          .writeArray(topics, "string")
          // Create no topic; no rights on the cluster; rights on the topics.
          .writeBoolean(false)
          .writeBoolean(false)
          .writeBoolean(true),
    },
    response: { decode: async (raw) => decodeRights(raw), parse: async (decoded) => decoded },
  });
}

function decodeRights(raw: Buffer): readonly TopicRights[] {
  let at = 0;
  const passed = (length: number) => {
    at += length;
    return at - length;
  };
  const int16 = () => raw.readInt16BE(passed(2));
  const int32 = () => raw.readInt32BE(passed(4));
  const text = () => {
    const from = passed(Math.max(0, int16()));
    return raw.toString("utf8", from, at);
  };
  const list = <Item>(item: () => Item) => Array.from({ length: Math.max(0, int32()) }, item);
  int32(); // throttle_time_ms
  list(() => [int32(), text(), int32(), text()]); // brokers
  text(); // cluster_id
  int32(); // controller_id
  return list(() => {
    const error = int16();
    const name = text();
    passed(1); // is_internal
    const partitions = list(() => [
      int16(),
      int32(),
      int32(),
      int32(),
      list(int32),
      list(int32),
      list(int32),
    ]);
    const bits = int32();
    const allows =
      bits === NOT_PROVIDED
        ? undefined
        : (operation: keyof typeof OPERATIONS) => ((bits >> OPERATIONS[operation]) & 1) === 1;
    return { name, error, partitions: partitions.length, allows };
  });
}
