import type { Socket } from "node:net";

/** The parts of kafkajs's connection that are used here. */
interface Connection {
  readonly host: string;
  readonly port: number;
  readonly socket: Socket;
  chunks: Buffer[];
  bytesBuffered: number;
  /** Of the answer that is being received, its length included. */
  bytesNeeded: number;
  processData(chunk: Buffer): void;
  [IS_REPAIRED]?: boolean;
}

const IS_REPAIRED = Symbol("isRepaired");
const CONNECTION = "kafkajs/src/network/connection.js";
/** Brokers refuse requests of more than 100 MB, so no batch of theirs is larger. Text, read as a length, is above it. */
const ANSWER_BYTES_MAX = 128 << 20;
const LENGTH_BYTES = 4;

/**
 * kafkajs 2.2.4 throws in the socket's event where an answer's length is below its smallest, which ends the process, and
 * collects answers of up to 2 GB. Both come from a server that is no Kafka. With this the connection ends, with a reason.
 */
export async function refuseForeignAnswers(): Promise<void> {
  const { default: connection } = (await import(CONNECTION)) as { default: { prototype: Connection } };
  const { processData, [IS_REPAIRED]: isRepaired } = connection.prototype;
  if (isRepaired) return;
  connection.prototype[IS_REPAIRED] = true;
  connection.prototype.processData = function (this: Connection, chunk) {
    if (this.socket.destroyed) return;
    let cause: unknown;
    try {
      processData.call(this, chunk);
      if (this.bytesNeeded <= ANSWER_BYTES_MAX) return;
    } catch (error) {
      cause = error;
    }
    Object.assign(this, { chunks: [], bytesBuffered: 0, bytesNeeded: LENGTH_BYTES });
    this.socket.destroy(new Error(foreign(this), { cause }));
  };
}

function foreign({ host, port }: Connection): string {
  return `${host}:${port} answers, but not as a Kafka broker does. Another server or a proxy listens there, or the port wants other settings: check the address, and whether it needs tls`;
}
