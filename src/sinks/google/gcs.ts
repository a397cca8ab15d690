import { defineSink } from "../../core/sink.ts";
import { OBJECTS_PROMISE, openObjects, probeObjects } from "../objects/sink.ts";
import { openGoogleBucket } from "./bucket.ts";
import { gcsSchema } from "./config.ts";

export const gcs = defineSink({
  type: "gcs",
  summary: "Writes objects of one event per line, or of Parquet, to Google Cloud Storage.",
  config: gcsSchema,
  defaultFormat: "raw",
  guarantee: "exactly_once",
  promise: OBJECTS_PROMISE,
  containers: ["parquet"],
  boundsFirst: true,

  async open(context) {
    const { config } = context;
    const store = await openGoogleBucket(context, config);
    return openObjects(context, { store, settings: config, compression: config.compression });
  },

  async probe(context) {
    const { config } = context;
    return probeObjects(context, await openGoogleBucket(context, config), config.prefix);
  },
});
