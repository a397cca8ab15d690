import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { PausedError, RetryableError, TooLargeError } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import { connectionFields } from "../core/http/config.ts";
import { isConfirmed } from "../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../core/http/requester.ts";
import { durationSchema, sizeSchema } from "../core/schema.ts";
import { Secret, secretSchema } from "../core/secret.ts";
import { defineSink, type SinkRecord } from "../core/sink.ts";
import { isEmptyOrObject } from "./over-http/confirmations.ts";
import { halveUntilNamed, type UnnamedRefusal } from "./over-http/halve.ts";
import { arrayOverheads, joinElements } from "./over-http/json-array.ts";
import { probeOver } from "./over-http/probe.ts";
import { jsonOf, saying, statusError } from "./over-http/status.ts";
import { WRITES_MAX } from "./over-http/writes.ts";
import { textOf } from "./shared/body.ts";
import { protobufFields } from "./shared/protobuf.ts";

const DEFAULT_PATH = "/v1/logs";

const otlpSchema = z.strictObject({
  url: z
    .url({ protocol: /^https?$/ })
    .meta({ description: "The receiver's address; without a path, /v1/logs is added." }),
  headers: z
    .record(z.string(), z.union([z.string(), secretSchema("A header's secret value.")]))
    .default({})
    .meta({ description: "Headers of every request; a value that is a secret is { env } or { file }." }),
  resource: z.record(z.string(), z.string()).default({}).meta({
    description: "Attributes of the resource, beside service.name, which is tidemark by default.",
  }),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  batchBytesMax: sizeSchema("The largest body, before compression; the receiver's limit.", {
    min: 1000,
    max: 100e6,
  }).prefault("4MB"),
  batchEventsMax: z.int().min(1).max(100_000).default(2000).meta({
    description: "The most events in one request.",
  }),
  batchAgeMax: durationSchema("How long a batch that is not full waits for more events.", {
    maxMs: 3_600_000,
  }).prefault("0s"),
  ...connectionFields,
});
type OtlpConfig = z.output<typeof otlpSchema>;

export const otlp = defineSink({
  type: "otlp",
  summary: "Sends events as OpenTelemetry log records over HTTP with JSON.",
  config: otlpSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise: "At least once, with the identity as an attribute of every record.",

  async open({ config, format, clock, log, signal }) {
    const { requester, destination, url, headers } = await connect(config, clock);
    const [head, tail] = envelopeOf(config.resource);

    async function send(
      records: readonly SinkRecord[],
      abort: AbortSignal,
    ): Promise<UnnamedRefusal | undefined> {
      const body = joinElements(head, records, tail);
      const answer = await requester.send({ url, headers, body, gzip: config.gzip }, abort);
      if (!isTaken(answer, destination)) {
        const error = otlpError(answer, destination);
        if (error) throw error;
        return {
          reason: `the receiver answered ${answer.status}: ${saidOf(answer) ?? "no reason given"}`,
          answer: answer.text,
        };
      }
      const partial = partialSuccessOf(answer);
      if (partial.rejected === 0) {
        if (partial.message)
          log.warn({ said: partial.message }, "The OTLP receiver took a batch with a warning.");
        return undefined;
      }
      const reason = `the receiver rejected the record: ${partial.message ?? "no reason given"}`;
      return { reason, count: partial.rejected, answer: partial.isProtobuf ? partial.message : answer.text };
    }

    try {
      const answer = await requester.send({ url, headers, body: NO_RECORDS }, signal);
      const error = isTaken(answer, destination) ? undefined : otlpError(answer, destination);
      if (error) throw error;
    } catch (error) {
      await requester.close();
      throw error;
    }

    return {
      writesMax: WRITES_MAX,
      limits: {
        recordsMax: config.batchEventsMax,
        bytesMax: config.batchBytesMax,
        limitedBy: "batchBytesMax",
        ...arrayOverheads(head, tail),
        ageMsMax: config.batchAgeMax,
      },
      encode: (event) => recordOf(event, textOf(format.encode(event))),
      async write(batch, abort) {
        await halveUntilNamed(batch.records, (records) => send(records, abort));
        return undefined;
      },
      close: () => requester.close(),
    };
  },

  async probe({ config, clock, signal }) {
    const { requester, destination, url, headers } = await connect(config, clock);
    const judge = (answer: Answer) =>
      isTaken(answer, destination) ? undefined : otlpError(answer, destination);
    return probeOver({ requester, clock, signal, requests: [{ url, headers, body: NO_RECORDS, judge }] });
  },
});

/** A request without records is valid and stores nothing. */
const NO_RECORDS = '{"resourceLogs":[]}';

async function connect(config: OtlpConfig, clock: Clock) {
  const url = addressOf(config.url);
  const destination = `The OTLP receiver at ${new URL(url).origin}`;
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: Object.values(config.headers).filter((value) => value instanceof Secret),
  });
  const headers: Record<string, string> = { "content-type": "application/json" };
  for (const [name, value] of Object.entries(config.headers))
    headers[name.toLowerCase()] = value instanceof Secret ? value.reveal() : value;
  return { requester, destination, url, headers };
}

