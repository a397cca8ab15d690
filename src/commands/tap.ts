import { once } from "node:events";
import { type Command, Option } from "commander";
import { createFormat, formatOf, sinkConfigs, wantsOf } from "../app/sinks.ts";
import { loadConfigForReading } from "../config/load.ts";
import type { Config, SinkConfig } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import { filterOf } from "../delivery/filter.ts";
import { openStateForReading } from "../journal/database.ts";
import { isLocked } from "../journal/lock.ts";
import { openTap } from "../journal/tap.ts";
import type { Io } from "./io.ts";
import { countOption, listOption, withConfig } from "./options.ts";

interface Flags {
  readonly config: string;
  readonly sink?: string;
  readonly format?: string;
  readonly from: "now" | "beginning";
  readonly count?: number;
  readonly organization?: string[];
  readonly service?: string[];
  readonly type?: string[];
}

const LOOK_MS = 250;

export function registerTap(program: Command, io: Io): void {
  withConfig(program.command("tap"), "tidemark tap --service sso --format ocsf")
    .summary("show events as they arrive in the journal")
    .description(
      "Shows events as they arrive in the journal, beside a running process and without disturbing it.",
    )
    .option("--sink <name>", "only the events that this sink gets, in its format")
    .option("--format <name>", "how to write them; raw, or the sink's own format by default")
    .addOption(
      new Option("--from <where>", "now, or beginning: all that the journal still holds")
        .choices(["now", "beginning"])
        .default("now"),
    )
    .option("-n, --count <events>", "end after so many", countOption)
    .option("--organization <ids>", "only these organizations", listOption)
    .option("--service <names>", "only these services", listOption)
    .option("--type <names>", "only these event types (* matches anything)", listOption)
    .action((flags: Flags) => tap(flags, io));
}

async function tap(flags: Flags, io: Io): Promise<void> {
  const { config } = loadConfigForReading(flags.config, io.env);
  const db = openStateForReading(config.state);
  try {
    const tap = openTap(db);
    const sink = flags.sink === undefined ? undefined : sinkOf(config, flags.sink);
    const format =
      sink === undefined || flags.format !== undefined
        ? createFormat(flags.format ?? "raw", {})
        : formatOf(sink);
    const { organization: organizations, service: services, type: eventTypes } = flags;
    const isAsked = filterOf({ only: { organizations, services, eventTypes } });
    const isForSink = sink === undefined ? () => true : wantsOf(sink);
    const wants = (event: JournalEvent) => isForSink(event) && isAsked(event);
    let at = flags.from === "beginning" ? tap.beginning : tap.end();
    let left = flags.count ?? Number.POSITIVE_INFINITY;
    while (left > 0 && !io.signal.aborted) {
      const { page, trimmed, at: from } = tap.next(at);
      // Also where no page follows: what was trimmed is told once.
      at = from;
      if (trimmed > 0)
        io.stderr.write(`${trimmed} events were delivered and trimmed before they could be shown.\n`);
      if (page === null && flags.from === "beginning" && !isLocked(config.state)) {
        io.stderr.write("The journal has no more events, and no process is running that could add some.\n");
        return;
      }
      if (page === null) {
        await systemClock.sleep(LOOK_MS, io.signal).catch(() => {});
        continue;
      }
      for (let index = page.first; index < page.first + page.count && left > 0; index++) {
        const event = page.event(index);
        at = page.after(index);
        if (!wants(event)) continue;
        const body = format.encode(event);
        io.stdout.write(typeof body === "string" ? body : Buffer.from(body));
        left--;
        if (io.stdout.write("\n")) continue;
        await once(io.stdout, "drain", { signal: io.signal }).catch(() => {});
        if (io.signal.aborted) return;
      }
    }
  } finally {
    db.close();
  }
}

function sinkOf(config: Config, name: string): SinkConfig {
  const found = sinkConfigs(config).find((sink) => sink.name === name);
  if (found !== undefined) return found;
  const known = sinkConfigs(config).map((sink) => sink.name);
  throw new UsageError(`There is no sink "${name}" in the config. It has: ${known.join(", ")}.`);
}
