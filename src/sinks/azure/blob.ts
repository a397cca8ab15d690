import { defineSink } from "../../core/sink.ts";
import { OBJECTS_PROMISE, openObjects, probeObjects } from "../objects/sink.ts";
import { azureBlobSchema } from "./config.ts";
import { openContainer } from "./store.ts";

export const azureBlob = defineSink({
  type: "azure_blob",
  summary: "Writes blobs of one event per line, or of Parquet, to Azure Blob Storage.",
  config: azureBlobSchema,
  defaultFormat: "raw",
  guarantee: "exactly_once",
  promise: OBJECTS_PROMISE,
  containers: ["parquet"],
  boundsFirst: true,

  async open(context) {
    const { config } = context;
    const store = await openContainer(context, config, config.prefix);
    return openObjects(context, { store, settings: config, compression: config.compression });
  },

  async probe(context) {
    const { config } = context;
    return probeObjects(context, await openContainer(context, config, config.prefix), config.prefix);
  },
});
