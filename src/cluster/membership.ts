import type { Consumer, PartitionAssigner } from "kafkajs";
import { assignLanes, type GroupMember, type MemberFacts } from "./assign.ts";
import type { ConnectKafka, KafkaLink } from "./link.ts";
import type { FenceInstant } from "./self-fence.ts";
import { topicsOf } from "./topic-names.ts";

/*
 * Membership in the group that divides the lanes. The group says who should run a lane; the fence of the changelog says
 * who may. States: joining, joined (heartbeats succeed), lost (the client has given up; a new one joins after a while).
 */

export interface MembershipOptions {
  readonly name: string;
  readonly lanes: number;
  readonly sessionTimeoutMs: number;
  readonly connect: ConnectKafka;
  /** Asked at every join. */
  facts(): MemberFacts;
  /** The lanes that this machine should run now. */
  assigned(lanes: readonly number[]): void;
  /** A heartbeat that was sent at this time has succeeded. */
  alive(sentAt: FenceInstant): void;
  /** The client reports; for the log. */
  trouble(error: unknown): void;
}

const ASSIGNER = "tidemark-lanes";
const AGAIN_MS = 2000;

/** Takes part in the group until the signal aborts. */
export async function joinGroup(options: MembershipOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await joinOnce(options, signal).catch(options.trouble);
    await Promise.race([new Promise((resolve) => setTimeout(resolve, AGAIN_MS)), untilAborted(signal)]);
  }
}

/** Ends when the signal aborts, or when the client gives up. */
async function joinOnce(options: MembershipOptions, signal: AbortSignal): Promise<void> {
  const link = await options.connect(signal);
  const { sessionTimeoutMs } = options;
  const leaving = new AbortController();
  const consumer = link.kafka.consumer({
    groupId: options.name,
    sessionTimeout: sessionTimeoutMs,
    rebalanceTimeout: sessionTimeoutMs,
    heartbeatInterval: Math.floor(sessionTimeoutMs / 10),
    maxWaitTimeInMs: Math.floor(sessionTimeoutMs / 20),
    allowAutoTopicCreation: false,
    partitionAssigners: [assigner(options, await memberMetadata(), leaving.signal)],
  });
  try {
    const ended = watch(consumer, options);
    await consumer.connect();
    await consumer.subscribe({ topic: topicsOf(options.name).lanes });
    await consumer.run({ autoCommit: false, eachMessage: async () => {} });
    await Promise.race([ended, untilAborted(signal)]);
  } finally {
    leaving.abort();
    await leave(consumer, link);
  }
}

const LEAVE_MS_MAX = 5000;

/** The group gives the lanes to others at once when a member says that it leaves. */
async function leave(consumer: Consumer, link: KafkaLink): Promise<void> {
  await link.within(LEAVE_MS_MAX, consumer.disconnect()).catch(() => {});
  link.end();
}

/** Resolves when the client has given up. */
function watch(consumer: Consumer, options: MembershipOptions): Promise<void> {
  let sentAt: FenceInstant | undefined;
  consumer.on(consumer.events.REQUEST, ({ payload }) => {
    if (payload.apiName !== "Heartbeat") return;
    const wallMs = payload.sentAt;
    sentAt = { wallMs, monotonicMs: performance.now() - Math.max(0, Date.now() - wallMs) };
  });
  consumer.on(consumer.events.HEARTBEAT, () => {
    if (sentAt !== undefined) options.alive(sentAt);
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const lanes = payload.memberAssignment[topicsOf(options.name).lanes] ?? [];
    options.assigned(lanes.map(Number));
  });
  return new Promise((resolve) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      options.trouble(payload.error);
      if (!payload.restart) resolve();
    });
    consumer.on(consumer.events.STOP, () => resolve());
  });
}

interface MemberMetadata {
  encode(metadata: { version: number; topics: readonly string[]; userData: Buffer }): Buffer;
  decode(buffer: Buffer): { readonly userData: Buffer } | null;
}

async function memberMetadata(): Promise<{ MemberMetadata: MemberMetadata; MemberAssignment: Encoder }> {
  const { AssignerProtocol } = (await import("kafkajs")).default;
  return AssignerProtocol as unknown as { MemberMetadata: MemberMetadata; MemberAssignment: Encoder };
}

interface Encoder {
  encode(assignment: { version: number; assignment: Record<string, number[]>; userData: Buffer }): Buffer;
}

function assigner(
  { name, lanes, facts }: MembershipOptions,
  { MemberMetadata, MemberAssignment }: { MemberMetadata: MemberMetadata; MemberAssignment: Encoder },
  leaving: AbortSignal,
): PartitionAssigner {
  const topic = topicsOf(name).lanes;
  const none = Buffer.alloc(0);
  const protocol: ReturnType<PartitionAssigner> = {
    name: ASSIGNER,
    version: 1,
    async assign({ members }) {
      const known = members.map(({ memberId, memberMetadata }): GroupMember => {
        const text = MemberMetadata.decode(memberMetadata)?.userData.toString() ?? "";
        return { id: memberId, facts: JSON.parse(text) as MemberFacts };
      });
      return [...assignLanes(known, lanes)].map(([memberId, own]) => ({
        memberId,
        memberAssignment: MemberAssignment.encode({
          version: 1,
          assignment: { [topic]: [...own] },
          userData: none,
        }),
      }));
    },
    protocol: ({ topics }) => ({
      name: ASSIGNER,
      metadata: MemberMetadata.encode({ version: 1, topics, userData: Buffer.from(JSON.stringify(facts())) }),
    }),
  };
  return ({ cluster }) => {
    endFetches(cluster, leaving);
    return protocol;
  };
}

/**
 * The client starts its fetches anew when a broker comes or goes. If it is stopped meanwhile, the new fetches return at
 * once, forever, and no timer or socket of the process gets a turn. It looks at the brokers before every fetch, so a
 * failure there ends them.
 */
function endFetches(cluster: object, leaving: AbortSignal): void {
  const client = cluster as { getNodeIds(): string[] };
  const getNodeIds = client.getNodeIds.bind(client);
  client.getNodeIds = () => {
    if (leaving.aborted) throw new Error("This machine is leaving the group.");
    return getNodeIds();
  };
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
