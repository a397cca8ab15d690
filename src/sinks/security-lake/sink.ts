import { z } from "zod";
import { durationSchema, sizeSchema } from "../../core/schema.ts";
import { defineSink, type SinkRecord } from "../../core/sink.ts";
import { OBJECTS_PROMISE, openObjects, probeObjects } from "../objects/sink.ts";
import { bucketFields } from "../s3/config.ts";
import { openBucket } from "../s3/store.ts";
import { classUidOf, lakeSourceOf } from "./sources.ts";

const { region: _region, bucket: _bucket, ...fields } = bucketFields;

const nameSchema = (description: string) =>
  z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, { error: "a letter, then up to 63 letters, digits, `-` and `_`" })
    .meta({ description });

const securityLakeSchema = z.strictObject({
  bucket: z.string().min(1).meta({
    description: "The lake's bucket in the region, aws-security-data-lake-REGION-….",
  }),
  region: z.string().min(1).meta({ description: "The lake's region." }),
  accountId: z
    .string()
    .regex(/^\d{12}$/, { error: "the twelve digits of an AWS account" })
    .meta({ description: "The AWS account that the custom sources were added for." }),
  sourcePrefix: nameSchema(
    "The custom source of a class is this, an underscore and the class: tidemark_authentication.",
  ).default("tidemark"),
  sources: z
    .record(
      z.string().regex(/^[a-z_]+$/, { error: "a class such as authentication" }),
      nameSchema("A custom source."),
    )
    .default({})
    .meta({
      description: "Other names for custom sources, by class: `{ authentication: directory-logins }`.",
    }),
  sourceVersion: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,32}$/, { error: "letters, digits, `.`, `-` and `_`" })
    .optional()
    .meta({ description: "The custom sources' version, if they were added with one; part of every key." }),
  ...fields,
  objectBytesMax: sizeSchema("The largest object, as JSON before it becomes Parquet.", {
    min: 1_000_000,
    max: 256e6,
  }).prefault("64MB"),
  objectEventsMax: z.int().min(1).max(1_000_000).default(100_000).meta({
    description: "The most events in one batch, which becomes an object for each class and day.",
  }),
  objectAgeMax: durationSchema(
    "How long events wait for objects to fill. AWS asks for 5 minutes to a day, to keep objects few.",
    { minMs: 300_000, maxMs: 86_400_000 },
  ).prefault("5m"),
});

/**
 * Objects in the layout of Amazon Security Lake: one custom source for each OCSF class, partitions by region,
 * account and day of the event, Parquet with zstd, records in the order of their time.
 */
export const securityLake = defineSink({
  type: "security_lake",
  summary: "Writes OCSF as Parquet objects to Amazon Security Lake, one custom source for each class.",
  config: securityLakeSchema,
  defaultFormat: "parquet",
  guarantee: "exactly_once",
  promise: `${OBJECTS_PROMISE} Records of one object are in the order of their time.`,
  containers: ["parquet"],
  containersOnly: true,
  boundsFirst: true,

  async open(context) {
    const { config } = context;
    const { region, accountId, sourcePrefix, sources, sourceVersion } = config;
    const store = await openBucket(context, config, PREFIX);
    return openObjects(context, {
      store,
      compression: "none",
      settings: { ...config, prefix: PREFIX },
      folders: { names: { region, accountId, sourcePrefix, sources, sourceVersion }, folderOf },
      order: (a, b) => a.timestampMs - b.timestampMs,
    });
  },

  async probe(context) {
    const { config } = context;
    const prefix = `${PREFIX}${lakeSourceOf(AUTHENTICATION, config)}/`;
    return probeObjects(context, await openBucket(context, config, prefix), prefix);
  },
});

type FolderNames = Pick<
  z.output<typeof securityLakeSchema>,
  "region" | "accountId" | "sourcePrefix" | "sources" | "sourceVersion"
>;

function folderOf({ body, event }: SinkRecord, from: unknown): string {
  const names = from as FolderNames;
  const day = new Date(event.timestampMs).toISOString().slice(0, 10).replaceAll("-", "");
  const source = lakeSourceOf(classUidOf(body), names);
  const version = names.sourceVersion === undefined ? "" : `/${names.sourceVersion}`;
  return `${source}${version}/region=${names.region}/accountId=${names.accountId}/eventDay=${day}`;
}

/** Custom sources are below this in every lake. */
const PREFIX = "ext/";
const AUTHENTICATION = 3002;
