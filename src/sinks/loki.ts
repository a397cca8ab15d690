import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { RejectedEventsError, type Rejection } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import { connectionFields } from "../core/http/config.ts";
import { isConfirmed } from "../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../core/http/requester.ts";
import { durationSchema, sizeSchema } from "../core/schema.ts";
import { secretOf, secretSchema } from "../core/secret.ts";
import { type Batch, defineSink, type SinkRecord } from "../core/sink.ts";
import { halveUntilNamed } from "./over-http/halve.ts";
import { probeOver } from "./over-http/probe.ts";
import { isSuccess, saying, statusError } from "./over-http/status.ts";
import { textOf } from "./shared/body.ts";

/** Bytes that are kept free for the labels of a body's streams: about twenty services, with up to 1,000 each. */
const STREAMS_BYTES = 20 * 1_000;

const lokiSchema = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).meta({ description: "Loki's address; /loki/api/v1/push is added." }),
  tenant: z
    .string()
    .regex(/^[\x21-\x7e]{1,150}$/, { error: "up to 150 printable ASCII characters" })
    .optional()
    .meta({ description: "The tenant (X-Scope-OrgID) of a multi-tenant Loki." }),
  username: z.string().min(1).optional().meta({ description: "The user of basic authentication." }),
  password: secretSchema("The password, or the token of Grafana Cloud.").optional(),
  labels: z
    .record(
      z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_]{0,99}$/, { error: "letters, digits and underscores" }),
      z.string().min(1).max(100),
    )
    .default({ job: "tidemark" })
    .meta({ description: "Labels of every stream; the service is added as `service_name`." }),
  lineBytesMax: sizeSchema("The largest line, Loki's max_line_size; a larger event becomes a dead letter.", {
    min: 1000,
    max: 10e6,
  }).prefault("256KiB"),
  ageMax: durationSchema(
    "Loki's reject_old_samples_max_age: older events become dead letters instead of being refused.",
    { minMs: 60_000 },
  ).prefault("7d"),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  batchBytesMax: sizeSchema("The largest body, before compression.", {
    min: STREAMS_BYTES + 12_000,
    max: 100e6,
    why: `of which ${STREAMS_BYTES} are for labels and the rest for events: raise it, or leave it out for 1MB`,
  }).prefault("1MB"),
  ...connectionFields,
});
type LokiConfig = z.output<typeof lokiSchema>;

export const loki = defineSink({
  type: "loki",
  summary: "Pushes events to Grafana Loki.",
  config: lokiSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise:
    "At least once for events that are not older than Loki accepts; a repeated line with the same time and content is dropped by Loki. The identity is structured metadata of every line.",

  async open({ config, format, clock }) {
    const { requester, destination, url, headers } = await connect(config, clock);

    async function send(records: readonly SinkRecord[], signal: AbortSignal) {
      const body = bodyOf(records, config.labels);
      const answer = await requester.send({ url, headers, body, gzip: config.gzip }, signal);
      if (isTaken(answer, destination)) return undefined;
      const error = lokiError(answer, destination);
      if (error) throw error;
      return { reason: `Loki answered ${answer.status}`, answer: answer.text };
    }

    return {
      limits: {
        recordsMax: 10_000,
        bytesMax: config.batchBytesMax,
        limitedBy: "batchBytesMax",
        recordOverheadBytes: 1,
        batchOverheadBytes: STREAMS_BYTES,
        ageMsMax: 0,
      },
      encode: (event) => entryOf(event, textOf(format.encode(event))),
      async write(batch, signal) {
        signal.throwIfAborted();
        refuseEarly(batch, { nowMs: clock.now(), ageMs: config.ageMax, lineBytesMax: config.lineBytesMax });
        await halveUntilNamed(batch.records, (records) => send(records, signal));
        return undefined;
      },
      close: () => requester.close(),
    };
  },

  async probe({ config, clock, signal }) {
    const { requester, destination, url, headers } = await connect(config, clock);
    // Loki answers 422 (or 400) to a push without streams, after it has checked the login; nothing is stored.
    const judge = (answer: Answer) =>
      isTaken(answer, destination) ? undefined : lokiError(answer, destination);
    const remark = (answer: Answer) =>
      isSuccess(answer) ? ["It took a push without streams, which Loki refuses: check that it is Loki."] : [];
    const request = { url, headers, body: '{"streams":[]}', judge, remark };
    return probeOver({ requester, clock, signal, requests: [request] });
  },

  advise: (config) => [
    `Loki refuses events that are older than its limit: with ageMax ${Math.round(config.ageMax / 86_400_000)} days older ones become dead letters. For a backfill raise reject_old_samples_max_age there and ageMax here.`,
  ],
});

