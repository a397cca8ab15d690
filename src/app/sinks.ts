import { hash } from "node:crypto";
import type { Config, SinkConfig } from "../config/schema.ts";
import type { Alarms } from "../core/alarms.ts";
import { UsageError } from "../core/errors.ts";
import type { Format, FormatContext, FormatSettings } from "../core/format.ts";
import type { Log } from "../core/log.ts";
import type { Encoder } from "../core/page-slice.ts";
import { Secret } from "../core/secret.ts";
import type { SinkDefinition } from "../core/sink.ts";
import { timestampMsOf } from "../core/time.ts";
import { filterOf, type SinkRoute } from "../delivery/filter.ts";
import type { DeliveryOptions } from "../delivery/options.ts";
import { formats } from "../formats/index.ts";
import { ocsf } from "../formats/ocsf.ts";
import type { SqliteJournal } from "../journal/journal.ts";
import { describeForFormat } from "../services/index.ts";
import { reads } from "../services/read/read-paths.ts";
import { sinks } from "../sinks/index.ts";
import { encodedAhead } from "./encode/ahead.ts";
import { sharedOrganizations } from "./shared-organizations.ts";
import { swappedSinks } from "./swapped-sinks.ts";

/** The alarm for a sink whose recipe gave something else than the converter. */
function mismatchAlarm(
  alarms: Pick<Alarms, "raise">,
  sink: string,
): NonNullable<FormatContext["onMismatch"]> {
  let count = 0;
  return (event) => {
    count++;
    alarms.raise({
      kind: "conversion_differs",
      subject: sink,
      message: `A fast conversion for the sink "${sink}" gave something else than the converter, ${count} times since the start, last for an event of type ${event.eventType} in page ${event.page}. The checked event was written as the converter says, and the fast conversion is not used any more. Events of this type before it, since the last check, may have gone out with wrong values.`,
      remedy:
        "Please report this with the event type. The original events are in the service and in any raw sink; `tidemark backfill --sink` writes them to this sink again.",
      severity: "warning",
    });
  };
}

/** With the archives, which read the journal in their own way. */
export function allSinks(config: Pick<Config, "sinks">): readonly SinkConfig[] {
  return config.sinks as unknown as readonly SinkConfig[];
}

/** The sinks that delivery serves. */
export function sinkConfigs(config: Pick<Config, "sinks">): readonly SinkConfig[] {
  return allSinks(config).filter(({ type }) => type !== "archive");
}

export function definitionOf(sink: SinkConfig): SinkDefinition {
  return sinks.find((definition) => definition.type === sink.type)!;
}

/** The part of a sink's config that is its own. */
export function ownConfig(sink: SinkConfig): unknown {
  const {
    name: _name,
    type: _type,
    format: _format,
    only: _only,
    except: _except,
    start: _start,
    ...own
  } = sink;
  return own;
}

/** A digest of each sink's type, settings and filter, by its name. Of a secret its source counts, not its value. */
function settingsOf(config: Config): ReadonlyMap<string, string> {
  const plain = (value: unknown) =>
    JSON.stringify(value, function (this: Record<string, unknown>, key, shown) {
      const given = this[key];
      return given instanceof Secret ? given.source : shown;
    });
  const digest = (sink: SinkConfig) =>
    hash("sha256", plain([sink.type, ownConfig(sink), sink.only, sink.except])).slice(0, 32);
  return new Map(sinkConfigs(config).map((sink) => [sink.name, digest(sink)]));
}

function chosenFormat(sink: SinkConfig): FormatSettings {
  const chosen = sink.format ?? definitionOf(sink).defaultFormat;
  const { type, ...options } = typeof chosen === "string" ? { type: chosen } : chosen;
  return { type, options };
}

/** Whether a sink has a format that converts by recipes. */
export function areRecipesUsed(config: Config): boolean {
  const names = formatNames(config);
  return formats.some(({ name, hasRecipes }) => hasRecipes && names.has(name));
}

export function isOcsfUsed(config: Pick<Config, "sinks">): boolean {
  return formatNames(config).has(ocsf.name);
}

function formatNames(config: Pick<Config, "sinks">): ReadonlySet<string> {
  return new Set(sinkConfigs(config).map((sink) => chosenFormat(sink).type));
}

/** By the converter alone. */
export function formatOf(sink: SinkConfig): Format {
  const { type, options } = chosenFormat(sink);
  return createFormat(type, options);
}

