import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { PausedError } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import { connectionFields } from "../../core/http/config.ts";
import { isConfirmed } from "../../core/http/confirmed.ts";
import { type Answer, makeRequester } from "../../core/http/requester.ts";
import { durationSchema, sizeSchema } from "../../core/schema.ts";
import { defineSink, type SinkRecord } from "../../core/sink.ts";
import { isJsonObject } from "../over-http/confirmations.ts";
import { halveUntilNamed } from "../over-http/halve.ts";
import { arrayOverheads, joinElements } from "../over-http/json-array.ts";
import { skewRemarks } from "../over-http/probe.ts";
import { jsonOf, statusError } from "../over-http/status.ts";
import { WRITES_MAX } from "../over-http/writes.ts";
import { bytesOf } from "../shared/body.ts";
import { googleFields, googleSecrets, googleTokens } from "./auth.ts";
import { googleWords, sendWithToken } from "./send.ts";

const idSchema = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$/, { error: "letters, digits, `-`, `_`, `.` and `:`" })
    .meta({ description });

const secopsSchema = z.strictObject({
  project: idSchema("The Google Cloud project that is linked to the instance."),
  location: idSchema("The instance's location, such as us, eu or asia-southeast1."),
  instance: idSchema("The instance's id (the customer id, a UUID)."),
  logType: idSchema("The log type that the parser belongs to, such as JUMPCLOUD_DIRECTORY_INSIGHTS."),
  forwarder: idSchema("The id of the forwarder in the instance to which the logs are attributed."),
  namespace: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .meta({ description: "The environment namespace of the logs." }),
  endpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .meta({ description: "The API's address; by default that of the location." }),
  apiVersion: z.enum(["v1", "v1beta", "v1alpha"]).default("v1").meta({
    description: "The version of the Chronicle API.",
  }),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  batchBytesMax: sizeSchema("The largest body, before compression.", { min: 10_000, max: 4e6 }).prefault(
    "1MB",
  ),
  batchEventsMax: z
    .int()
    .min(1)
    .max(10_000)
    .default(1000)
    .meta({ description: "The most events in one request." }),
  batchAgeMax: durationSchema("How long a batch that is not full waits for more events.", {
    maxMs: 3_600_000,
  }).prefault("0s"),
  ...googleFields,
  ...connectionFields,
});
type SecopsConfig = z.output<typeof secopsSchema>;

export const googleSecops = defineSink({
  type: "google_secops",
  summary: "Imports events as raw logs into Google Security Operations, by the Chronicle API.",
  config: secopsSchema,
  defaultFormat: "raw",
  guarantee: "at_least_once",
  promise: "At least once, with the identity as a label of every log.",

  async open({ config, format, clock, signal }) {
    const connection = await connect(config, clock);
    const { destination } = connection;

    async function send(records: readonly SinkRecord[], abort: AbortSignal) {
      const answer = await connection.post(joinElements(connection.head, records, TAIL), abort);
      if (isTaken(answer, destination)) return undefined;
      const error = secopsError(answer, destination);
      if (error) throw error;
      return {
        reason: `Google SecOps answered ${answer.status}: ${googleWords(answer) ?? "no reason given"}`,
        answer: answer.text,
      };
    }

    try {
      await connection.tokens.get(signal);
    } catch (error) {
      await connection.close();
      throw error;
    }
    return {
      writesMax: WRITES_MAX,
      limits: {
        recordsMax: config.batchEventsMax,
        bytesMax: config.batchBytesMax,
        limitedBy: "batchBytesMax",
        ...arrayOverheads(connection.head, TAIL),
        ageMsMax: config.batchAgeMax,
      },
      encode: (event) => logOf(event, bytesOf(format.encode(event)), config.namespace),
      async write(batch, abort) {
        abort.throwIfAborted();
        await halveUntilNamed(batch.records, (records) => send(records, abort));
        return undefined;
      },
      close: () => connection.close(),
    };
  },

  /** A request without logs is refused as invalid after the right to import was checked; nothing is stored. */
  async probe({ config, clock, signal }) {
    const connection = await connect(config, clock);
    try {
      const answer = await connection.post(`${connection.head}${TAIL}`, signal);
      const { destination } = connection;
      const error = isTaken(answer, destination) ? undefined : secopsError(answer, destination);
      if (error) throw error;
      return skewRemarks(answer.dateMs, clock.now());
    } finally {
      await connection.close();
    }
  },
});

const TAIL = "]}}";

async function connect(config: SecopsConfig, clock: Clock) {
  const { project, location, instance, logType, forwarder } = config;
  const base = (config.endpoint ?? `https://chronicle.${location}.rep.googleapis.com`).replace(/\/+$/, "");
  const parent = `projects/${project}/locations/${location}/instances/${instance}`;
  const url = `${base}/${config.apiVersion}/${parent}/logTypes/${logType}/logs:import`;
  const destination = `Google SecOps at ${new URL(base).origin}`;
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: googleSecrets(config),
  });
  try {
    const tokens = googleTokens(requester, clock, config);
    return {
      destination,
      tokens,
      head: `{"inlineSource":{"forwarder":${JSON.stringify(`${parent}/forwarders/${forwarder}`)},"logs":[`,
      post(body: Uint8Array | string, signal: AbortSignal): Promise<Answer> {
        const headers = { "content-type": "application/json" };
        return sendWithToken(requester, tokens, { url, headers, body, gzip: config.gzip }, signal);
      },
      close: () => requester.close(),
    };
  } catch (error) {
    await requester.close();
    throw error;
  }
}

/** One log: its bytes, the time of the event, and labels by which a repeat can be recognized. */
function logOf(event: JournalEvent, body: Uint8Array, namespace: string | undefined): string {
  const label = (value: string) => ({ value });
  return JSON.stringify({
    data: Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("base64"),
    logEntryTime: new Date(event.timestampMs).toISOString(),
    // The API refuses a log that was collected before it was written.
    collectionTime: new Date(Math.max(event.fetchedAtMs, event.timestampMs)).toISOString(),
    environmentNamespace: namespace,
    labels: {
      tidemark_identity: label(event.identity),
      account: label(event.account),
      ...(event.organization !== null && { organization: label(event.organization) }),
      ...(event.service !== "" && { service: label(event.service) }),
    },
  });
}

/** The API answers with an object that has no members. */
function isTaken(answer: Answer, destination: string): boolean {
  return isConfirmed(answer, { destination, expected: "the API's JSON object", isGiven: isJsonObject });
}

function secopsError(answer: Answer, destination: string): Error | undefined {
  const said = googleWords(answer);
  const remedy =
    answer.status === 403
      ? "Give the service account the permission chronicle.logs.import (role Chronicle API Editor) in the project."
      : "Correct project, location, instance, logType, forwarder or credentials in this sink's config.";
  // A forwarder or log type that does not exist is a 400 about the config, not about an event.
  const text = String((jsonOf(answer)?.error as Record<string, unknown> | undefined)?.message ?? "");
  if (answer.status === 400 && /forwarder|log ?type/i.test(text))
    return new PausedError(`${destination} answered 400: ${said}`, remedy);
  return statusError(answer, { destination, said, remedy });
}