async function connect(config: LokiConfig, clock: Clock) {
  const base = config.url.replace(/\/+$/, "");
  const destination = `Loki at ${new URL(base).origin}`;
  const login = Buffer.from(`${config.username ?? ""}:${config.password?.reveal() ?? ""}`).toString("base64");
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: config.password ? [config.password, secretOf(login)] : [],
  });
  const headers: Record<string, string> = {
    "content-type": "application/json",
    ...(config.tenant !== undefined && { "x-scope-orgid": config.tenant }),
    ...(config.password && { authorization: `Basic ${login}` }),
  };
  return { requester, destination, url: `${base}/loki/api/v1/push`, headers };
}

/** Loki answers 204; some servers with its push API answer 200 without a body. */
function isTaken(answer: Answer, destination: string): boolean {
  return isConfirmed(answer, {
    destination,
    expected: "Loki's 204",
    isGiven: ({ status, text }) => status === 204 || (status === 200 && text === ""),
  });
}

function lokiError(answer: Answer, destination: string): Error | undefined {
  const remedy = "Correct url, tenant and credentials in this sink's config.";
  return statusError(answer, { destination, said: saying(answer.text), remedy });
}

/** One entry: time in nanoseconds, the line, and its structured metadata. */
function entryOf(event: JournalEvent, line: string): string {
  const metadata = {
    identity: event.identity,
    account: event.account,
    organization: event.organization ?? "",
    event_type: event.eventType,
  };
  return JSON.stringify([`${event.timestampMs}000000`, line, metadata]);
}

/** One stream for each service, in which the order of the events is kept. */
function bodyOf(records: readonly SinkRecord[], labels: Readonly<Record<string, string>>): Buffer {
  const streams = new Map<string, Uint8Array[]>();
  for (const { event, body } of records) {
    const values = streams.get(event.service);
    if (values) values.push(COMMA, body);
    else streams.set(event.service, [body]);
  }
  const parts: Uint8Array[] = [];
  for (const [service, values] of streams) {
    const stream = JSON.stringify({
      ...labels,
      service_name: service === "" ? "unknown" : service.slice(0, 100),
    });
    parts.push(Buffer.from(`${parts.length === 0 ? '{"streams":[' : ","}{"stream":${stream},"values":[`));
    parts.push(...values, Buffer.from("]}"));
  }
  return Buffer.concat([...parts, Buffer.from("]}")]);
}

const COMMA = Buffer.from(",");

/** R27: Loki drops lines that are too old or too long, with an answer that does not name them all. */
function refuseEarly(
  batch: Batch,
  limits: { readonly nowMs: number; readonly ageMs: number; readonly lineBytesMax: number },
): void {
  const rejected: Rejection[] = [];
  const remaining: number[] = [];
  for (const [index, { event, size }] of batch.records.entries()) {
    if (limits.nowMs - event.timestampMs > limits.ageMs)
      rejected.push({ index, reason: "the event is older than ageMax, which Loki refuses", isOld: true });
    else if (size > limits.lineBytesMax)
      rejected.push({ index, reason: "the event is larger than lineBytesMax" });
    else remaining.push(index);
  }
  if (rejected.length > 0)
    throw new RejectedEventsError("Events are too old or too large for Loki.", rejected, { remaining });
}
