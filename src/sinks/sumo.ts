import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { PausedError, RejectedEventsError, type Rejection } from "../core/errors.ts";
import { connectionFields } from "../core/http/config.ts";
import { isConfirmed } from "../core/http/confirmed.ts";
import { isSafeAddress } from "../core/http/plain-http.ts";
import { type Answer, makeRequester } from "../core/http/requester.ts";
import { secretOf, secretSchema } from "../core/secret.ts";
import { type Batch, defineSink, type SinkRecord } from "../core/sink.ts";
import { isEmptyOrObject } from "./over-http/confirmations.ts";
import { halveUntilNamed } from "./over-http/halve.ts";
import { probeOver } from "./over-http/probe.ts";
import { jsonOf, saying, statusError } from "./over-http/status.ts";
import { WRITES_MAX } from "./over-http/writes.ts";
import { bytesOf, isJson, isObject, singleLine, spliceMember } from "./shared/body.ts";

const BODY_BYTES_MAX = 1_000_000;
/** Sumo Logic cuts longer messages into several. */
const MESSAGE_BYTES_MAX = 65_536;

const headerSchema = (description: string) =>
  z
    .string()
    .regex(/^[\x20-\x7e]{1,1024}$/, { error: "1 to 1024 printable ASCII characters" })
    .optional()
    .meta({ description });

const sumoSchema = z.strictObject({
  url: secretSchema("The HTTP source's address, which is a secret: it is all that is needed to write there."),
  category: headerSchema("The source category of the events; by default the source's own."),
  sourceName: headerSchema("The source name of the events; by default the source's own."),
  host: headerSchema("The source host of the events; by default the source's own."),
  addIdentity: z.boolean().default(true).meta({
    description: "Puts the event's identity into every JSON object, as `tidemark_identity`, to tell repeats.",
  }),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  ...connectionFields,
});
type SumoConfig = z.output<typeof sumoSchema>;

export const sumo = defineSink({
  type: "sumo",
  summary: "Sends events to an HTTP source of Sumo Logic.",
  config: sumoSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise: "At least once, with the identity in every JSON event.",

  async open({ config, format, clock }) {
    const { requester, url, headers } = await connect(config, clock);
    const addsIdentity = config.addIdentity && isJson(format);

    async function send(records: readonly SinkRecord[], signal: AbortSignal) {
      const body = Buffer.concat(records.flatMap((record) => [record.body, BREAK]));
      const answer = await requester.send({ url, headers, body, gzip: config.gzip }, signal);
      if (isTaken(answer)) return undefined;
      const error = sumoError(answer);
      if (error) throw error;
      return {
        reason: `Sumo Logic answered ${answer.status}: ${saidOf(answer) ?? "no reason given"}`,
        answer: answer.text,
      };
    }

    return {
      writesMax: WRITES_MAX,
      limits: {
        recordsMax: 10_000,
        bytesMax: BODY_BYTES_MAX,
        recordBytesMax: MESSAGE_BYTES_MAX,
        recordOverheadBytes: 1,
        ageMsMax: 0,
      },
      encode(event) {
        const body = singleLine(bytesOf(format.encode(event)));
        if (!addsIdentity || !isObject(body)) return body;
        return spliceMember(body, `"tidemark_identity":"${event.identity}"`);
      },
      async write(batch, signal) {
        signal.throwIfAborted();
        refuseTooLarge(batch);
        await halveUntilNamed(batch.records, (records) => send(records, signal));
        return undefined;
      },
      close: () => requester.close(),
    };
  },

  async probe({ config, clock, signal }) {
    const { requester, url, headers } = await connect(config, clock);
    const judge = (answer: Answer) => (isTaken(answer) ? undefined : sumoError(answer));
    // A body without a message stores nothing.
    return probeOver({ requester, clock, signal, requests: [{ url, headers, body: "", judge }] });
  },
});

async function connect(config: SumoConfig, clock: Clock) {
  const url = config.url.reveal().trim();
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new PausedError("The secret of url is no HTTP address.", REMEDY);
  if (!config.plainHttp && !isSafeAddress(url))
    throw new PausedError(
      "The secret of url is an http address, which would send it in the clear.",
      "Use the https address, or set plainHttp: true.",
    );
  const requester = await makeRequester({
    destination: DESTINATION,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    // A refusal may repeat the path without the host.
    secrets: [config.url, secretOf(new URL(url).pathname)],
  });
  const headers = {
    "content-type": "text/plain; charset=utf-8",
    ...(config.category && { "x-sumo-category": config.category }),
    ...(config.sourceName && { "x-sumo-name": config.sourceName }),
    ...(config.host && { "x-sumo-host": config.host }),
  };
  return { requester, url, headers };
}

function saidOf(answer: Answer): string | undefined {
  const json = jsonOf(answer);
  return saying(json?.code, json?.message);
}

/** An HTTP source answers 200 and nothing more. */
function isTaken(answer: Answer): boolean {
  return isConfirmed(answer, {
    destination: DESTINATION,
    expected: "an empty 200",
    isGiven: (given) => given.status === 200 && isEmptyOrObject(given),
  });
}

function sumoError(answer: Answer): Error | undefined {
  return statusError(answer, { destination: DESTINATION, said: saidOf(answer), remedy: REMEDY });
}

const DESTINATION = "Sumo Logic";
const REMEDY = "Set url to the address that Sumo Logic shows for the HTTP source.";
const BREAK = Buffer.from("\n");

/** A longer message would arrive in pieces. */
function refuseTooLarge(batch: Batch): void {
  const rejected: Rejection[] = [];
  const remaining: number[] = [];
  for (const [index, { body }] of batch.records.entries()) {
    if (body.length <= MESSAGE_BYTES_MAX) remaining.push(index);
    else rejected.push({ index, reason: `the message has ${body.length} bytes; Sumo Logic takes 64 KB` });
  }
  if (rejected.length > 0)
    throw new RejectedEventsError("Messages are too large for Sumo Logic.", rejected, { remaining });
}
