import { DecisionNeededError, PausedError } from "../../core/errors.ts";
import type { Format } from "../../core/format.ts";
import { compileTemplate } from "../../core/names.ts";
import { comparePositions } from "../../core/position.ts";
import type { Batch, SinkContext, SinkRecord } from "../../core/sink.ts";
import type { Compression } from "./config.ts";
import { contentOf, type ObjectContent } from "./content.ts";

/**
 * The settings that decide the keys of a batch's objects and which records are in each. They are durable with the
 * batch's bounds: a batch that was begun is completed under the same keys, whatever the config says by then.
 */
export type ObjectLayout = {
  readonly sink: string;
  readonly prefix: string;
  readonly partition?: string | undefined;
  /** Settings of a sink that names its folders itself. */
  readonly folders?: unknown;
  readonly compression: Compression;
  /** Comes from the format and the compression. */
  readonly extension: string;
};

/** Folders that no template describes. `names` is the part of the config that decides them; JSON. */
export interface Folders {
  readonly names: unknown;
  folderOf(record: SinkRecord, names: unknown): string;
}

/** How batches of one layout are stored. */
export interface Scheme {
  readonly layout: ObjectLayout;
  readonly content: ObjectContent;
  /** Undefined: a batch is one object. */
  readonly partitionOf: ((record: SinkRecord) => string) | undefined;
}

type LayoutSettings = Omit<ObjectLayout, "sink" | "extension" | "folders">;

/** The scheme of this config, and the one of a batch that another config has begun. */
export async function openSchemes(
  context: SinkContext<unknown>,
  settings: LayoutSettings,
  folders: Folders | undefined,
) {
  const { name, format, unfinished } = context;
  const { prefix, partition, compression } = settings;
  const content = await contentOf(format, compression);
  const { extension } = content;
  const names = folders?.names;
  const own = schemeOf(
    { sink: name, prefix, partition, folders: names, compression, extension },
    content,
    folders,
  );
  const earlier = unfinished?.layout as ObjectLayout | undefined;
  // A sink of another type may have had the name.
  const isOurs = typeof earlier?.prefix === "string";
  const begun = isOurs ? await earlierScheme(earlier, own, format, folders) : undefined;

  return {
    own,
    /** Throws when the batch was begun in a form that this config cannot write. */
    of(batch: Batch): Scheme {
      if (begun === undefined || comparePositions(batch.to, unfinished!.to) > 0) return own;
      const { layout, content: made } = begun;
      if (made.extension !== layout.extension) throw otherForm(layout, made.extension, name);
      return begun;
    },
    /** Says with a refusal that the batch is completed in another place than the config names. */
    explained(error: unknown, { layout }: Scheme): unknown {
      if (!(error instanceof PausedError) || layout === own.layout) return error;
      return new PausedError(
        error.message,
        `${error.remedy} ${begunElsewhere(layout)}, or ${insist(name)}.`,
        {
          cause: error.cause,
        },
      );
    },
    async close(): Promise<void> {
      await content.close();
      if (begun !== own) await begun?.content.close();
    },
  };
}

async function earlierScheme(
  layout: ObjectLayout,
  own: Scheme,
  format: Format,
  folders: Folders | undefined,
): Promise<Scheme> {
  if (JSON.stringify(layout) === JSON.stringify(own.layout)) return own;
  return schemeOf(layout, await contentOf(format, layout.compression), folders);
}

function schemeOf(layout: ObjectLayout, content: ObjectContent, folders: Folders | undefined): Scheme {
  const { partition } = layout;
  if (folders !== undefined) {
    return { layout, content, partitionOf: (record) => folders.folderOf(record, layout.folders) };
  }
  const template = partition === undefined ? undefined : compileTemplate(partition);
  return { layout, content, partitionOf: template && ((record) => template(record.event)) };
}

function begunElsewhere({ prefix, partition, extension }: ObjectLayout): string {
  const place = `${prefix}${partition === undefined ? "" : `${partition}/`}….${extension}`;
  return `The next batch was begun as ${place} before the config was changed, and is completed there`;
}

function insist(name: string): string {
  return `\`tidemark sinks resume ${name} --from state\` writes it under the new names (objects of it that are stored already are then there twice)`;
}

function otherForm(layout: ObjectLayout, extension: string, name: string): DecisionNeededError {
  return new DecisionNeededError(
    `${begunElsewhere(layout)}, but this config writes .${extension}. Objects of it may be stored already.`,
    ["Set the format back, let the batch be delivered, then change it", insist(name)],
  );
}
