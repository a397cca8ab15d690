import { z } from "zod";
import type { JournalEvent } from "../../core/event.ts";
import { connectionFields } from "../../core/http/config.ts";
import { compileTemplate } from "../../core/names.ts";
import { durationSchema, sizeSchema } from "../../core/schema.ts";
import { DAY_MS } from "../../core/time.ts";

const INDEX_LENGTH_MAX = 255;
export const INDEX_PLACEHOLDERS = ["date", "month", "organization", "service", "account"] as const;
const PLACEHOLDER_LENGTHS: Readonly<Record<string, number>> = { date: 10, month: 7 };

const indexSchema = z
  .string()
  .superRefine((template, context) => {
    const problem = indexProblem(template);
    if (problem) context.addIssue({ code: "custom", message: problem });
  })
  .optional()
  .meta({
    description:
      "The index, from {month} or {date} (the event's own, UTC), {organization}, {service} and {account}; or the data stream's name. By default tidemark-{month}, or tidemark for a data stream. A sink that has written daily indexes by an earlier default keeps them. After a change, batches that were begun are completed under the name of before.",
  });

/** The settings that Elasticsearch and OpenSearch share. */
export const bulkFields = {
  url: z.url({ protocol: /^https?$/ }).meta({ description: "The cluster's address." }),
  username: z.string().min(1).optional().meta({ description: "The user of basic authentication." }),
  index: indexSchema,
  dataStream: z.boolean().default(false).meta({
    description:
      "Writes to a data stream instead of indexes. A repeated event is recognized only until the stream rolls over; in an index of the event's own month or day always.",
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
  requestsMax: z.int().min(1).max(16).default(4).meta({
    description:
      "The most bulk requests at once. Fewer are sent, and smaller ones, while the cluster is slow or answers 429.",
  }),
  ...connectionFields,
  timeout: durationSchema("How long one bulk request may take before it is tried again.", {
    minMs: 100,
    maxMs: 1_800_000,
  }).prefault("5m"),
};

export type BulkConfig = z.output<z.ZodObject<typeof bulkFields>>;

/** The index of an event. Neighbours are mostly of one day: a name that has no other part is made once for it. */
export function indexNames(template: string): (event: JournalEvent) => string {
  const nameOf = compileTemplate(template, INDEX_PLACEHOLDERS);
  if (/\{(?!date\}|month\})/.test(template)) return nameOf;
  let day: number | undefined;
  let name = "";
  return (event) => {
    const its = Math.floor(event.timestampMs / DAY_MS);
    if (its !== day) name = nameOf(event);
    day = its;
    return name;
  };
}

/** The fault of an index template: every name made from it must be valid, whatever the events contain. */
function indexProblem(template: string): string | undefined {
  try {
    compileTemplate(template, INDEX_PLACEHOLDERS);
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