function addressOf(url: string): string {
  const address = new URL(url);
  if (address.pathname === "/" || address.pathname === "") address.pathname = DEFAULT_PATH;
  return address.href;
}

/** The text before and after the records: one resource and one scope for all. */
function envelopeOf(resource: Readonly<Record<string, string>>): [string, string] {
  const attributes = attributesOf({ "service.name": "tidemark", ...resource });
  const head = `{"resourceLogs":[{"resource":{"attributes":${attributes}},"scopeLogs":[{"scope":{"name":"tidemark"},"logRecords":[`;
  return [head, "]}]}]}"];
}

const SEVERITY_INFO = 9;

function recordOf(event: JournalEvent, body: string): string {
  const attributes = attributesOf({
    "tidemark.identity": event.identity,
    "tidemark.account": event.account,
    "tidemark.organization": event.organization ?? "",
    "tidemark.service": event.service,
    "event.name": event.eventType,
  });
  const observed = `${event.fetchedAtMs}000000`;
  return `{"timeUnixNano":"${nanosecondsOf(event)}","observedTimeUnixNano":"${observed}","severityNumber":${SEVERITY_INFO},"severityText":"INFO","body":{"stringValue":${JSON.stringify(body)}},"attributes":${attributes}}`;
}

/** With the digits that the event's own timestamp has beyond milliseconds. */
function nanosecondsOf(event: JournalEvent): string {
  const fraction = /\.(\d+)/.exec(event.timestamp)?.[1] ?? "";
  return `${event.timestampMs}${`${fraction}000000000`.slice(3, 9)}`;
}

function attributesOf(values: Readonly<Record<string, string>>): string {
  const attributes = Object.entries(values)
    .filter(([, value]) => value !== "")
    .map(([key, stringValue]) => ({ key, value: { stringValue } }));
  return JSON.stringify(attributes);
}

/**
 * The specification asks for a 200 and a message in the encoding of the request. Some receivers answer 204 without a
 * body, and some answer in protobuf, whose empty message has no bytes.
 */
function isTaken(answer: Answer, destination: string): boolean {
  return isConfirmed(answer, {
    destination,
    expected: "an answer by the specification of OTLP",
    isGiven: (given) => inProtobuf(given) !== undefined || isEmptyOrObject(given),
  });
}

interface PartialSuccess {
  readonly rejected: number;
  readonly message: string | undefined;
  readonly isProtobuf?: boolean;
}

function partialSuccessOf(answer: Answer): PartialSuccess {
  return inProtobuf(answer) ?? inJson(answer);
}

/** The counts are 64-bit integers, which JSON carries as strings. */
function inJson(answer: Answer): PartialSuccess {
  const json = jsonOf(answer);
  const partial = (json?.partialSuccess ?? json?.partial_success ?? {}) as Record<string, unknown>;
  const rejected = Number(partial.rejectedLogRecords ?? partial.rejected_log_records ?? 0);
  return { rejected, message: saying(partial.errorMessage ?? partial.error_message) };
}

/** Field 1 is the partial success; in it field 1 is the count and field 2 the message. Undefined: no such message. */
function inProtobuf({ headers, text, isWhole }: Answer): PartialSuccess | undefined {
  if (!isWhole || !/protobuf/i.test(String(headers["content-type"] ?? ""))) return undefined;
  const outer = protobufFields(Buffer.from(text, "latin1"));
  if (outer === undefined) return undefined;
  let rejected = 0n;
  let message: string | undefined;
  for (const { value: partial } of outer.filter(({ number }) => number === 1)) {
    const fields = typeof partial === "bigint" ? undefined : protobufFields(partial);
    if (fields === undefined) return undefined;
    for (const { number, value } of fields) {
      if (number === 1 && typeof value === "bigint") rejected = value;
      else if (number === 2 && typeof value !== "bigint") message = Buffer.from(value).toString();
      else if (number <= 2) return undefined;
    }
  }
  return { rejected: Number(rejected), message: saying(message), isProtobuf: true };
}

function saidOf(answer: Answer): string | undefined {
  return saying(jsonOf(answer)?.message);
}

const STATUSES_TO_RETRY = new Set([429, 502, 503, 504]);

/** The specification allows to repeat after four statuses only; after any other failure a person looks first. */
function otlpError(answer: Answer, destination: string): Error | undefined {
  const { status, retryAfterMs } = answer;
  const said = saidOf(answer);
  const message = `${destination} answered ${status}${said ? `: ${said}` : "."}`;
  if (STATUSES_TO_RETRY.has(status)) return new RetryableError(message, { retryAfterMs });
  if (status === 413) return new TooLargeError(message);
  const remedy = "Correct url or headers in this sink's config, or look into the receiver's own log.";
  if (status >= 500 || status === 408) return new PausedError(message, remedy);
  return statusError(answer, { destination, said, remedy });
}
