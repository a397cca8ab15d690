import { PausedError } from "../../core/errors.ts";
import { createCompressor, decompress } from "../../core/zstd.ts";
import type { KafkaConfig } from "./config.ts";

type Library = typeof import("kafkajs");

/** The shape of a codec for kafkajs. */
interface Codec {
  compress(encoder: { readonly buffer: Buffer }): Promise<Buffer>;
  decompress(buffer: Buffer): Promise<Buffer>;
}

/** The number of the compression; a codec that kafkajs lacks is taken from its package, where installed. */
export async function codecOf(library: Library, compression: KafkaConfig["compression"]): Promise<number> {
  const { CompressionTypes, CompressionCodecs } = library;
  switch (compression) {
    case "none":
      return CompressionTypes.None;
    case "gzip":
      return CompressionTypes.GZIP;
    case "zstd": {
      const codec = zstd();
      CompressionCodecs[CompressionTypes.ZSTD] = () => codec;
      return CompressionTypes.ZSTD;
    }
    case "snappy": {
      const codec = await installed("kafkajs-snappy");
      CompressionCodecs[CompressionTypes.Snappy] = codec as () => Codec;
      return CompressionTypes.Snappy;
    }
    case "lz4": {
      const Lz4 = (await installed("kafkajs-lz4")) as new () => { codec: () => Codec };
      CompressionCodecs[CompressionTypes.LZ4] = new Lz4().codec;
      return CompressionTypes.LZ4;
    }
  }
}

function zstd(): Codec {
  const compress = createCompressor();
  return {
    compress: async ({ buffer }) => compress(buffer),
    decompress: async (buffer) => decompress(buffer),
  };
}

async function installed(name: string): Promise<unknown> {
  try {
    return (await import(name)).default;
  } catch (error) {
    throw new PausedError(
      `The package ${name} is not installed.`,
      `install ${name}, or choose gzip or zstd for compression`,
      { cause: error },
    );
  }
}
