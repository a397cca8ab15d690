import type { Config, SinkConfig } from "../config/schema.ts";
import { definitionOf, sinkConfigs } from "./sinks.ts";

/** The consequences of a restored state in words: for polling, and for every sink by what its destination stores. */
export function afterRestore(config: Config): readonly string[] {
  return [
    "Events that were pulled after the copy was made are pulled again, as far back as the service keeps them; dead letters and imports from after it are not known any more.",
    ...sinkConfigs(config).map(lineOf),
  ];
}

function lineOf(sink: SinkConfig): string {
  const { type, guarantee } = definitionOf(sink);
  return `${sink.name} (${type}): ${guarantee === "at_least_once" ? AGAIN : (BY_TYPE[type] ?? AGAIN)}`;
}

const AGAIN =
  "gets again what was delivered after the copy was made; each event carries its identity, which identifies repeats.";

/** For destinations that store a position or recognize repeats, each in its own way. */
const BY_TYPE: Readonly<Record<string, string>> = {
  file: "the directory knows how far it was written. If that is further than the copy, the sink stops, touches nothing, and says what the choices are.",
  kafka:
    "the positions topic knows how far it was written. If that is further than the copy, the sink stops, sends nothing, and says what the choices are.",
  s3: "objects are never replaced. What was delivered after the copy comes again in objects of its own; where a name is taken by other content the sink stops and says what the choices are.",
  elasticsearch:
    "what is there already is recognized by its identity and not stored twice (in a data stream only until it rolls over).",
  opensearch:
    "what is there already is recognized by its identity and not stored twice (in a data stream only until it rolls over).",
};
