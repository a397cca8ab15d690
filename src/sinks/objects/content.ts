import type { Format } from "../../core/format.ts";
import { gzip } from "../../core/http/requester.ts";
import { createCompressor } from "../../core/zstd.ts";
import { isJson } from "../shared/body.ts";
import type { Compression } from "./config.ts";

/** How the lines of an object become its body. */
export interface ObjectContent {
  /** Of the object's name, without the first dot. */
  readonly extension: string;
  readonly contentType: string;
  /** `lines` are the records' bodies, each with a line break. */
  encode(lines: Buffer): Promise<Uint8Array>;
}

const EXTENSIONS = { gzip: ".gz", zstd: ".zst", none: "" };
const CONTENT_TYPES = { gzip: "application/gzip", zstd: "application/zstd", none: "application/x-ndjson" };

export async function contentOf(format: Format, compression: Compression): Promise<ObjectContent> {
  if (format.container === "parquet") {
    const { parquetOf } = await import("../parquet/write.ts");
    const contentType = "application/vnd.apache.parquet";
    return { extension: "parquet", contentType, encode: (lines) => parquetOf(lines) };
  }
  const extension = `${isJson(format) ? "jsonl" : "log"}${EXTENSIONS[compression]}`;
  return { extension, contentType: CONTENT_TYPES[compression], encode: compressorOf(compression) };
}

function compressorOf(compression: Compression): (content: Buffer) => Promise<Buffer> {
  switch (compression) {
    case "gzip":
      return (content) => gzip(content);
    case "zstd": {
      const compress = createCompressor();
      return async (content) => compress(content);
    }
    case "none":
      return async (content) => content;
  }
}
