import type { Consumer, Kafka, PartitionAssigner } from "kafkajs";
import type { KafkaGroup } from "../../../core/kafka.ts";

const LEAVE_MS_MAX = 5000;
/** The library's own number for consumers. */
const RETRIES = 5;

export interface GroupClient {
  readonly library: typeof import("kafkajs");
  readonly kafka: Kafka;
  within<Value>(limitMs: number, promise: Promise<Value>): Promise<Value>;
}

/** Ends when the signal aborts, or when the library gives up. */
export async function joinAsMember(
  client: GroupClient,
  group: KafkaGroup,
  signal: AbortSignal,
): Promise<void> {
  const { sessionTimeoutMs } = group;
  const leaving = new AbortController();
  const consumer = client.kafka.consumer({
    groupId: group.name,
    sessionTimeout: sessionTimeoutMs,
    rebalanceTimeout: sessionTimeoutMs,
    heartbeatInterval: Math.floor(sessionTimeoutMs / 10),
    maxWaitTimeInMs: Math.floor(sessionTimeoutMs / 20),
    allowAutoTopicCreation: false,
    // Started anew by the library, a consumer that was given up would try to connect for ever, beside its successor.
    retry: { retries: RETRIES, restartOnFailure: async () => false },
    partitionAssigners: [assignerOf(client.library, group, leaving.signal)],
  });
  try {
    const ended = watch(consumer, group);
    await consumer.connect();
    await consumer.subscribe({ topic: group.topic });
    await consumer.run({ autoCommit: false, eachMessage: async () => {} });
    await Promise.race([ended, untilAborted(signal)]);
  } finally {
    leaving.abort();
    // The group gives the partitions to others at once when a member says that it leaves.
    await client.within(LEAVE_MS_MAX, consumer.disconnect()).catch(() => {});
  }
}

/** Resolves when the library has given up. */
function watch(consumer: Consumer, group: KafkaGroup): Promise<void> {
  let sentAtMs: number | undefined;
  consumer.on(consumer.events.REQUEST, ({ payload }) => {
    if (payload.apiName === "Heartbeat") sentAtMs = payload.sentAt;
  });
  consumer.on(consumer.events.HEARTBEAT, () => {
    if (sentAtMs !== undefined) group.alive(sentAtMs);
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    group.assigned((payload.memberAssignment[group.topic] ?? []).map(Number));
  });
  return new Promise((resolve) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      group.trouble(payload.error);
      if (!payload.restart) resolve();
    });
    consumer.on(consumer.events.STOP, () => resolve());
  });
}

interface AssignerProtocol {
  readonly MemberMetadata: {
    encode(metadata: { version: number; topics: readonly string[]; userData: Buffer }): Buffer;
    decode(buffer: Buffer): { readonly userData: Buffer } | null;
  };
  readonly MemberAssignment: {
    encode(assignment: { version: number; assignment: Record<string, number[]>; userData: Buffer }): Buffer;
  };
}

function assignerOf(
  library: GroupClient["library"],
  group: KafkaGroup,
  leaving: AbortSignal,
): PartitionAssigner {
  const { MemberMetadata, MemberAssignment } = library.AssignerProtocol as unknown as AssignerProtocol;
  const none = Buffer.alloc(0);
  const protocol: ReturnType<PartitionAssigner> = {
    name: group.assigner,
    version: 1,
    async assign({ members }) {
      const known = members.map(({ memberId, memberMetadata }) => ({
        id: memberId,
        facts: MemberMetadata.decode(memberMetadata)?.userData.toString() ?? "",
      }));
      return [...group.assign(known)].map(([memberId, own]) => ({
        memberId,
        memberAssignment: MemberAssignment.encode({
          version: 1,
          assignment: { [group.topic]: [...own] },
          userData: none,
        }),
      }));
    },
    protocol: ({ topics }) => ({
      name: group.assigner,
      metadata: MemberMetadata.encode({ version: 1, topics, userData: Buffer.from(group.facts()) }),
    }),
  };
  return ({ cluster }) => {
    endFetches(cluster, leaving);
    return protocol;
  };
}

/**
 * The library starts its fetches anew when a broker comes or goes. If it is stopped meanwhile, the new fetches return at
 * once, forever, and no timer or socket of the process gets a turn. It looks at the brokers before every fetch, so a
 * failure there ends them.
 */
function endFetches(cluster: object, leaving: AbortSignal): void {
  const client = cluster as { getNodeIds(): string[] };
  const getNodeIds = client.getNodeIds.bind(client);
  client.getNodeIds = () => {
    if (leaving.aborted) throw new Error("This member is leaving the group.");
    return getNodeIds();
  };
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