/** The format of a sink, what it is made of, and what makes the formats of batches that another config has begun. */
export function formattingOf(
  sink: SinkConfig,
  alarms: Pick<Alarms, "raise">,
  encoder: Encoder | undefined,
): Pick<DeliveryOptions, "format" | "formatting"> {
  const settings = chosenFormat(sink);
  const onMismatch = mismatchAlarm(alarms, sink.name);
  const formatOf = (of: FormatSettings) => fastFormatOf(of, onMismatch, encoder);
  return { format: formatOf(settings), formatting: { settings, formatOf } };
}

/** By recipes, whose mistakes raise an alarm; with an encoder, large pages are encoded in its thread. */
function fastFormatOf(
  { type: name, options }: FormatSettings,
  onMismatch: NonNullable<FormatContext["onMismatch"]>,
  encoder: Encoder | undefined,
): Format {
  const inline = () => createFormat(name, options, onMismatch);
  const format = createFormat(name, options);
  if (encoder === undefined || format.keepsBytes || format.container !== undefined) return inline();
  return encodedAhead(format, { encoder, name, options, inline, onMismatch });
}

export function createFormat(
  name: string,
  options: unknown,
  onMismatch?: FormatContext["onMismatch"],
): Format {
  const definition = formats.find((format) => format.name === name);
  if (definition === undefined) {
    throw new UsageError(
      `There is no format "${name}": use one of ${formats.map((format) => format.name).join(", ")}.`,
    );
  }
  return definition.create(definition.options.parse(options), {
    describe: describeForFormat,
    reads: onMismatch && reads,
    onMismatch,
  });
}

export function wantsOf(sink: SinkConfig) {
  return routingOf(sink).wants;
}

/** Which events a sink gets. */
export function routingOf({ only, except, start }: SinkConfig) {
  const sinceMs = start === undefined ? undefined : timestampMsOf(start);
  const route: SinkRoute = { only, except, sinceMs };
  return { route, wants: filterOf(route) };
}

/**
 * Positions and sinks belong together (R14): a position whose sink is gone from the config is an error until
 * a person says what becomes of it, and where a new sink begins must be stated when the journal is not empty.
 */
export async function placeReaders(config: Config, journal: SqliteJournal, log: Log): Promise<void> {
  const known = new Set(journal.readers.names());
  refuseMisplaced(config, known, journal.end().page === 0, journal.readers.settings());
  for (const { sink, message } of sharedOrganizations(config.accounts, sinkConfigs(config)))
    log.warn({ sink, reason: message }, "A sink that chooses by account may not get every event.");
  for (const sink of sinkConfigs(config)) {
    if (!known.has(sink.name) && sink.start === "now")
      await journal.readers.createAt(sink.name, journal.end());
    else if (!known.has(sink.name) && journal.pages.isTrimmed())
      log.warn(
        { sink: sink.name },
        "The new sink begins with the oldest event that the journal still holds. `tidemark backfill --sink NAME --since 90d` reads older ones from the service for it.",
      );
  }
  await journal.readers.keepSettings(settingsOf(config));
}

/** Sinks of the config and positions of the state do not belong together (R14). */
export class MisplacedSinksError extends UsageError {}

/** Throws where sinks of the config and positions of the state do not belong together (R14). */
export function refuseMisplaced(
  config: Config,
  known: ReadonlySet<string>,
  empty: boolean,
  kept: ReadonlyMap<string, string>,
): void {
  const names = new Set(allSinks(config).map((sink) => sink.name));
  const problems: string[] = [];
  for (const name of known) {
    if (names.has(name) || name.startsWith("~")) continue;
    problems.push(
      `the sink "${name}" has a position and is not in the config: put it back, or run "tidemark sinks rename ${name} NEW" if it has another name now (an archive keeps its name), or "tidemark sinks forget ${name}" to give up the events that it has not delivered`,
    );
  }
  for (const sink of sinkConfigs(config)) {
    if (known.has(sink.name) || empty) continue;
    if (sink.start === undefined) {
      problems.push(
        `the sink "${sink.name}" is new and the journal is not empty: add start: beginning, start: now or start: TIME to it`,
      );
    }
  }
  problems.push(...swappedSinks(settingsOf(config), kept, known));
  if (problems.length > 0)
    throw new MisplacedSinksError(
      `The sinks of the config do not match the state file:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`,
    );
}
