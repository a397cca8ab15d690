import type { z } from "zod";
import type { JournalEvent } from "./event.ts";
import type { JournalPage } from "./journal.ts";
import type { Describe } from "./meaning.ts";
import type { SharedLines } from "./page-slice.ts";
import type { Reads } from "./reads.ts";

/** Events that `encodeMany` takes at once. */
export const MANY_MAX = 256;

/** What a format is made of: its name, and options as the config has them. JSON. */
export interface FormatSettings {
  readonly type: string;
  readonly options: unknown;
}

/** How an event is written at a destination. Pure: the same event gives the same bytes. */
export interface Format {
  readonly name: string;
  readonly mediaType: string;
  /** One line: for every event that the service served it does not throw and contains no line break. */
  encode(event: JournalEvent): string | Uint8Array;
  /** As `encode`, but the next call may overwrite the bytes. Left out: `encode` is as fast. */
  encodeShared?(event: JournalEvent): string | Uint8Array;
  /**
   * As `encode` for the events of a page from `from` on and before `to`, MANY_MAX at most. It may end earlier, so that
   * it does not take long. Undefined where they have to be encoded one by one.
   */
  encodeMany?(page: JournalPage, from: number, to: number): SharedLines | undefined;
  /**
   * Encodes events of a page in another thread, from `from` on and before `to`, so that `encode` returns them at once.
   * Resolves with the end of those that are ready; undefined where this thread has to encode them.
   */
  encodeAhead?(page: JournalPage, from: number, to: number): Promise<number | undefined>;
  /**
   * The record for a destination that keeps records apart itself (Kafka, an element of a JSON array): it may
   * contain line breaks. Left out: `encode` serves both.
   */
  encodeFramed?(event: JournalEvent): string | Uint8Array;
  /**
   * Paths of members whose types differ from event to event, because they hold parts of the original event;
   * "" is the whole record. Destinations with mappings need to know them.
   */
  readonly variable?: readonly string[];
  /**
   * The kind of file that the records are put into: `encode` gives lines, and the destination turns them into
   * such files. Only sinks that list it among their `containers` can be given this format.
   */
  readonly container?: "parquet";
  /** True: `encode` returns the event's own bytes, without line breaks between members. */
  readonly keepsBytes?: boolean;
}

/** The functions of other parts that formats use. */
export interface FormatContext {
  /** Describes an event. Each call parses it anew, so the format owns the parsed event. */
  readonly describe: Describe;
  /** Everything that `describe` and formats read of an event. With it, formats may convert by recipes. */
  readonly reads?: Reads | undefined;
  /** Called when a recipe gave something else than the converter for an event. */
  readonly onMismatch?: ((event: JournalEvent) => void) | undefined;
}

/** A format as its file defines it: name, summary, options with descriptions, and the factory. */
export interface FormatDefinition<Options = unknown> {
  readonly name: string;
  readonly summary: string;
  readonly options: z.ZodType<Options>;
  /** Whether most events are converted by recipes. */
  readonly hasRecipes?: boolean;
  /** As in the formats it creates. */
  readonly container?: Format["container"];
  create(options: Options, context: FormatContext): Format;
}

export function defineFormat<Options>(definition: FormatDefinition<Options>): FormatDefinition<Options> {
  return definition;
}
