import { existsSync } from "node:fs";
import type { Config, SinkConfig } from "../config/schema.ts";
import { openStateForReading } from "../journal/database.ts";
import { placesOf } from "../journal/reader-row.ts";
import { archiveConfigs } from "./archives.ts";
import { olderStateIn } from "./older-state.ts";
import { definitionOf, MisplacedSinksError, ownConfig, refuseMisplaced, sinkConfigs } from "./sinks.ts";

/** The consequences of a restored state in words: for polling, and for every sink and archive by what its place holds. */
export async function afterRestore(config: Config): Promise<readonly string[]> {
  return [
    ...refusal(config),
    "Events that were pulled after the copy was made are pulled again, as far back as the service keeps them; dead letters and imports from after it are not known any more.",
    ...(config.imports.length > 0 ? [IMPORTS] : []),
    ...sinkConfigs(config).map(lineOf),
    ...(await Promise.all(archiveConfigs(config).map((own) => archiveLine(config, own)))),
  ];
}

/**
 * The copy's positions belong to the sinks that the config had when it was made. A copy of an older version has to be
 * brought forward before it can be read: the next run says what it refuses.
 */
function refusal(config: Config): string[] {
  if (!existsSync(config.state)) return [];
  const db = openOrNot(config.state);
  if (db === undefined) return [];
  try {
    const { names, isEmpty, settings } = placesOf(db);
    refuseMisplaced(config, names, isEmpty, settings);
    return [];
  } catch (error) {
    if (error instanceof MisplacedSinksError) return [`It is refused: ${error.message}`];
    throw error;
  } finally {
    db.close();
  }
}

function openOrNot(file: string): ReturnType<typeof openStateForReading> | undefined {
  try {
    return openStateForReading(file);
  } catch {
    return undefined;
  }
}

const IMPORTS =
  "Imports that were due or waiting at the restore are not started, because they may have run: scheduled ones are recorded as missed, and those that waited become uncertain. See `tidemark imports runs` and `tidemark imports list`.";

function lineOf(sink: SinkConfig): string {
  return `${sink.name} (${definitionOf(sink).type}): ${sinkAfterRestore(sink)}`;
}

/** What becomes of a sink that went on after the copy was made. */
export function sinkAfterRestore(sink: SinkConfig): string {
  const { type, promiseOf } = definitionOf(sink);
  // A promise that depends on the config is always the weaker one.
  const isWeaker = promiseOf?.(ownConfig(sink)) !== undefined;
  return (isWeaker ? WEAKER[type] : undefined) ?? BY_TYPE[type] ?? AGAIN;
}

/** The store is looked at: the log there says whether the archive went on after the copy was made. */
async function archiveLine(config: Config, own: ReturnType<typeof archiveConfigs>[number]): Promise<string> {
  const older = await olderStateIn(config, own);
  const words =
    older === undefined
      ? "its log knows how far it was written. If that is further than the copy, the archive stops, signs nothing, and says what the choices are; `search`, `sql` and `archive hold list` refuse to answer then."
      : `${older.message} The archive stops and signs nothing; \`search\`, \`sql\` and \`archive hold list\` refuse to answer. Choose one: ${older.choices.join("; ")}.`;
  return `${own.name} (archive): ${words}`;
}

const REPEATED = "gets again what was delivered after the copy was made";
const AGAIN = `${REPEATED}; each event carries its identity, which identifies repeats.`;
const WITH_IDENTITY =
  "JSON events carry their identity, which identifies repeats, where `addIdentity` is on.";
const OBJECTS =
  "objects are never replaced. What was delivered after the copy comes again in objects of its own; where a name is taken by other content the sink stops and says what the choices are.";
const BULK =
  "what is there already is recognized by its identity and not stored twice (in a data stream only until it rolls over).";

/** Destinations that store a position, recognize repeats, or get no identity, each in its own words. */
const BY_TYPE: Readonly<Record<string, string>> = {
  file: "the directory knows how far it was written. If that is further than the copy, the sink stops, touches nothing, and says what the choices are.",
  kafka:
    "the positions topic knows how far it was written. If that is further than the copy, the sink stops, sends nothing, and says what the choices are.",
  s3: OBJECTS,
  gcs: OBJECTS,
  azure_blob: OBJECTS,
  security_lake: OBJECTS,
  elasticsearch: BULK,
  opensearch: BULK,
  console: `${REPEATED}.`,
  http: `${REPEATED}, perhaps under other idempotency keys. ${WITH_IDENTITY}`,
  sumo: `${REPEATED}. ${WITH_IDENTITY}`,
};

/** For a config that promises less. */
const WEAKER: Readonly<Record<string, string>> = {
  kafka: `${REPEATED}: without a positions topic it cannot know. The event's id is a header of every record.`,
};
