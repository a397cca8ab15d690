import type { SinkDefinition } from "../core/sink.ts";
import { http } from "./http.ts";
import { splunkHec } from "./splunk-hec.ts";

/** Every destination that a config can name as a sink's type. */
export const sinks: readonly SinkDefinition[] = [http, splunkHec];
