import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RejectedEventsError } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import { connectionFields } from "../../core/http/config.ts";
import { isConfirmed } from "../../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../../core/http/requester.ts";
import { durationSchema, sizeSchema } from "../../core/schema.ts";
import { secretSchema } from "../../core/secret.ts";
import { defineSink, type SinkRecord } from "../../core/sink.ts";
import { halveUntilNamed } from "../over-http/halve.ts";
import { probeOver } from "../over-http/probe.ts";
import { jsonOf, saying, statusError } from "../over-http/status.ts";
import { WRITES_MAX } from "../over-http/writes.ts";
import { isJson, textOf } from "../shared/body.ts";
import { channelHeader, createAcknowledgements } from "./acknowledgements.ts";
import { collectorCode } from "./answer.ts";

const ackSchema = z
  .strictObject({
    timeout: durationSchema("How long to wait for an acknowledgement before the batch is sent again.", {
      minMs: 100,
      maxMs: 3_600_000,
    }).prefault("2m"),
    interval: durationSchema("How often to ask for those that are missing.", {
      minMs: 10,
      maxMs: 60_000,
    }).prefault("1s"),
    batchesMax: z.int().min(1).max(1000).default(32).meta({
      description: "The most batches that wait for an acknowledgement at once. They are held in memory.",
    }),
  })
  .meta({
    description:
      "Waits until the indexers acknowledge each batch. The token must have acknowledgement enabled, which Splunk Enterprise offers; without it a 200 does not mean stored.",
  });

const splunkSchema = z.strictObject({
  url: z
    .url({ protocol: /^https?$/ })
    .meta({ description: "The collector's address, such as https://splunk.example:8088." }),
  token: secretSchema("The collector's token."),
  path: z
    .string()
    .regex(/^\/[\w./-]*[\w-]$/, { error: "a path such as /services/collector/event" })
    .default("/services/collector/event")
    .meta({ description: "The path that takes events; other receivers of the protocol may have another." }),
  scheme: z.enum(["Splunk", "Bearer"]).default("Splunk").meta({
    description: "The word before the token in the Authorization header: Splunk, or Bearer for LogScale.",
  }),
  index: z.string().min(1).optional().meta({ description: "The index; by default the token's own." }),
  source: z.string().min(1).default("tidemark").meta({ description: "The events' source." }),
  sourcetype: z.string().min(1).optional().meta({
    description: "The events' source type; by default _json for JSON formats and the token's own for others.",
  }),
  host: z.string().min(1).default("tidemark").meta({ description: "The events' host." }),
  acknowledge: ackSchema.optional(),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  batchBytesMax: sizeSchema("The largest body, before compression.", { min: 1000, max: 100e6 }).prefault(
    "1MB",
  ),
  ...connectionFields,
});
type SplunkConfig = z.output<typeof splunkSchema>;

export const splunkHec = defineSink({
  type: "splunk_hec",
  summary: "Sends events to Splunk's HTTP Event Collector.",
  config: splunkSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise:
    "At least once, once the collector has answered; with `acknowledge`, once the indexers hold it. The identity is an indexed field of every event.",

  async open({ config, format, clock, signal }) {
    const { requester, origin, base, url, headers } = await connect(config, clock);
    const isJsonFormat = isJson(format);
    const head = envelopeHead(config, isJsonFormat);
    const acknowledgements =
      config.acknowledge &&
      createAcknowledgements({
        ...{ requester, clock, headers, ...config.acknowledge },
        destination: `Splunk at ${origin}`,
        url: `${base}/services/collector/ack`,
        meaningOf: (answer) => meaningOf(answer, origin),
      });

    async function send(records: readonly SinkRecord[], abort: AbortSignal) {
      const body = Buffer.concat(records.map((record) => record.body));
      const post = (more: Readonly<Record<string, string>>) =>
        requester.send({ url, headers: { ...headers, ...more }, body, gzip: config.gzip }, abort);
      const taken = (answer: Answer) => isTaken(answer, origin);
      const answer = acknowledgements ? await acknowledgements.send(post, taken, abort) : await post({});
      if (taken(answer)) return undefined;
      const { code, text, "invalid-event-number": invalid } = jsonOf(answer) ?? {};
      const error = meaningOf(answer, origin);
      if (error) throw error;
      const reason = `Splunk answered ${saying(text, `(code ${String(code)})`)}`;
      if (typeof invalid === "number" && invalid >= 0 && invalid < records.length)
        throw new NamedRefusal(invalid, reason, answer.text);
      return { reason, answer: answer.text };
    }

    try {
      const error = probed(await requester.send({ url, headers, body: "" }, signal), origin);
      if (error) throw error;
    } catch (error) {
      await requester.close();
      throw error;
    }

    return {
      limits: { recordsMax: 10_000, bytesMax: config.batchBytesMax, limitedBy: "batchBytesMax", ageMsMax: 0 },
      writesMax: config.acknowledge?.batchesMax ?? WRITES_MAX,
      encode(event) {
        const body = textOf(format.encode(event));
        return `${head(event)}"event":${isJsonFormat ? body : JSON.stringify(body)}}`;
      },
      async write(batch, abort) {
        await halveUntilNamed(batch.records, async (records, indexes) => {
          try {
            return await send(records, abort);
          } catch (error) {
            if (!(error instanceof NamedRefusal)) throw error;
            // Splunk takes nothing of a request in which it names an invalid event.
            const index = indexes[error.at]!;
            const remaining = batch.records.map((_, at) => at).filter((at) => at !== index);
            throw new RejectedEventsError(
              error.message,
              [{ index, reason: error.message, answer: error.answer }],
              { remaining },
            );
          }
        });
        return undefined;
      },
      async close() {
        acknowledgements?.close();
        await requester.close();
      },
    };
  },

  async probe({ config, clock, signal }) {
    const { requester, origin, url, headers } = await connect(config, clock);
    const judge = (answer: Answer) => probed(answer, origin);
    // An envelope without an event is never stored; Splunk may still name an index that the token lacks.
    const body = config.index === undefined ? "" : JSON.stringify({ index: config.index });
    return probeOver({ requester, clock, signal, requests: [{ url, headers, body, judge }] });
  },
});

