import { PausedError } from "../../core/errors.ts";
import type { KafkaAdmin, KafkaBrokers, KafkaClient, TopicRights } from "../../core/kafka.ts";
import { connect } from "./client/connect.ts";
import type { KafkaContext } from "./config.ts";
import { readDelivered } from "./delivered.ts";
import { inTermsOfDelivery } from "./errors.ts";
import { positionPlaceOf, readPosition } from "./positions.ts";
import { goneTopics, missingTopics, partitionsOf, requirePolicies, topicSettingsOf } from "./topics.ts";
import { idOf } from "./transactions.ts";

const PROBE_MS_MAX = 60_000;
const READ_MS_MAX = 5000;
/** Kafka's error codes. */
const UNKNOWN_TOPIC = 3;
const TOPIC_DENIED = 29;

/**
 * Asks for topics, their settings and the user's rights. It opens no producer: InitProducerId would end the
 * transaction of a running process.
 */
export async function probeKafka(context: KafkaContext): Promise<readonly string[]> {
  context.signal.throwIfAborted();
  const client = await connect(context);
  const stop = () => client.end();
  context.signal.addEventListener("abort", stop, { once: true });
  try {
    const work = client.brokers((brokers) => probe(brokers, client, context));
    return await client.within(PROBE_MS_MAX, work);
  } catch (error) {
    context.signal.throwIfAborted();
    throw inTermsOfDelivery(error, "Kafka cannot be checked");
  } finally {
    context.signal.removeEventListener("abort", stop);
    client.end();
  }
}

async function probe(brokers: KafkaBrokers, client: KafkaClient, context: KafkaContext) {
  const { config } = context;
  const remarks: string[] = [];
  const isExact = config.delivery === "exactly_once";
  const isFixed = !config.topic.includes("{");
  if (!isFixed) remarks.push("Topics with names from events are checked when the first event goes there.");
  const names = [...(isFixed ? [config.topic] : []), ...(isExact ? [config.positionsTopic] : [])];
  const rights = await brokers.rights(names);
  if (rights === undefined) remarks.push("This broker does not say what the user may do with a topic.");
  await client.admin(async (admin) => {
    const found = rights === undefined ? await partitionsOf(admin, names) : partitionsIn(rights);
    remarks.push(...(await lookForGone(admin, found)));
    await lookForPosition(found.get(config.positionsTopic));
    const missing = names.filter((name) => !found.has(name));
    if (missing.length > 0 && !config.createTopics) throw missingTopics(missing, config);
    for (const name of missing) remarks.push(`The topic ${name} does not exist yet; \`run\` creates it.`);
    for (const topic of rights ?? []) requireRights(topic, config.positionsTopic);
    const there = names.filter((name) => found.has(name));
    if (there.length > 0) requirePolicies(await topicSettingsOf(admin, there), config);
  });
  // Finding the coordinator needs a right on the transactional id and starts no transaction.
  if (isExact) {
    await brokers.findCoordinator(idOf(context));
  }
  return remarks;

  /** The state remembers where the position was, so there was one: without it `run` stops the sink and asks. */
  async function lookForPosition(partitions: number | undefined): Promise<void> {
    const from = positionPlaceOf(context.state);
    if (!isExact || from === undefined) return;
    const { clock, signal } = context;
    if (partitions !== undefined) {
      const place = { topic: config.positionsTopic, partitions, key: idOf(context), from };
      const { held, undecidedIn } = await readPosition(client, {
        ...place,
        waitMs: READ_MS_MAX,
        clock,
        signal,
      });
      // A transaction that is open belongs to a process that runs.
      if (held !== undefined || undecidedIn !== undefined) return;
    }
    throw new PausedError(
      `The topic ${config.positionsTopic} holds no position of this sink, although the state has one: the topic was deleted, or these are other brokers.`,
      `check that brokers, positionsTopic and transactionalId are right; otherwise \`run\` stops the sink, and \`tidemark sinks resume\` says where it goes on`,
    );
  }

  /** Throws for a fixed topic as opening does; one that is named by events matters only when the next one goes there. */
  async function lookForGone(admin: KafkaAdmin, found: ReadonlyMap<string, number>): Promise<string[]> {
    const topic = config.positionsTopic;
    const partitions = found.get(topic);
    if (partitions === undefined || (isFixed && found.has(config.topic))) return [];
    const { clock, signal } = context;
    const delivered = await readDelivered(brokers, { topic, partitions, key: idOf(context), clock, signal });
    const [beginning] = config.topic.split("{") as [string];
    const used = [...delivered].filter((name) => (isFixed ? name === beginning : name.startsWith(beginning)));
    const there = isFixed ? found : await partitionsOf(admin, used);
    const gone = used.filter((name) => !there.has(name));
    if (gone.length === 0) return [];
    const error = goneTopics(gone, config);
    if (isFixed) throw error;
    return [`${error.message} The sink pauses when an event goes there: ${error.remedy}.`];
  }
}

function partitionsIn(rights: readonly TopicRights[]): ReadonlyMap<string, number> {
  return new Map(
    rights.flatMap(({ name, error, partitions }) => (error === UNKNOWN_TOPIC ? [] : [[name, partitions]])),
  );
}

function requireRights({ name, error, allows }: TopicRights, positionsTopic: string): void {
  const needed = name === positionsTopic ? (["read", "write"] as const) : (["write"] as const);
  const denied =
    error === TOPIC_DENIED ? needed : needed.filter((operation) => allows?.(operation) === false);
  if (denied.length === 0 || error === UNKNOWN_TOPIC) return;
  throw new PausedError(
    `The user may not ${denied.join(" and ")} the topic ${name}.`,
    `Allow it (kafka-acls.sh --add --allow-principal User:NAME ${denied.map((one) => `--operation ${one}`).join(" ")} --topic ${name}).`,
  );
}
