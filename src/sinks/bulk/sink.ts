import { z } from "zod";
import { PausedError } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import { connectionFields } from "../../core/http/config.ts";
import { makeRequester } from "../../core/http/requester.ts";
import { compileTemplate } from "../../core/names.ts";
import { durationSchema, sizeSchema } from "../../core/schema.ts";
import type { Sink, SinkContext, SinkRecord } from "../../core/sink.ts";
import { halveUntilNamed } from "../over-http/halve.ts";
import { isSuccess } from "../over-http/status.ts";
import { isJson } from "../shared/body.ts";
import { type BulkConnection, bulkError, itemsOf, judge, saidOf } from "./answer.ts";
import type { BulkCredentials } from "./credentials.ts";
import { documentOf } from "./document.ts";
import { withoutLongValues } from "./long-values.ts";
import type { Product } from "./mappings.ts";
import { putTemplate } from "./template.ts";

const INDEX_LENGTH_MAX = 255;
const PLACEHOLDERS = ["date", "organization", "service", "account"] as const;
const PLACEHOLDER_LENGTHS: Readonly<Record<string, number>> = { date: 10 };

const indexSchema = z
  .string()
  .superRefine((template, context) => {
    const problem = indexProblem(template);
    if (problem) context.addIssue({ code: "custom", message: problem });
  })
  .optional()
  .meta({
    description:
      "The index, from {date} (the event's own day, UTC), {organization}, {service} and {account}; or the data stream's name. By default tidemark-{date}, or tidemark for a data stream.",
  });

/** Fields that Elasticsearch and OpenSearch share. */
export const bulkFields = {
  url: z.url({ protocol: /^https?$/ }).meta({ description: "The cluster's address." }),
  username: z.string().min(1).optional().meta({ description: "The user of basic authentication." }),
  index: indexSchema,
  dataStream: z.boolean().default(false).meta({
    description:
      "Writes to a data stream instead of indexes. A repeated event is recognized only until the stream rolls over; with an index per day always.",
  }),
  template: z.boolean().default(true).meta({
    description:
      "Puts an index template with mappings for the sink's format when the sink is opened. Without it, an event whose fields have other types than before can be refused. A user who may not put templates gets an alarm, and events are written all the same.",
  }),
  gzip: z.boolean().default(true).meta({ description: "Compresses bodies with gzip." }),
  batchBytesMax: sizeSchema("The largest bulk request, before compression.", {
    min: 10_000,
    max: 100e6,
  }).prefault("5MB"),
  batchAgeMax: durationSchema("How long a batch that is not full waits for more events.", {
    maxMs: 3_600_000,
  }).prefault("0s"),
  ...connectionFields,
};

export type BulkConfig = z.output<z.ZodObject<typeof bulkFields>>;

export const BULK_PROMISE =
  "Exactly once in indexes: an event's _id and index come from the event itself, and `create` takes each _id once. In a data stream at least once: a batch repeated across a rollover is taken again.";

/** The bulk API of both, with `create` and a deterministic _id: repeating a request is harmless. */
export async function openBulk(
  context: SinkContext<BulkConfig>,
  product: Product,
  credentials: BulkCredentials,
): Promise<Sink> {
  const { config, format } = context;
  const { origin } = new URL(config.url);
  const destination = `${product} at ${origin}`;
  const template = config.index ?? (config.dataStream ? "tidemark" : "tidemark-{date}");
  if (config.dataStream && template.includes("{date}"))
    throw new PausedError(
      "The index has a {date}, which a data stream cannot have.",
      "Leave {date} out of index, or set dataStream: false.",
    );
  const indexOf = compileTemplate(template, PLACEHOLDERS);
  const requester = await makeRequester({
    destination,
    clock: context.clock,
    timeoutMs: config.timeout,
    tls: config.tls,
    secrets: credentials.secrets,
  });
  const connection: BulkConnection = {
    destination,
    base: config.url.replace(/\/+$/, ""),
    headers: credentials.authorization ? { authorization: credentials.authorization } : {},
    send: (outgoing, signal) => requester.send(outgoing, signal),
  };
  const isJsonFormat = isJson(format);
  // Elasticsearch leaves over-long values out of the index by itself.
  const flatMembers = product === "OpenSearch" && isJsonFormat ? (format.variable ?? []) : [];
  // The items report a missing shard before our own timeout.
  const waitMs = Math.ceil(config.timeout / 3);
  const url = `${connection.base}/_bulk?timeout=${waitMs}ms&filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason`;

  async function send(records: readonly SinkRecord[], indexes: readonly number[], signal: AbortSignal) {
    const headers = { ...connection.headers, "content-type": "application/x-ndjson" };
    const body = Buffer.concat(records.map((record) => record.body));
    const answer = await requester.send({ url, headers, body, gzip: config.gzip }, signal);
    if (!isSuccess(answer)) {
      const error = bulkError(answer, destination);
      if (error) throw error;
      return {
        reason: `${product} answered ${answer.status}: ${saidOf(answer) ?? "no reason given"}`,
        answer: answer.text,
      };
    }
    judge(itemsOf(answer, records.length), indexes, product);
    return undefined;
  }

  try {
    await probe(connection, context.signal);
    if (config.template) {
      const { name } = context;
      const names = { sink: name, index: template, isStream: config.dataStream };
      const refusal = await putTemplate(connection, names, product, format, context.signal);
      context.limited?.(refusal);
    }
  } catch (error) {
    await requester.close();
    throw error;
  }

  return {
    limits: { recordsMax: 5000, bytesMax: config.batchBytesMax, ageMsMax: config.batchAgeMax },
    encode: (event: JournalEvent) =>
      Buffer.concat([
        Buffer.from(`{"create":{"_index":"${indexOf(event)}","_id":"${event.identity}"}}\n`),
        withoutLongValues(documentOf(event, format.encode(event), isJsonFormat), flatMembers),
        BREAK,
      ]),
    async write(batch, signal) {
      await halveUntilNamed(batch.records.length, (indexes) =>
        send(
          indexes.map((index) => batch.records[index]!),
          indexes,
          signal,
        ),
      );
      return undefined;
    },
    close: () => requester.close(),
  };
}

const BREAK = Buffer.from("\n");

/** Checks that the cluster answers and accepts the credentials. A user who may only write gets a 403 here. */
async function probe(connection: BulkConnection, signal: AbortSignal): Promise<void> {
  const { base, headers, destination } = connection;
  const answer = await connection.send({ method: "GET", url: `${base}/`, headers }, signal);
  if (isSuccess(answer) || answer.status === 403 || answer.status === 404) return;
  const error = bulkError(answer, destination);
  if (error) throw error;
}

/** The fault of an index name with placeholders: names made from it must be valid for every event. */
function indexProblem(template: string): string | undefined {
  try {
    compileTemplate(template, PLACEHOLDERS);
  } catch (error) {
    return (error as Error).message;
  }
  if (!/^[a-z0-9]/.test(template))
    return "begin with a small letter or a digit: an index name must not begin with a placeholder";
  const literal = template.replace(/\{[^}]*\}/g, "");
  if (!/^[a-z0-9._~-]*$/.test(literal))
    return "use small letters, digits, dots, hyphens and underscores only";
  let length = literal.length;
  for (const [, name] of template.matchAll(/\{([^}]*)\}/g)) length += PLACEHOLDER_LENGTHS[name!] ?? 100;
  if (length > INDEX_LENGTH_MAX) return `a name could become longer than ${INDEX_LENGTH_MAX} characters`;
  return undefined;
}
