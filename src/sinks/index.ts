import type { SinkDefinition } from "../core/sink.ts";
import { azureBlob } from "./azure/blob.ts";
import { elasticsearch } from "./bulk/elasticsearch.ts";
import { opensearch } from "./bulk/opensearch.ts";
import { clickhouse } from "./clickhouse.ts";
import { console } from "./console.ts";
import { datadog } from "./datadog.ts";
import { file } from "./file/sink.ts";
import { gcs } from "./google/gcs.ts";
import { googleSecops } from "./google/secops.ts";
import { http } from "./http.ts";
import { kafka } from "./kafka/sink.ts";
import { loki } from "./loki.ts";
import { otlp } from "./otlp.ts";
import { s3 } from "./s3/sink.ts";
import { securityLake } from "./security-lake/sink.ts";
import { sentinel } from "./sentinel/sink.ts";
import { splunkHec } from "./splunk/sink.ts";
import { sumo } from "./sumo.ts";
import { syslog } from "./syslog/sink.ts";

/** Every destination that a config can name as a sink's type. */
export const sinks: readonly SinkDefinition[] = [
  kafka,
  file,
  s3,
  securityLake,
  gcs,
  azureBlob,
  splunkHec,
  elasticsearch,
  opensearch,
  clickhouse,
  loki,
  syslog,
  sentinel,
  googleSecops,
  datadog,
  sumo,
  otlp,
  http,
  console,
];
