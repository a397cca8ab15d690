import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { RejectedEventsError, type Rejection } from "../../core/errors.ts";
import { timeoutSchema } from "../../core/http/config.ts";
import { sizeSchema, tlsSchema } from "../../core/schema.ts";
import { type Batch, defineSink } from "../../core/sink.ts";
import { bytesOf, singleLine } from "../shared/body.ts";
import { FACILITIES, headerOf, SEVERITIES } from "./header.ts";
import { makeLasting, type SyslogConnection } from "./lasting.ts";
import { BATCHES_MAX, makeRounds } from "./rounds.ts";

const PORTS = { tcp: 601, tls: 6514 };

const syslogSchema = z.strictObject({
  host: z.string().min(1).meta({ description: "The receiver's host name or address." }),
  port: z.int().min(1).max(65_535).optional().meta({
    description: "The receiver's port; by default 601 for tcp and 6514 for tls.",
  }),
  transport: z.enum(["tcp", "tls"]).default("tls").meta({ description: "How the receiver is reached." }),
  framing: z.enum(["octet_counting", "lf"]).default("octet_counting").meta({
    description: "How messages are separated: by their length (RFC 6587, RFC 5425), or by a line feed.",
  }),
  facility: z.enum(FACILITIES).default("local0").meta({ description: "The messages' facility." }),
  severity: z.enum(SEVERITIES).default("info").meta({ description: "The messages' severity." }),
  hostname: z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, { error: "1 to 255 printable ASCII characters without spaces" })
    .default("tidemark")
    .meta({ description: "The host name in the messages' header." }),
  appName: z
    .string()
    .regex(/^[\x21-\x7e]{1,48}$/, { error: "1 to 48 printable ASCII characters without spaces" })
    .default("tidemark")
    .meta({ description: "The application's name in the messages' header." }),
  structuredDataId: z
    .string()
    .regex(/^[\x21\x23-\x3c\x3e-\x5c\x5e-\x7e]{1,32}$/, { error: "a name, @, and an enterprise number" })
    .default("tidemark@32473")
    .meta({
      description:
        "The id of the structured data that carries the event's identity, organization and service.",
    }),
  messageBytesMax: sizeSchema(
    "The largest message, header included. Receivers should take 8192 bytes; many cut or drop longer ones, so larger events become dead letters. Raise it together with the receiver's own limit.",
    { min: 480, max: 16e6 },
  ).prefault(8192),
  confirm: z.enum(["close", "write"]).default("close").meta({
    description:
      "When messages count as delivered. `close`: when the receiver has ended the connection that carried them, after our own end of it, which shows that it has read everything; a connection lasts five seconds at most, or one second without an event. `write`: when this machine's kernel has taken them, over one lasting connection; a receiver that ends it may lose messages without a sign.",
  }),
  timeout: timeoutSchema,
  tls: tlsSchema.optional(),
});
type SyslogConfig = z.output<typeof syslogSchema>;

export const syslog = defineSink({
  type: "syslog",
  summary: "Sends events as RFC 5424 syslog messages over TCP or TLS.",
  config: syslogSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise:
    "At least once, once the receiver has read the messages and ended the connection; what it has read and not kept when it fails is lost. The identity is in every message.",
  promiseOf: ({ confirm }) =>
    confirm === "write"
      ? "At least once while the connection holds: what the receiver has not read when it ends the connection is lost. The identity is in every message."
      : undefined,

  async open({ config, format, clock, signal }) {
    const header = headerOf(config);
    const isCounting = config.framing === "octet_counting";
    const connection = connectionOf(config, clock);
    await connection.connect(signal);

    return {
      limits: {
        recordsMax: 5000,
        bytesMax: Math.max(1e6, config.messageBytesMax + COUNT_BYTES_MAX),
        recordBytesMax: config.messageBytesMax,
        limitedBy: "messageBytesMax",
        recordOverheadBytes: isCounting ? COUNT_BYTES_MAX : 1,
        ageMsMax: 0,
      },
      ...(config.confirm === "close" && { writesMax: BATCHES_MAX }),
      encode: (event) => Buffer.concat([header(event), singleLine(bytesOf(format.encode(event)))]),
      async write(batch, abort) {
        abort.throwIfAborted();
        refuseTooLarge(batch, config.messageBytesMax);
        const frames = batch.records.flatMap(({ body }) =>
          isCounting ? [Buffer.from(`${body.length} `), body] : [body, BREAK],
        );
        await connection.send(Buffer.concat(frames), abort);
        return undefined;
      },
      close: () => connection.close(),
    };
  },

  /** Connects, with the handshake of TLS, and sends nothing. */
  async probe({ config, clock, signal }) {
    const connection = connectionOf(config, clock);
    try {
      await connection.connect(signal);
    } finally {
      await connection.close();
    }
    return ["A syslog receiver never answers, so only the connection was checked."];
  },

  advise: ({ transport, confirm }) => [
    ...(transport === "tcp"
      ? ["Events travel unencrypted: set transport to tls unless the network is trusted."]
      : []),
    ...(confirm === "write"
      ? ["Messages that the receiver has not read when it ends the connection are lost: leave out confirm."]
      : []),
  ],
});

function connectionOf(config: SyslogConfig, clock: Clock): SyslogConnection {
  const make = config.confirm === "close" ? makeRounds : makeLasting;
  return make({
    host: config.host,
    port: config.port ?? PORTS[config.transport],
    isTls: config.transport === "tls",
    tls: config.tls,
    timeoutMs: config.timeout,
    clock,
  });
}

const BREAK = Buffer.from("\n");
/** Eight digits and a space. */
const COUNT_BYTES_MAX = 9;

/** A receiver would cut these without a word. */
function refuseTooLarge(batch: Batch, bytesMax: number): void {
  const rejected: Rejection[] = [];
  for (const [index, { body }] of batch.records.entries()) {
    const reason = `the message has ${body.length} bytes and messageBytesMax is ${bytesMax}`;
    if (body.length > bytesMax) rejected.push({ index, reason });
  }
  if (rejected.length === 0) return;
  const refused = new Set(rejected.map(({ index }) => index));
  const remaining = batch.records.map((_, index) => index).filter((index) => !refused.has(index));
  throw new RejectedEventsError("Messages are larger than messageBytesMax.", rejected, { remaining });
}