async function connect(config: SplunkConfig, clock: Clock) {
  const { origin } = new URL(config.url);
  const base = config.url.replace(/\/+$/, "");
  const requester = await makeRequester({
    destination: origin,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: [config.token],
  });
  const headers = {
    authorization: `${config.scheme} ${config.token.reveal()}`,
    "content-type": "application/json",
    // For requests without events.
    ...channelHeader(config.acknowledge && randomUUID()),
  };
  return { requester, origin, base, url: `${base}${config.path}`, headers };
}

class NamedRefusal extends Error {
  readonly at: number;
  readonly answer: string;

  constructor(at: number, reason: string, answer: string) {
    super(reason);
    this.at = at;
    this.answer = answer;
  }
}

/** The envelope up to the event, whose bytes are spliced in unchanged. */
function envelopeHead(
  config: { index?: string | undefined; source: string; sourcetype?: string | undefined; host: string },
  isJsonFormat: boolean,
) {
  const sourcetype = config.sourcetype ?? (isJsonFormat ? "_json" : undefined);
  const fixed = JSON.stringify({ host: config.host, source: config.source, sourcetype, index: config.index });
  return (event: JournalEvent): string => {
    const fields = {
      tidemark_identity: event.identity,
      account: event.account,
      organization: event.organization ?? undefined,
      service: event.service || undefined,
      event_type: event.eventType || undefined,
    };
    const time = (event.timestampMs / 1000).toFixed(3);
    return `{"time":${time},${fixed.slice(1, -1)},"fields":${JSON.stringify(fields)},`;
  };
}

/** The codes that say something about the token or the config, whatever their status is. */
const CODES_TO_PAUSE: ReadonlyMap<unknown, string> = new Map([
  [1, "Enable the token in Splunk."],
  [2, "Set `token`."],
  [3, "Correct `token`."],
  [4, "Correct `token`; Splunk does not know this one."],
  [7, "Add the index to those that the token allows, or correct `index`."],
  [10, "Set `acknowledge`: the token has acknowledgement enabled and wants a channel."],
  [11, "Set `acknowledge`: the token has acknowledgement enabled and wants a channel."],
  [14, "Enable acknowledgement for the token, or remove `acknowledge`."],
]);

/** The error of an answer about the whole request; undefined when it is about events. */
function meaningOf(answer: Answer, destination: string): Error | undefined {
  const { code, text } = jsonOf(answer) ?? {};
  const said = saying(text, code === undefined ? undefined : `(code ${String(code)})`);
  const remedy = CODES_TO_PAUSE.get(collectorCode(answer));
  if (remedy) return new PausedError(`Splunk at ${destination} answered ${answer.status}: ${said}`, remedy);
  return statusError(answer, {
    destination: `Splunk at ${destination}`,
    said,
    remedy: "Correct url or token in this sink's config, or enable the collector in Splunk.",
  });
}

/** The collector answers with code 0; some receivers of the protocol say "Success" with a code of their own. */
function isTaken(answer: Answer, origin: string): boolean {
  return isConfirmed(answer, {
    destination: `Splunk at ${origin}`,
    expected: 'the collector\'s {"text":"Success","code":0}',
    isGiven(given) {
      const { code, text } = jsonOf(given) ?? {};
      return code === 0 || (typeof text === "string" && /^success/i.test(text));
    },
  });
}

/** The answers to a request without events when address, token and index are right: no data, no event field. */
const CODES_WITHOUT_EVENTS: readonly unknown[] = [5, 12];

/** The error in the answer to a request without events, which stores nothing. */
function probed(answer: Answer, destination: string): Error | undefined {
  if (CODES_WITHOUT_EVENTS.includes(collectorCode(answer)) || isTaken(answer, destination)) return undefined;
  return meaningOf(answer, destination);
}
