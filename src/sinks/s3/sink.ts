import { defineSink } from "../../core/sink.ts";
import { OBJECTS_PROMISE, openObjects, probeObjects } from "../objects/sink.ts";
import { s3Schema } from "./config.ts";
import { openBucket } from "./store.ts";

export const s3 = defineSink({
  type: "s3",
  summary: "Writes objects of one event per line, or of Parquet, to S3 or a compatible service.",
  config: s3Schema,
  defaultFormat: "raw",
  guarantee: "exactly_once",
  promise: OBJECTS_PROMISE,
  containers: ["parquet"],
  boundsFirst: true,

  async open(context) {
    const { config } = context;
    const { compress, gzip } = config;
    const compression = compress ?? config.compression ?? (gzip ? "gzip" : "none");
    const store = await openBucket(context, config, config.prefix);
    return openObjects(context, { store, settings: config, compression });
  },

  async probe(context) {
    const { config } = context;
    return probeObjects(context, await openBucket(context, config, config.prefix), config.prefix);
  },

  advise: (config) =>
    (config.accessKeyId === undefined) === (config.secretAccessKey === undefined)
      ? []
      : [
          "accessKeyId and secretAccessKey belong together: with only one of them the default credentials are used.",
        ],
});
