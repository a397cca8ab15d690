import {
  DecisionNeededError,
  explain,
  PausedError,
  RejectedEventsError,
  RetryableError,
  TooLargeError,
} from "../../core/errors.ts";

/** The fields of kafkajs's errors. */
interface ClientError extends Error {
  readonly type?: string;
  readonly code?: string | number;
  readonly errors?: readonly unknown[];
}

const TOO_LARGE = ["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"];
/** The broker refuses a record and does not say which (R27). */
const UNNAMED_REFUSALS = ["INVALID_RECORD", "INVALID_TIMESTAMP"];

const REMEDIES: Readonly<Record<string, string>> = {
  TOPIC_AUTHORIZATION_FAILED:
    "allow the user Write and Describe on the topics of events, and Read, Write, Describe and DescribeConfigs on the positions topic",
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    "allow the user Write and Describe on the transactional id, or set delivery: at_least_once",
  CLUSTER_AUTHORIZATION_FAILED:
    "allow the user IdempotentWrite (and Create, with createTopics) on the cluster",
  GROUP_AUTHORIZATION_FAILED: "allow the user what the broker's log says it was refused",
  SASL_AUTHENTICATION_FAILED: "check the user name and the secret under sasl",
  UNSUPPORTED_SASL_MECHANISM: "choose a mechanism under sasl that the brokers have enabled",
  ILLEGAL_SASL_STATE: "the brokers' listener expects other settings under sasl and tls",
  SECURITY_DISABLED: "the brokers have no authorizer for what is asked: see their configuration",
  INVALID_TRANSACTION_TIMEOUT: "choose a transactionTimeout below the brokers' transaction.max.timeout.ms",
  INVALID_REPLICATION_FACTOR:
    "state a replication under createTopics that the number of brokers allows; brokers that are down do not count, so with enough brokers it passes when they are back",
  INVALID_PARTITIONS: "state a number of partitions under createTopics that the brokers accept",
  INVALID_CONFIG: "create the topic by hand: the brokers refuse its settings",
  POLICY_VIOLATION: "create the topic by hand: the brokers' policy refuses what createTopics states",
  INVALID_TOPIC_EXCEPTION: "choose another topic: the brokers refuse this name",
  INVALID_REQUIRED_ACKS: "the brokers refuse acks=all: see their configuration",
  UNSUPPORTED_VERSION:
    "the brokers are too old or too new for this client: Kafka 2.5 and later are supported",
  UNSUPPORTED_FOR_MESSAGE_FORMAT:
    "the topic's message format is too old for transactions: set it to 2.0 or later",
  UNSUPPORTED_COMPRESSION_TYPE:
    "set compression: gzip, or another one that the brokers take (zstd needs Kafka 2.1)",
};

/** A person must replace a certificate; every other failure is temporary. */
const TLS_CODES =
  /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_CA|HOSTNAME_MISMATCH|EPROTO$)/;

export function isTooLarge(error: unknown): boolean {
  return causesOf(error).some(({ type }) => type !== undefined && TOO_LARGE.includes(type));
}

/**
 * One of the four errors for every error of the client. An unknown one is tried again (R38): the client throws
 * plain errors too, such as "Broker not connected" when a broker hangs. Fenced producers, lost coordinators
 * and cut connections are retried as well: the position that is read at the next opening shows the outcome.
 */
export function inTermsOfDelivery(error: unknown, doing: string, records = 0): Error {
  const causes = causesOf(error);
  const ours = causes.find(isOurs);
  if (ours) return ours;
  const message = `${doing}: ${explain(causes.at(-1) ?? error)}`;
  const types = causes.map(({ type }) => type ?? "");
  if (types.some((type) => TOO_LARGE.includes(type) || UNNAMED_REFUSALS.includes(type))) {
    if (records > 1) return new TooLargeError(message, { cause: error });
    return new RejectedEventsError(message, [{ index: 0, reason: explain(causes.at(-1)) }], { cause: error });
  }
  const remedy = types.map((type) => REMEDIES[type]).find((words) => words !== undefined);
  if (remedy !== undefined) return new PausedError(message, remedy, { cause: error });
  if (causes.some(isRefusedLogin)) {
    return new PausedError(message, REMEDIES.SASL_AUTHENTICATION_FAILED!, { cause: error });
  }
  if (causes.some(({ code }) => typeof code === "string" && TLS_CODES.test(code))) {
    return new PausedError(message, "check tls: the authorities, the name and the client's certificate", {
      cause: error,
    });
  }
  return new RetryableError(message, { cause: error });
}

function isOurs(error: Error): boolean {
  return (
    error instanceof RetryableError ||
    error instanceof TooLargeError ||
    error instanceof RejectedEventsError ||
    error instanceof PausedError ||
    error instanceof DecisionNeededError
  );
}

/** kafkajs reports a connection that ends during the login as a failed login. */
function isRefusedLogin({ name, message }: ClientError): boolean {
  return name === "KafkaJSSASLAuthenticationError" && !/connection|timed? ?out/i.test(message);
}

/** From the outermost error inwards: exceeded retries and aggregates hide the reason. */
function causesOf(error: unknown): readonly ClientError[] {
  const causes: ClientError[] = [];
  for (let at = error; at instanceof Error && causes.length < 10; ) {
    const cause: ClientError = at;
    causes.push(cause);
    at = cause.errors?.[0] ?? (cause.cause === cause ? undefined : cause.cause);
  }
  return causes;
}
