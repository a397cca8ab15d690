import { isIP, connect as netConnect, type Socket } from "node:net";
import { type ConnectionOptions, connect as tlsConnect } from "node:tls";
import type { ISocketFactory, Kafka, KafkaConfig as KafkaOptions, logCreator, SASLOptions } from "kafkajs";
import { RetryableError } from "../../core/errors.ts";
import { readTls } from "../../core/http/tls.ts";
import type { Log } from "../../core/log.ts";
import { codecOf, type RecordCodec } from "./codecs.ts";
import { type KafkaConfig, type KafkaContext, kafkaCompressionOf } from "./config.ts";
import { inTermsOfDelivery } from "./errors.ts";
import { mskTokenProvider } from "./msk-token.ts";
import { tokenProvider } from "./oauth.ts";
import { calmRequestQueues } from "./quirks.ts";

const CONNECTION_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * A transaction begun right after another is refused for a few milliseconds: with the client's usual
 * 300 ms before the second try half the throughput is gone. All tries together last some four seconds;
 * longer waits are delivery's.
 */
const RETRY = { initialRetryTime: 10, maxRetryTime: 250, multiplier: 2, factor: 0.2, retries: 20 } as const;

export interface KafkaConnection {
  readonly library: typeof import("kafkajs");
  readonly kafka: Kafka;
  /** How the sink compresses records. */
  readonly codec: RecordCodec;
  /** Cuts every connection and allows no new one: nothing of this client reaches a broker afterwards. */
  end(): void;
  /**
   * The promise's outcome, or a RetryableError as soon as the connection is ended or the time is over. The
   * client's own retries against a broker that hangs can last ten minutes (R38).
   */
  within<Value>(limitMs: number, promise: Promise<Value>): Promise<Value>;
}

export async function connect(context: KafkaContext): Promise<KafkaConnection> {
  const { config } = context;
  const library = (await import("kafkajs")).default;
  await calmRequestQueues();
  const codec = await codecOf(library, kafkaCompressionOf(config));
  const sockets = trackedSockets();
  const options: KafkaOptions = {
    brokers: config.brokers,
    clientId: config.clientId,
    connectionTimeout: CONNECTION_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    enforceRequestTimeout: true,
    retry: RETRY,
    socketFactory: sockets.factory,
    logCreator: logTo(context.log),
    logLevel: library.logLevel.INFO,
    ...(config.tls && { ssl: { ...(await readTls(config.tls)) } }),
    ...(config.sasl && { sasl: saslOptions(config.sasl, context) }),
  };
  return {
    library,
    codec,
    kafka: new library.Kafka(options),
    end: () => sockets.end(new RetryableError("The connection to Kafka was closed.")),
    within: (limitMs, promise) => {
      promise.catch(() => {});
      const late = `Kafka did not answer within ${Math.round(limitMs / 1000)} s.`;
      const timer = setTimeout(() => sockets.end(new RetryableError(late)), limitMs).unref();
      return Promise.race([promise, sockets.ended]).finally(() => clearTimeout(timer));
    },
  };
}

/** Added to the time after which the brokers abort a transaction. */
const WRITE_MS_MAX = 60_000;

/** Runs one write: it ends with the signal or the deadline, and its errors are those of the contract. */
export async function writeWithin<Value>(
  connection: KafkaConnection,
  config: KafkaConfig,
  { signal, records }: { readonly signal: AbortSignal; readonly records: number },
  write: () => Promise<Value>,
): Promise<Value> {
  const stop = () => connection.end();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await connection.within(WRITE_MS_MAX + config.transactionTimeout, write());
  } catch (error) {
    signal.throwIfAborted();
    throw inTermsOfDelivery(error, "Kafka did not take the batch", records);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function trackedSockets() {
  const sockets = new Set<Socket>();
  const { promise: ended, reject } = withReject();
  let isEnded = false;
  const factory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
    if (isEnded) throw new Error("the sink is closed");
    const name = isIP(host) ? {} : { servername: host };
    const socket = ssl
      ? tlsConnect({ host, port, ...name, ...(ssl as ConnectionOptions) }, onConnect)
      : netConnect({ host, port }, onConnect);
    socket.setKeepAlive(true, 60_000);
    socket.setNoDelay(true);
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    return socket;
  };
  return {
    factory,
    ended,
    end(reason: Error): void {
      if (isEnded) return;
      isEnded = true;
      for (const socket of sockets) socket.destroy(reason);
      reject(reason);
    },
  };
}

function withReject(): { promise: Promise<never>; reject: (reason: Error) => void } {
  let reject: (reason: Error) => void = () => {};
  const promise = new Promise<never>((_, no) => {
    reject = no;
  });
  promise.catch(() => {});
  return { promise, reject };
}

function saslOptions(sasl: NonNullable<KafkaConfig["sasl"]>, context: KafkaContext): SASLOptions {
  switch (sasl.mechanism) {
    case "plain":
      return { mechanism: "plain", username: sasl.username, password: sasl.password.reveal() };
    case "scram_sha_256":
      return { mechanism: "scram-sha-256", username: sasl.username, password: sasl.password.reveal() };
    case "scram_sha_512":
      return { mechanism: "scram-sha-512", username: sasl.username, password: sasl.password.reveal() };
    case "oauthbearer":
      return {
        mechanism: "oauthbearer",
        oauthBearerProvider: tokenProvider(sasl, context.clock, context.signal),
      };
    case "aws_msk_iam":
      return {
        mechanism: "oauthbearer",
        oauthBearerProvider: mskTokenProvider(sasl.region, context.clock),
      };
  }
}

/** The client logs every retry as an error. All of it goes to debug: real errors are thrown. */
function logTo(log: Log): logCreator {
  return () =>
    ({ namespace, label, log: { message, broker, error } }) => {
      log.debug({ client: namespace, level: label, message, broker, error }, "The Kafka client reported.");
    };
}
