import { join, resolve } from "node:path";
import { defineSink, type Sink, type SinkContext } from "../../core/sink.ts";
import { type FileSettings, fileSchema } from "./config.ts";
import { activeFilesOf, newModel } from "./directory.ts";
import { openLedger, readLedger } from "./ledger.ts";
import { PARQUET_LINES } from "./packing.ts";
import { probeDirectory } from "./probe.ts";
import { reconcileFiles, restoreFiles } from "./recover.ts";
import { type FileSystem, nodeFileSystem, sinkError } from "./system.ts";
import { compressionOf, createWriter } from "./writer.ts";

/**
 * Events in files, one a line, each exactly once.
 *
 * The directory has a ledger in `.tidemark/` with the length of every file in work and the journal's position that
 * goes with those lengths. A batch is written in this order:
 *
 * 1. The names of new files go into the ledger with length 0 (a number is never used again), then the files
 *    are made.
 * 2. The records are appended after each file's committed length, and files and folders are synced.
 * 3. One line of the ledger, synced, holds the new lengths and the new position. This is the commit.
 * 4. `write` returns, and delivery commits the position in the journal, with a state that names the commit.
 *
 * A crash before 3 leaves bytes and files that the ledger does not count; opening cuts and removes them, and
 * the batch comes again. A crash between 3 and 4 leaves the directory one batch ahead; opening gives its
 * position to delivery, which goes on after it. A write that fails for any reason is such a crash: delivery
 * closes the sink and opens it again (R17). Any other difference between ledger
 * and state means another sink's directory, or a lost or restored state: nothing is touched and a person decides
 * (R20, R23).
 *
 * With `compress` a batch's records for one file are appended as zstd frames or gzip members (see file/packed.ts).
 * Lengths are then those of the compressed files, so everything above is true of them as well.
 *
 * A file is finished when it reaches its size or age, when too many are in work, or when the format or `compress`
 * changes. With `gzip` a finished file is then compressed in the background (see file/compress.ts), and with
 * `format: parquet` it is turned into a Parquet file; else the ledger forgets it and it may be moved away. Ages
 * are checked with every batch and at opening.
 */
export const file = defineSink({
  type: "file",
  summary: "Files, one event a line, below a directory.",
  config: fileSchema,
  defaultFormat: "raw",
  guarantee: "exactly_once",
  promise:
    "Exactly once: file lengths and the position are committed together in the directory, and opening cuts off everything beyond them.",
  open: (context) => openFileSink(context),
  ofShard: (config, label) => ({ ...config, directory: join(config.directory, label) }),
  containers: ["parquet"],
  probe: (context) => probeDirectory(context),
  advise: ({ compress, gzip }) =>
    compress !== undefined && gzip
      ? ["`gzip: true` has no effect beside `compress`: files are compressed while they are written."]
      : [],
});

/** `system` is there for tests that end the world at a chosen call. */
export async function openFileSink(
  context: SinkContext<FileSettings>,
  system: FileSystem = nodeFileSystem,
): Promise<Sink> {
  const directory = resolve(context.config.directory);
  try {
    return await openIn(directory, context, system);
  } catch (error) {
    throw sinkError(error, directory);
  }
}

async function openIn(
  directory: string,
  context: SinkContext<FileSettings>,
  system: FileSystem,
): Promise<Sink> {
  const found = await readLedger(system, directory);
  const model = found ?? (await newModel(directory, context, system));
  const committed = found === undefined ? 0 : reconcileFiles(found, context, directory);
  await restoreFiles(system, directory, model, context.log);
  const extension = extensionOf(context);
  const active = activeFilesOf(model, extension, context);
  const { name: sink, journal, format } = context;
  Object.assign(model, { sink, journal, format: format.name, base: committed });
  const ledger = await openLedger(system, directory, model, found === undefined);
  return createWriter({ directory, context, system, ledger, active, extension, committed });
}

const ENDINGS = { zstd: ".zst", gzip: ".gz" };

function extensionOf(context: SinkContext<FileSettings>): string {
  const { container, mediaType } = context.format;
  if (container === "parquet") return PARQUET_LINES;
  const compress = compressionOf(context);
  return `${/json/.test(mediaType) ? "jsonl" : "log"}${compress ? ENDINGS[compress] : ""}`;
}
