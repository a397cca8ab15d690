import type { Format } from "../../core/format.ts";
import { gzip } from "../../core/http/gzip.ts";
import { createPacker } from "../../core/packer.ts";
import { parquetOf } from "../parquet/write.ts";
import { isJson } from "../shared/body.ts";
import type { Compression } from "./config.ts";

/** Records of an object, each with a line break behind it. */
export interface ObjectLines {
  readonly pieces: readonly Uint8Array[];
  /** The same as zstd frames, where the journal has such. */
  readonly frames?: Uint8Array | undefined;
}

/** How the lines of an object become its body. */
export interface ObjectContent {
  /** Of the object's name, without the first dot. */
  readonly extension: string;
  readonly contentType: string;
  encode(lines: readonly ObjectLines[]): Promise<Uint8Array>;
  close(): Promise<void>;
}

const EXTENSIONS = { gzip: ".gz", zstd: ".zst", none: "" };
const CONTENT_TYPES = { gzip: "application/gzip", zstd: "application/zstd", none: "application/x-ndjson" };

export async function contentOf(format: Format, compression: Compression): Promise<ObjectContent> {
  if (format.container === "parquet") {
    const contentType = "application/vnd.apache.parquet";
    return { extension: "parquet", contentType, encode: async (lines) => parquetOf(joined(lines)), close };
  }
  const extension = `${isJson(format) ? "jsonl" : "log"}${EXTENSIONS[compression]}`;
  return { extension, contentType: CONTENT_TYPES[compression], ...encodingOf(compression) };
}

function encodingOf(compression: Compression): Pick<ObjectContent, "encode" | "close"> {
  switch (compression) {
    case "gzip":
      return { encode: (lines) => gzip(large(lines)), close };
    case "zstd":
      return zstdEncoding();
    case "none":
      return { encode: async (lines) => joined(lines), close };
  }
}

/** Frames of the journal are taken as they are; the rest is compressed beside the main thread. */
function zstdEncoding(): Pick<ObjectContent, "encode" | "close"> {
  const packer = createPacker();
  return {
    async encode(lines) {
      const frames = lines.map(({ frames, pieces }) => frames ?? packer.pack("zstd", pieces));
      return Buffer.concat(await Promise.all(frames));
    },
    close: () => packer.close(),
  };
}

/** Each piece is a turn of the compressor, so those of single records become one. */
function large(lines: readonly ObjectLines[]): readonly Uint8Array[] {
  return lines.map(({ pieces }) => (pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)));
}

function joined(lines: readonly ObjectLines[]): Buffer {
  return Buffer.concat(lines.flatMap(({ pieces }) => pieces));
}

async function close(): Promise<void> {}
