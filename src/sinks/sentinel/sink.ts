import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RejectedEventsError, type Rejection } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import { connectionFields } from "../../core/http/config.ts";
import { isConfirmed } from "../../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../../core/http/requester.ts";
import { secretSchema } from "../../core/secret.ts";
import { type Batch, defineSink, type SinkRecord } from "../../core/sink.ts";
import { entraTokens } from "../azure/entra.ts";
import { halveUntilNamed } from "../over-http/halve.ts";
import { arrayOverheads, joinElements } from "../over-http/json-array.ts";
import { probeOver } from "../over-http/probe.ts";
import { jsonOf, saying, statusError } from "../over-http/status.ts";
import { WRITES_MAX } from "../over-http/writes.ts";
import { isJson, textOf } from "../shared/body.ts";

const API_VERSION = "2023-01-01";
/** The limit counts for the compressed and for the plain body. */
const BODY_BYTES_MAX = 1_000_000;
/** Azure Monitor cuts longer values. */
const FIELD_BYTES_MAX = 65_536;

const sentinelSchema = z.strictObject({
  endpoint: z
    .url({ protocol: /^https?$/ })
    .meta({ description: "The logs ingestion address of the data collection endpoint or rule." }),
  ruleId: z
    .string()
    .regex(/^[\w-]+$/, { error: "the immutable id of the rule, dcr-…" })
    .meta({ description: "The immutable id of the data collection rule, dcr-…" }),
  stream: z
    .string()
    .regex(/^[\w-]+$/, { error: "the stream's name, Custom-…" })
    .meta({
      description:
        "The stream in the rule, Custom-… with the columns TimeGenerated (datetime), Identity, Account, Organization, Service, EventType (string) and Event (dynamic, or string for text formats).",
    }),
  tenantId: z
    .string()
    .regex(/^[\w.-]+$/, { error: "the tenant's id or domain" })
    .meta({ description: "The Entra tenant." }),
  clientId: z.string().min(1).meta({ description: "The application (client) id." }),
  clientSecret: secretSchema("The application's client secret."),
  authority: z
    .url({ protocol: /^https?$/ })
    .default("https://login.microsoftonline.com")
    .meta({ description: "Where tokens come from; another one in sovereign clouds." }),
  scope: z.string().min(1).default("https://monitor.azure.com/.default").meta({
    description: "What tokens are for; another one in sovereign clouds.",
  }),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  ...connectionFields,
});
type SentinelConfig = z.output<typeof sentinelSchema>;

export const sentinel = defineSink({
  type: "sentinel",
  summary: "Sends events to Microsoft Sentinel through Azure Monitor's Logs Ingestion API.",
  config: sentinelSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise: "At least once, with the identity as a column of every row.",

  async open({ config, format, clock, signal }) {
    const { requester, destination, url, tokens } = await connect(config, clock);
    const isJsonFormat = isJson(format);

    async function post(body: Uint8Array, token: string, abort: AbortSignal): Promise<Answer> {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      return requester.send({ url, headers, body, gzip: config.gzip }, abort);
    }

    async function send(records: readonly SinkRecord[], abort: AbortSignal) {
      const body = joinElements("[", records, "]");
      const token = await tokens.get(abort);
      let answer = await post(body, token, abort);
      if (answer.status === 401) {
        // The token may have been revoked before it expired: try once more with a new one.
        tokens.forget(token);
        answer = await post(body, await tokens.get(abort), abort);
      }
      if (isTaken(answer, destination)) return undefined;
      const said = saidOf(answer);
      const error = sentinelError(answer, destination, said);
      if (error) throw error;
      return {
        reason: `Azure Monitor answered ${answer.status}: ${said ?? "no reason given"}`,
        answer: answer.text,
      };
    }

    try {
      await tokens.get(signal);
    } catch (error) {
      await requester.close();
      throw error;
    }

    return {
      writesMax: WRITES_MAX,
      limits: { recordsMax: 10_000, bytesMax: BODY_BYTES_MAX, ...arrayOverheads("[", "]"), ageMsMax: 0 },
      encode(event) {
        const body = textOf(format.encode(event));
        return `${rowHead(event)}${isJsonFormat ? body : JSON.stringify(body)}}`;
      },
      async write(batch, abort) {
        abort.throwIfAborted();
        refuseTooLarge(batch);
        await halveUntilNamed(batch.records, (records) => send(records, abort));
        return undefined;
      },
      close: () => requester.close(),
    };
  },

  async probe({ config, clock, signal }) {
    const { requester, destination, url, tokens } = await connect(config, clock);
    try {
      const authorization = `Bearer ${await tokens.get(signal)}`;
      const headers = { authorization, "content-type": "application/json" };
      const judge = (answer: Answer) =>
        isTaken(answer, destination) ? undefined : sentinelError(answer, destination, saidOf(answer));
      // An array without rows stores nothing; the role, the rule and the stream are checked before the rows.
      return await probeOver({ requester, clock, signal, requests: [{ url, headers, body: "[]", judge }] });
    } finally {
      await requester.close();
    }
  },
});

async function connect(config: SentinelConfig, clock: Clock) {
  const base = config.endpoint.replace(/\/+$/, "");
  const url = `${base}/dataCollectionRules/${config.ruleId}/streams/${config.stream}?api-version=${API_VERSION}`;
  const destination = `Azure Monitor at ${new URL(base).origin}`;
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: [config.clientSecret],
  });
  return { requester, destination, url, tokens: entraTokens(requester, clock, config) };
}

/** A row up to the value of its last column. */
function rowHead(event: JournalEvent): string {
  const columns = JSON.stringify({
    TimeGenerated: new Date(event.timestampMs).toISOString(),
    Identity: event.identity,
    Account: event.account,
    Organization: event.organization ?? undefined,
    Service: event.service || undefined,
    EventType: event.eventType || undefined,
  });
  return `${columns.slice(0, -1)},"Event":`;
}

function refuseTooLarge(batch: Batch): void {
  const rejected: Rejection[] = [];
  const remaining: number[] = [];
  for (const [index, { event, body }] of batch.records.entries()) {
    const bytes = body.length - Buffer.byteLength(rowHead(event)) - 1;
    if (bytes <= FIELD_BYTES_MAX) remaining.push(index);
    else
      rejected.push({ index, reason: `the event has ${bytes} bytes; a column of Azure Monitor takes 64 KB` });
  }
  if (rejected.length > 0)
    throw new RejectedEventsError("Events are too large for Azure Monitor.", rejected, { remaining });
}

function isTaken(answer: Answer, destination: string): boolean {
  return isConfirmed(answer, {
    destination,
    expected: "Azure Monitor's 204",
    isGiven: ({ status }) => status === 204,
  });
}

function sentinelError(answer: Answer, destination: string, said: string | undefined): Error | undefined {
  const remedy =
    answer.status === 403
      ? "Give the application the role Monitoring Metrics Publisher on the data collection rule, and wait half an hour."
      : "Correct endpoint, ruleId, stream or credentials in this sink's config.";
  const code = (jsonOf(answer)?.error as Record<string, unknown> | undefined)?.code;
  // A stream that the rule does not have is a 400 about the config, not about an event.
  if (answer.status === 400 && /stream/i.test(String(code)))
    return new PausedError(`${destination} answered 400: ${said}`, remedy);
  return statusError(answer, { destination, said, remedy });
}

function saidOf(answer: Answer): string | undefined {
  const { code, message } = (jsonOf(answer)?.error ?? {}) as Record<string, unknown>;
  return saying(code, message);
}
