import { isIP, connect as netConnect, type Socket } from "node:net";
import { type ConnectionOptions, connect as tlsConnect } from "node:tls";
import type { ISocketFactory, KafkaConfig as KafkaOptions, logCreator, SASLOptions } from "kafkajs";
import { RetryableError } from "../../../core/errors.ts";
import { readTls } from "../../../core/http/tls.ts";
import type {
  EncodedRecords,
  KafkaClient,
  KeyedRecord,
  PartitionName,
  RecordCodec,
} from "../../../core/kafka.ts";
import type { Log } from "../../../core/log.ts";
import { type KafkaConfig, type KafkaContext, kafkaCompressionOf } from "../config.ts";
import { mskTokenProvider } from "../msk-token.ts";
import { tokenProvider } from "../oauth.ts";
import { RecordBuffer } from "../record-batch.ts";
import { withAdmin } from "./admin.ts";
import { brokersOf } from "./brokers.ts";
import { codecOf } from "./codecs.ts";
import { joinAsMember } from "./group.ts";
import { createCluster, withCluster } from "./internals.ts";
import { openProducer } from "./producer.ts";
import { repairLibrary } from "./quirks.ts";

/*
 * The client behind src/core/kafka.ts. No file outside this folder imports kafkajs. Of kafkajs are the connections, the
 * metadata, the logins, the decoding of fetches and the group; producing is our own.
 */

const CONNECTION_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * A transaction that begins right after another is refused for a few milliseconds. The library's usual 300 ms before the
 * second try would halve the throughput. All tries together last about four seconds; longer waits are delivery's.
 */
const RETRY = { initialRetryTime: 10, maxRetryTime: 250, multiplier: 2, factor: 0.2, retries: 20 } as const;

export async function connect(context: KafkaContext): Promise<KafkaClient> {
  const { config, clock } = context;
  const library = (await import("kafkajs")).default;
  await repairLibrary();
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
  const kafka = new library.Kafka(options);
  const within: KafkaClient["within"] = (limitMs, promise) => {
    promise.catch(() => {});
    const late = `Kafka did not answer within ${Math.round(limitMs / 1000)} s.`;
    const timer = setTimeout(() => sockets.end(new RetryableError(late)), limitMs).unref();
    return Promise.race([promise, sockets.ended]).finally(() => clearTimeout(timer));
  };
  return {
    codec,
    encode: (to, records, timestampMs) => encodeRecords(codec, to, records, timestampMs),
    producer: (transaction) =>
      openProducer(createCluster(kafka), { codec, clock, signal: sockets.signal, transaction }),
    brokers: (work) => withCluster(kafka, (cluster) => work(brokersOf(cluster))),
    admin: (work) => withAdmin(kafka, work),
    join: (group, signal) => joinAsMember({ library, kafka, within }, group, signal),
    end() {
      codec.close();
      sockets.end(new RetryableError("The connection to Kafka was closed."));
    },
    within,
  };
}

async function encodeRecords(
  codec: RecordCodec,
  to: PartitionName,
  records: readonly KeyedRecord[],
  timestampMs: number,
): Promise<EncodedRecords> {
  const buffer = new RecordBuffer(ENCODED_BYTES_EXPECTED);
  for (const { key, value } of records) buffer.append(Buffer.from(key), value, []);
  const { bytes, count } = buffer;
  return { ...to, count, timestampMs, records: (await codec.compress?.(bytes)) ?? bytes };
}

const ENCODED_BYTES_EXPECTED = 4_096;

function trackedSockets() {
  const sockets = new Set<Socket>();
  const { promise: ended, reject } = withReject();
  const ending = new AbortController();
  const factory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
    if (ending.signal.aborted) throw new Error("the connection to Kafka is closed");
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
    signal: ending.signal,
    end(reason: Error): void {
      if (ending.signal.aborted) return;
      ending.abort(reason);
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

/** The library logs every retry as an error. All of it goes to debug: real errors are thrown. */
function logTo(log: Log): logCreator {
  return () =>
    ({ namespace, label, log: { message, broker, error } }) => {
      log.debug({ client: namespace, level: label, message, broker, error }, "The Kafka client reported.");
    };
}
