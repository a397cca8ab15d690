import type { z } from "zod";
import type { JournalEvent } from "./event.ts";
import type { Describe } from "./meaning.ts";

/** How an event is written at a destination. Pure: the same event gives the same bytes. */
export interface Format {
  readonly name: string;
  readonly mediaType: string;
  /** Never throws for an event the service served, and never contains a line break outside a JSON string escape. */
  encode(event: JournalEvent): string | Uint8Array;
  /**
   * Paths of members whose types differ from event to event, because they hold parts of the original event;
   * "" is the whole record. Destinations with mappings need to know them.
   */
  readonly variable?: readonly string[];
  /** True: `encode` gives the event's own bytes, except for line breaks between members. */
  readonly keepsBytes?: boolean;
}

/** What a format is given of the other parts. */
export interface FormatContext {
  /** What an event means; parses it anew at each call, so the parsed event is the format's own. */
  readonly describe: Describe;
}

/** A format as its file gives it: name, summary, options with descriptions, and the factory. */
export interface FormatDefinition<Options = unknown> {
  readonly name: string;
  readonly summary: string;
  readonly options: z.ZodType<Options>;
  create(options: Options, context: FormatContext): Format;
}

export function defineFormat<Options>(definition: FormatDefinition<Options>): FormatDefinition<Options> {
  return definition;
}
