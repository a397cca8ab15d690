import { defineFormat } from "../core/format.ts";
import { ocsf } from "./ocsf.ts";

/** OCSF as columns. Records are lines of OCSF; sinks that write files or objects turn them into Parquet. */
export const parquet = defineFormat({
  name: "parquet",
  summary:
    "OCSF 1.8.0 as columns of Parquet files, compressed with zstd; for `s3`, `gcs`, `azure_blob`, `security_lake` and `file`.",
  options: ocsf.options,
  container: "parquet",
  create(options, context) {
    const format = ocsf.create(options, context);
    return {
      name: "parquet",
      mediaType: "application/vnd.apache.parquet",
      container: "parquet",
      encode: (event) => format.encode(event),
    };
  },
});
