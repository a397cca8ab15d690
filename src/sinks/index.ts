import type { SinkDefinition } from "../core/sink.ts";
import { elasticsearch } from "./elasticsearch.ts";
import { http } from "./http.ts";
import { opensearch } from "./opensearch.ts";
import { s3 } from "./s3.ts";
import { splunkHec } from "./splunk-hec.ts";
import { syslog } from "./syslog.ts";

/** Every destination that a config can name as a sink's type. */
export const sinks: readonly SinkDefinition[] = [splunkHec, elasticsearch, opensearch, syslog, s3, http];
