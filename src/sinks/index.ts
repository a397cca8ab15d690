import type { SinkDefinition } from "../core/sink.ts";
import { console } from "./console.ts";
import { datadog } from "./datadog.ts";
import { elasticsearch } from "./elasticsearch.ts";
import { file } from "./file.ts";
import { http } from "./http.ts";
import { kafka } from "./kafka.ts";
import { opensearch } from "./opensearch.ts";
import { otlp } from "./otlp.ts";
import { s3 } from "./s3.ts";
import { sentinel } from "./sentinel.ts";
import { splunkHec } from "./splunk-hec.ts";
import { sumo } from "./sumo.ts";
import { syslog } from "./syslog.ts";

/** Every destination that a config can name as a sink's type. */
export const sinks: readonly SinkDefinition[] = [
  kafka,
  file,
  s3,
  splunkHec,
  elasticsearch,
  opensearch,
  syslog,
  sentinel,
  datadog,
  sumo,
  otlp,
  http,
  console,
];
