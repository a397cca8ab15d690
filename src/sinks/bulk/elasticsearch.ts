import { z } from "zod";
import { secretSchema } from "../../core/secret.ts";
import { defineSink } from "../../core/sink.ts";
import { bulkFields } from "./config.ts";
import { basicCredentials } from "./credentials.ts";
import { BULK_PROMISE, bulkPromiseOf, openBulk } from "./sink.ts";

export const elasticsearch = defineSink({
  type: "elasticsearch",
  summary: "Writes events to Elasticsearch, into an index per month or a data stream.",
  config: z.strictObject({
    ...bulkFields,
    password: secretSchema("The password of basic authentication.").optional(),
    apiKey: secretSchema("An API key, encoded as Elasticsearch gives it; instead of a user.").optional(),
  }),
  defaultFormat: "ecs",
  guarantee: "exactly_once",
  promise: BULK_PROMISE,
  promiseOf: bulkPromiseOf,
  async open(context) {
    const { apiKey } = context.config;
    const credentials = apiKey
      ? { authorization: `ApiKey ${apiKey.reveal()}`, secrets: [apiKey] }
      : basicCredentials(context.config);
    return openBulk(context, "Elasticsearch", credentials);
  },
});
