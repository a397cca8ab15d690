import { DecisionNeededError, explain } from "../core/errors.ts";
import type { Format } from "../core/format.ts";
import type { Sink, SinkContext, SinkState } from "../core/sink.ts";
import { type BatchSettings, begunBy, isEqual, isOther, unfinishedOf } from "./begun.ts";
import type { DeliveryOptions } from "./options.ts";
import type { ReaderState } from "./position.ts";

/*
 * Opens a sink with the settings that its next batch needs. Batches that another config has begun are completed with the
 * format and the fields of before, so that a receiver gets the same bytes again (R19). Then the sink is opened anew.
 */
export function createOpener(
  options: DeliveryOptions,
  given: Pick<SinkContext<unknown>, "limited" | "waitsFor">,
) {
  const { name, definition, reader, formatting, clock, log } = options;
  const config = options.config as SinkState;
  const own: BatchSettings = { format: formatting?.settings, fields: fieldsOf(config) };
  /** Kept for the sink between two openings. */
  const memory = new Map<string, unknown>();
  let format = options.format;
  let isEarlier = false;
  let earlier: { readonly settings: BatchSettings["format"]; readonly format: Format } | undefined;

  function fieldsOf(values: SinkState): SinkState | undefined {
    const fields = definition.batchFields;
    return fields && Object.fromEntries(fields.map((field) => [field, values[field]]));
  }

  /** Of batches that were begun; undefined where there are none, or where they are as this config says. */
  function otherSettings(): BatchSettings | undefined {
    const begun = definition.boundsFirst ? begunBy(reader, definition.type) : undefined;
    return begun !== undefined && isOther(begun.settings, own) ? begun.settings : undefined;
  }

  function formatOf(settings: BatchSettings["format"]): Format {
    if (settings === undefined || formatting === undefined || isEqual(settings, formatting.settings))
      return options.format;
    if (isEqual(settings, earlier?.settings)) return earlier!.format;
    try {
      earlier = { settings, format: formatting.formatOf(settings) };
      return earlier.format;
    } catch (error) {
      throw new DecisionNeededError(
        `The next batch of "${name}" was begun in the format ${settings.type}, which this version cannot write with the options of then: ${explain(error)}. Events of it may be stored already.`,
        ["Let the version deliver it that has begun it, then upgrade", insist(name)],
        { cause: error },
      );
    }
  }

  return {
    /** The settings of this config, which new batches get. */
    own,
    /** The format in use. */
    get format() {
      return format;
    },
    /** `asConfigured`: not for the batches that were begun. */
    async open(signal: AbortSignal, { asConfigured = false } = {}): Promise<Sink> {
      const { journal, earlierJournals, stdout } = options;
      const other = asConfigured ? undefined : otherSettings();
      format = formatOf(other?.format);
      isEarlier = other !== undefined;
      if (isEarlier) log.info({}, "Batches that were begun are completed as an earlier config says.");
      const { position } = reader;
      const { sink: state } = (reader.state as ReaderState | undefined) ?? {};
      const unfinished = unfinishedOf(reader, definition.type);
      // Delivery copies what `encode` gives at once, so the format may write into shared memory.
      const shared = { ...format, encode: format.encodeShared ?? format.encode };
      return definition.open({
        ...{ name, config: { ...config, ...other?.fields }, format: shared, journal, earlierJournals },
        ...{ position, state, unfinished, clock, log, signal, stdout, memory, ...given },
      });
    },
    /** Whether the batches are committed that the sink was opened for, so that it has to be opened anew. */
    isOver: () => isEarlier && otherSettings() === undefined,
    /** The remedy of a refusal, which may be about the earlier settings. */
    explained: (remedy: string): string =>
      isEarlier
        ? `${remedy} The next batch was begun before the config was changed and is written as it said then; ${insist(name)}.`
        : remedy,
  };
}

export type Opener = ReturnType<typeof createOpener>;

function insist(name: string): string {
  return `\`tidemark sinks resume ${name} --from state\` writes it as the config says now (events of it that are stored already may be there twice then)`;
}
