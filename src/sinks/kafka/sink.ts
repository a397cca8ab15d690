import { defineSink, type Sink } from "../../core/sink.ts";
import { connect } from "./client/connect.ts";
import { advise, type KafkaContext, kafkaSchema } from "./config.ts";
import { inTermsOfDelivery } from "./errors.ts";
import { openIdempotent } from "./idempotent.ts";
import { probeKafka } from "./probe.ts";
import { defaultId, openTransactional } from "./transactions.ts";

const AT_LEAST_ONCE =
  "At least once: without transactions a crash at the wrong moment writes a batch again. The event's id is a header of every record.";

export const kafka = defineSink({
  type: "kafka",
  summary: "Apache Kafka, one record per event, in transactions that carry the position.",
  config: kafkaSchema,
  defaultFormat: "raw",
  guarantee: "exactly_once",
  promise:
    "Exactly once for readers with isolation.level=read_committed, in journal order per organization: the position is a record in the same transaction as the events. With `delivery: at_least_once`, for brokers without transactions, at least once.",
  promiseOf: (config) => (config.delivery === "at_least_once" ? AT_LEAST_ONCE : undefined),
  open,
  ofShard: (config, label, sink) => ({
    ...config,
    transactionalId: `${config.transactionalId ?? defaultId(sink)}-${label}`,
  }),
  probe: probeKafka,
  advise,
});

/** Added to the time that the config allows for waiting. */
const OPEN_MS_MAX = 60_000;

async function open(context: KafkaContext): Promise<Sink> {
  context.signal.throwIfAborted();
  const { delivery, openTimeout } = context.config;
  context.waitsFor?.(`the brokers ${context.config.brokers.join(", ")}`);
  const connection = await connect(context);
  const stop = () => connection.end();
  context.signal.addEventListener("abort", stop, { once: true });
  try {
    const openOver = delivery === "exactly_once" ? openTransactional : openIdempotent;
    return await connection.within(OPEN_MS_MAX + openTimeout, openOver(connection, context));
  } catch (error) {
    connection.end();
    context.signal.throwIfAborted();
    throw inTermsOfDelivery(error, "Kafka cannot be opened");
  } finally {
    context.signal.removeEventListener("abort", stop);
  }
}
