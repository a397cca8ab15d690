import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { ViewOptions } from "../journal/view/view.ts";
import { VERSION } from "../version.ts";
import { DRIFT, definitionOf, sinkConfigs, TRACKER } from "./sinks.ts";

/** The parts of the config that a view needs. */
export function viewOptions(config: Config, clock: Clock): ViewOptions {
  return {
    clock,
    version: VERSION,
    file: config.state,
    budgetBytes: config.journal.budget,
    sinkBehindMs: config.alarms.sinkBehind,
    accounts: config.accounts.map(({ name, retention }) => ({ name, retentionMs: retention })),
    sinks: sinkConfigs(config).map((sink) => {
      const { type, guarantee, promise } = definitionOf(sink);
      return { name: sink.name, type, guarantee, promise };
    }),
    internalReaders: [TRACKER, DRIFT],
  };
}
