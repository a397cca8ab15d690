import { z } from "zod";
import { secretSchema } from "../../core/secret.ts";
import { defineSink } from "../../core/sink.ts";
import { basicCredentials } from "./credentials.ts";
import { BULK_PROMISE, bulkFields, openBulk } from "./sink.ts";

export const opensearch = defineSink({
  type: "opensearch",
  summary: "Writes events to OpenSearch, into an index per day or a data stream.",
  config: z.strictObject({
    ...bulkFields,
    password: secretSchema("The password of basic authentication.").optional(),
  }),
  defaultFormat: "ecs",
  guarantee: "exactly_once",
  promise: BULK_PROMISE,
  open: async (context) => openBulk(context, "OpenSearch", basicCredentials(context.config)),
});
