import { ARCHIVE_PROMISE } from "../archive/config.ts";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { ViewOptions } from "../journal/view/view.ts";
import { VERSION } from "../version.ts";
import { DRIFT, TRACKER } from "./followers.ts";
import { allSinks, definitionOf, ownConfig } from "./sinks.ts";

/** The parts of the config that a view needs. */
export function viewOptions(config: Config, clock: Clock): ViewOptions {
  return {
    clock,
    version: VERSION,
    file: config.state,
    budgetBytes: config.journal.budget,
    sinkBehindMs: config.alarms.sinkBehind,
    accounts: config.accounts.map(({ name, retention }) => ({ name, retentionMs: retention })),
    sinks: allSinks(config).map((sink) => {
      if (sink.type === "archive") {
        const { name, type } = sink;
        return {
          name,
          type,
          guarantee: "exactly_once" as const,
          promise: ARCHIVE_PROMISE,
          isFiltered: false,
        };
      }
      const isFiltered = sink.only !== undefined || sink.except !== undefined;
      const { type, guarantee, promise, promiseOf } = definitionOf(sink);
      // A promise that depends on the config is always the weaker one.
      const weaker = promiseOf?.(ownConfig(sink));
      if (weaker !== undefined)
        return { name: sink.name, type, guarantee: "at_least_once" as const, promise: weaker, isFiltered };
      return { name: sink.name, type, guarantee, promise, isFiltered };
    }),
    internalReaders: [TRACKER, DRIFT],
  };
}
