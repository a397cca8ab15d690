import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { RejectedEventsError, type Rejection } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import { connectionFields } from "../core/http/config.ts";
import { isConfirmed } from "../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../core/http/requester.ts";
import { secretSchema } from "../core/secret.ts";
import { type Batch, defineSink, type SinkRecord } from "../core/sink.ts";
import { isEmptyOrObject } from "./over-http/confirmations.ts";
import { halveUntilNamed } from "./over-http/halve.ts";
import { arrayOverheads, joinElements } from "./over-http/json-array.ts";
import { probeOver } from "./over-http/probe.ts";
import { jsonOf, saying, statusError } from "./over-http/status.ts";
import { WRITES_MAX } from "./over-http/writes.ts";
import { textOf } from "./shared/body.ts";

const BODY_BYTES_MAX = 5_000_000;
const ITEM_BYTES_MAX = 1_000_000;
const ITEMS_MAX = 1000;
/** Datadog takes older events with a 202 and drops them. */
const AGE_MS_MAX = 18 * 3_600_000;

const datadogSchema = z.strictObject({
  site: z.string().min(1).default("datadoghq.com").meta({
    description: "The Datadog site, such as datadoghq.com, datadoghq.eu or us5.datadoghq.com.",
  }),
  url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .meta({ description: "The intake's address, for a proxy; by default that of the site." }),
  apiKey: secretSchema("The API key."),
  source: z.string().min(1).default("tidemark").meta({ description: "The events' source (ddsource)." }),
  service: z.string().min(1).default("directory").meta({ description: "The events' service." }),
  hostname: z.string().min(1).default("tidemark").meta({ description: "The events' host name." }),
  tags: z
    .array(z.string().min(1))
    .default([])
    .meta({ description: "Tags of every event, such as env:production." }),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  ...connectionFields,
});
type DatadogConfig = z.output<typeof datadogSchema>;

export const datadog = defineSink({
  type: "datadog",
  summary: "Sends events to Datadog's log intake.",
  config: datadogSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise:
    "At least once for events of the last 18 hours, with the identity as an attribute; Datadog drops older ones, so they become dead letters.",

  async open({ config, format, clock }) {
    const { requester, destination, url, headers, isTaken } = await connect(config, clock);
    const fixed = JSON.stringify({
      ddsource: config.source,
      service: config.service,
      hostname: config.hostname,
      ddtags: config.tags.length > 0 ? config.tags.join(",") : undefined,
    }).slice(1, -1);

    async function send(records: readonly SinkRecord[], signal: AbortSignal) {
      const body = joinElements("[", records, "]");
      const answer = await requester.send({ url, headers, body, gzip: config.gzip }, signal);
      if (isTaken(answer)) return undefined;
      const error = datadogError(answer, destination);
      if (error) throw error;
      return {
        reason: `Datadog answered ${answer.status}: ${saidOf(answer) ?? "no reason given"}`,
        answer: answer.text,
      };
    }

    return {
      writesMax: WRITES_MAX,
      limits: {
        recordsMax: ITEMS_MAX,
        bytesMax: BODY_BYTES_MAX,
        recordBytesMax: ITEM_BYTES_MAX,
        ...arrayOverheads("[", "]"),
        ageMsMax: 0,
      },
      encode: (event) => itemOf(event, textOf(format.encode(event)), fixed),
      async write(batch, signal) {
        signal.throwIfAborted();
        refuseOld(batch, clock.now());
        await halveUntilNamed(batch.records, (records) => send(records, signal));
        return undefined;
      },
      close: () => requester.close(),
    };
  },

  async probe({ config, clock, signal }) {
    const { requester, destination, url, headers, isTaken } = await connect(config, clock);
    const judge = (answer: Answer) => (isTaken(answer) ? undefined : datadogError(answer, destination));
    // An array without events stores nothing; the key is checked before the content.
    return probeOver({ requester, clock, signal, requests: [{ url, headers, body: "[]", judge }] });
  },

  advise: () => [
    "Datadog drops events that are more than 18 hours old: a backfill cannot go there. Start this sink from now; older events become dead letters.",
  ],
});

async function connect(config: DatadogConfig, clock: Clock) {
  const base = config.url ?? `https://http-intake.logs.${config.site}`;
  const destination = `Datadog at ${new URL(base).origin}`;
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: [config.apiKey],
  });
  const headers = { "dd-api-key": config.apiKey.reveal(), "content-type": "application/json" };
  // The intake answers 202. Proxies of other makers, which `url` may name, answer 200.
  const statuses = config.url === undefined ? [202] : [200, 202];
  const isTaken = (answer: Answer) =>
    isConfirmed(answer, {
      destination,
      expected: "the intake's 202",
      isGiven: (given) => statuses.includes(given.status) && isEmptyOrObject(given),
    });
  return { requester, destination, url: `${base.replace(/\/+$/, "")}/api/v2/logs`, headers, isTaken };
}

function datadogError(answer: Answer, destination: string): Error | undefined {
  const remedy = "Correct apiKey and site in this sink's config.";
  return statusError(answer, { destination, said: saidOf(answer), remedy });
}

function itemOf(event: JournalEvent, body: string, fixed: string): string {
  const attributes = {
    identity: event.identity,
    account: event.account,
    organization: event.organization ?? undefined,
    service: event.service || undefined,
    event_type: event.eventType || undefined,
  };
  return `{"message":${JSON.stringify(body)},${fixed},"timestamp":${event.timestampMs},"tidemark":${JSON.stringify(attributes)}}`;
}

/** R27: they become dead letters instead of being sent and dropped. */
function refuseOld(batch: Batch, nowMs: number): void {
  const rejected: Rejection[] = [];
  const remaining: number[] = [];
  for (const [index, { event }] of batch.records.entries()) {
    if (nowMs - event.timestampMs <= AGE_MS_MAX) remaining.push(index);
    else {
      const reason = "the event is more than 18 hours old, which Datadog drops";
      rejected.push({ index, reason, isOld: true });
    }
  }
  if (rejected.length > 0)
    throw new RejectedEventsError("Events are too old for Datadog.", rejected, { remaining });
}

function saidOf(answer: Answer): string | undefined {
  const errors = jsonOf(answer)?.errors;
  const [first] = Array.isArray(errors) ? (errors as unknown[]) : [];
  if (typeof first === "string") return saying(first);
  const { title, detail } = (first ?? {}) as Record<string, unknown>;
  return saying(title, detail);
}
