import { createHmac } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { connectionFields } from "../core/http/config.ts";
import { isConfirmed, isWebPage } from "../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../core/http/requester.ts";
import { durationSchema, sizeSchema } from "../core/schema.ts";
import { Secret, secretSchema } from "../core/secret.ts";
import { type Batch, defineSink, type SinkRecord } from "../core/sink.ts";
import { unnamedRefusalOf } from "./over-http/halve.ts";
import { arrayOverheads, joinElements } from "./over-http/json-array.ts";
import { probeOver } from "./over-http/probe.ts";
import { requestKeyOf } from "./over-http/request-key.ts";
import { jsonOf, saying, statusError } from "./over-http/status.ts";
import { WRITES_MAX } from "./over-http/writes.ts";
import { bytesOf, isJson, isObject, singleLine, spliceMember, textOf } from "./shared/body.ts";

const headersSchema = z
  .record(z.string(), z.union([z.string(), secretSchema("A header's secret value.")]))
  .default({})
  .meta({ description: "Headers of every request; a value that is a secret is { env } or { file }." });

const hmacSchema = z
  .strictObject({
    secret: secretSchema("The key of the HMAC."),
    header: z.string().min(1).default("X-Tidemark-Signature").meta({
      description: "The header that carries the signature, as `t=SECONDS,v1=HEX`.",
    }),
  })
  .meta({
    description:
      "Signs every request: HMAC-SHA256 over the seconds since the epoch, a dot, and the body before compression.",
  });

const httpSchema = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).meta({ description: "The address that takes the events." }),
  body: z.enum(["json_array", "ndjson"]).default("json_array").meta({
    description: "What a request's body is: one JSON array, or one event per line.",
  }),
  headers: headersSchema,
  hmac: hmacSchema.optional(),
  idempotencyHeader: z.string().min(1).default("Idempotency-Key").meta({
    description:
      "The header with the key of a request, which is the same whenever the request is sent again. A batch that was refused is cut, and each part has a key of its own.",
  }),
  addIdentity: z.boolean().default(false).meta({
    description: "Puts the event's identity into every JSON object, as `tidemark_identity`.",
  }),
  gzip: z.boolean().default(false).meta({ description: "Compresses bodies with gzip." }),
  batchBytesMax: sizeSchema("The largest body, before compression.", { min: 1000, max: 100e6 }).default(1e6),
  batchEventsMax: z.int().min(1).max(100_000).default(1000).meta({
    description: "The most events in one request.",
  }),
  batchAgeMax: durationSchema("How long a batch that is not full waits for more events.", {
    maxMs: 3_600_000,
  }).prefault("0s"),
  requestsMax: z.int().min(1).max(16).default(WRITES_MAX).meta({
    description: "The most requests at once. With 1 the receiver gets the events in the journal's order.",
  }),
  ...connectionFields,
});
type HttpConfig = z.output<typeof httpSchema>;

