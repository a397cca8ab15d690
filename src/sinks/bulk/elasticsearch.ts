import { z } from "zod";
import { secretSchema } from "../../core/secret.ts";
import { defineSink } from "../../core/sink.ts";
import { bulkFields } from "./config.ts";
import { type BulkCredentials, basicCredentials } from "./credentials.ts";
import { probeBulk } from "./probe.ts";
import { BULK_PROMISE, bulkPromiseOf, openBulk } from "./sink.ts";

const elasticsearchSchema = z.strictObject({
  ...bulkFields,
  password: secretSchema("The password of basic authentication.").optional(),
  apiKey: secretSchema("An API key, encoded as Elasticsearch gives it; instead of a user.").optional(),
});
type ElasticsearchConfig = z.output<typeof elasticsearchSchema>;

export const elasticsearch = defineSink({
  type: "elasticsearch",
  summary: "Writes events to Elasticsearch, into an index per month or a data stream.",
  config: elasticsearchSchema,
  defaultFormat: "ecs",
  guarantee: "exactly_once",
  promise: BULK_PROMISE,
  promiseOf: bulkPromiseOf,
  boundsFirst: true,
  open: async (context) => openBulk(context, "Elasticsearch", credentialsOf(context.config)),
  probe: async (context) => probeBulk(context, "Elasticsearch", credentialsOf(context.config)),
});

function credentialsOf(config: ElasticsearchConfig): BulkCredentials {
  const { apiKey } = config;
  if (apiKey) return { authorization: `ApiKey ${apiKey.reveal()}`, secrets: [apiKey] };
  return basicCredentials(config);
}
