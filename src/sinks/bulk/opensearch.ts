import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { secretSchema } from "../../core/secret.ts";
import { defineSink, type SinkContext } from "../../core/sink.ts";
import { defaultCredentials } from "../aws/credentials.ts";
import { awsSignedHeaders } from "../aws/sign.ts";
import { bulkFields } from "./config.ts";
import { type BulkCredentials, basicCredentials } from "./credentials.ts";
import { probeBulk } from "./probe.ts";
import { BULK_PROMISE, bulkPromiseOf, openBulk } from "./sink.ts";

const awsSchema = z
  .strictObject({
    region: z.string().min(1).meta({ description: "The AWS region of the domain." }),
    service: z.enum(["es", "aoss"]).default("es").meta({
      description: "es for Amazon OpenSearch Service, aoss for OpenSearch Serverless.",
    }),
  })
  .optional()
  .meta({
    description:
      "Signs every request with AWS credentials (Signature Version 4), from the environment, a web identity or the machine's role, instead of a user.",
  });

const opensearchSchema = z.strictObject({
  ...bulkFields,
  password: secretSchema("The password of basic authentication.").optional(),
  aws: awsSchema,
});
type OpenSearchConfig = z.output<typeof opensearchSchema>;

export const opensearch = defineSink({
  type: "opensearch",
  summary: "Writes events to OpenSearch, into an index per month or a data stream.",
  config: opensearchSchema,
  defaultFormat: "ecs",
  guarantee: "exactly_once",
  promise: BULK_PROMISE,
  promiseOf: bulkPromiseOf,
  boundsFirst: true,
  open: async (context) => openBulk(context, "OpenSearch", await credentialsOf(context)),
  probe: async (context) => probeBulk(context, "OpenSearch", await credentialsOf(context)),
});

async function credentialsOf({ config, clock }: SinkContext<OpenSearchConfig>): Promise<BulkCredentials> {
  return config.aws ? awsCredentials(config.aws, clock) : basicCredentials(config);
}

async function awsCredentials(
  { region, service }: { readonly region: string; readonly service: string },
  clock: Clock,
): Promise<BulkCredentials> {
  const source = await defaultCredentials(region);
  return {
    authorization: undefined,
    secrets: [],
    sign: async (request) =>
      awsSignedHeaders({ ...request, region, service, credentials: await source(), nowMs: clock.now() }),
  };
}