export const http = defineSink({
  type: "http",
  summary: "POSTs batches of events to any HTTP address, as a JSON array or as lines.",
  config: httpSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise:
    "At least once: a request whose answer was lost is sent again with the same events and the same idempotency key, until the receiver answers it; by the key the receiver can tell.",
  boundsFirst: true,
  refusesWhole: true,
  batchFields: ["body", "addIdentity", "idempotencyHeader"],

  async open({ config, format, clock }) {
    const { requester, destination, fixedHeaders } = await connect(config, clock);
    const isArray = config.body === "json_array";
    const isJsonFormat = isJson(format);

    function headersOf(body: Uint8Array, key: string): Record<string, string> {
      const headers: Record<string, string> = {
        "content-type": contentTypeOf(isArray, isJsonFormat),
        ...fixedHeaders,
      };
      headers[config.idempotencyHeader.toLowerCase()] = key;
      if (config.hmac)
        headers[config.hmac.header.toLowerCase()] = sign(config.hmac.secret, clock.now(), body);
      return headers;
    }

    async function send(batch: Batch, signal: AbortSignal): Promise<void> {
      const { records } = batch;
      const body = isArray ? joinElements("[", records, "]") : linesOf(records);
      const answer = await requester.send(
        { url: config.url, headers: headersOf(body, requestKeyOf(batch)), body, gzip: config.gzip },
        signal,
      );
      if (isTaken(answer, destination)) return;
      const said = saidOf(answer);
      const error = statusError(answer, { destination, said, remedy: REMEDY });
      if (error) throw error;
      const reason = `the receiver answered ${answer.status}${said ? `: ${said}` : ""}`;
      throw unnamedRefusalOf(records.length, { reason, answer: answer.text });
    }

    return {
      limits: {
        recordsMax: config.batchEventsMax,
        bytesMax: config.batchBytesMax,
        limitedBy: "batchBytesMax",
        ...(isArray ? arrayOverheads("[", "]") : { recordOverheadBytes: 1 }),
        ageMsMax: config.batchAgeMax,
      },
      writesMax: config.requestsMax,
      encode(event) {
        // Line breaks inside an element of an array are harmless, so it keeps its original bytes.
        const body = (isArray && format.encodeFramed?.(event)) || format.encode(event);
        if (!isJsonFormat) return isArray ? JSON.stringify(textOf(body)) : singleLine(bytesOf(body));
        const bytes = isArray ? bytesOf(body) : singleLine(bytesOf(body));
        if (!config.addIdentity || !isObject(bytes)) return bytes;
        return spliceMember(bytes, `"tidemark_identity":"${event.identity}"`);
      },
      async write(batch, signal) {
        await send(batch, signal);
        return undefined;
      },
      close: () => requester.close(),
    };
  },

  /** HEAD changes nothing at a receiver. One that knows only POST says so, and is reachable. */
  async probe({ config, clock, signal }) {
    const { requester, destination, fixedHeaders } = await connect(config, clock);
    const isAnswer = ({ status }: Answer) => status < 300 || NO_HEAD.includes(status);
    const judge = (answer: Answer) =>
      isAnswer(answer)
        ? undefined
        : statusError(answer, { destination, said: saidOf(answer), remedy: REMEDY });
    const remark = (answer: Answer) => {
      if (answer.status >= 300)
        return [`It answered ${answer.status} to HEAD, so only its address was checked.`];
      return isWebPage(answer)
        ? ["It answered HEAD with a web page: check that the address takes events."]
        : [];
    };
    const request = { method: "HEAD", url: config.url, headers: fixedHeaders, judge, remark } as const;
    return probeOver({ requester, clock, signal, requests: [request] });
  },
});

/** The answers of receivers that know no HEAD. */
const NO_HEAD: readonly number[] = [400, 404, 405, 411, 415, 422, 501];
const REMEDY = "Correct url, headers or hmac in this sink's config, or the receiver's permissions.";

async function connect(config: HttpConfig, clock: Clock) {
  const destination = new URL(config.url).origin;
  const secretHeaders = Object.values(config.headers).filter((value) => value instanceof Secret);
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: [...secretHeaders, ...(config.hmac ? [config.hmac.secret] : [])],
  });
  const fixedHeaders: Record<string, string> = {};
  for (const [name, value] of Object.entries(config.headers))
    fixedHeaders[name.toLowerCase()] = value instanceof Secret ? value.reveal() : value;
  return { requester, destination, fixedHeaders };
}

/** The receiver is anyone's own, so any 2xx counts. A whole page for a browser is a sign-in page or a wrong address. */
function isTaken(answer: Answer, destination: string): boolean {
  return isConfirmed(answer, {
    destination,
    expected: "the receiver's own 2xx",
    isGiven: ({ text }) => !/^\s*<(!doctype\s+html|html)\b/i.test(text),
  });
}

function saidOf(answer: Answer): string | undefined {
  const json = jsonOf(answer);
  return saying(json?.code, json?.title);
}

function sign(secret: Secret, nowMs: number, body: Uint8Array): string {
  const seconds = Math.floor(nowMs / 1000);
  const digest = createHmac("sha256", secret.reveal()).update(`${seconds}.`).update(body).digest("hex");
  return `t=${seconds},v1=${digest}`;
}

function contentTypeOf(isArray: boolean, isJsonFormat: boolean): string {
  if (isArray) return "application/json";
  return isJsonFormat ? "application/x-ndjson" : "text/plain; charset=utf-8";
}

function linesOf(records: readonly SinkRecord[]): Uint8Array {
  return Buffer.concat(records.flatMap((record) => [record.body, BREAK]));
}

const BREAK = Buffer.from("\n");
