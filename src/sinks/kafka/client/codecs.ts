import { availableParallelism } from "node:os";
import { PausedError } from "../../../core/errors.ts";
import type { RecordCodec } from "../../../core/kafka.ts";
import { createInlinePacker, createPacker } from "../../../core/packer.ts";
import { createCompressor, decompress } from "../../../core/zstd.ts";
import type { KafkaCompression } from "../config.ts";

type Library = typeof import("kafkajs");

/** The shape of a codec for kafkajs. */
interface LibraryCodec {
  compress(encoder: { readonly buffer: Buffer }): Promise<Buffer>;
  decompress(buffer: Buffer): Promise<Buffer>;
}

/** A codec that kafkajs lacks is registered there too, because its fetches decompress with it. */
export async function codecOf(library: Library, compression: KafkaCompression): Promise<RecordCodec> {
  const { CompressionTypes, CompressionCodecs } = library;
  const number = await registered(library, compression);
  if (number === CompressionTypes.None) return { number, compress: undefined, close() {} };
  if (compression === "zstd") return { number, ...zstdRecords(availableParallelism()) };
  const codec = CompressionCodecs[number as keyof typeof CompressionCodecs]() as LibraryCodec;
  return { number, compress: (records) => codec.compress({ buffer: records }), close() {} };
}

/** With fewer cores another thread would only take processor time from the main thread and the one for pages. */
const THREAD_CORES_MIN = 3;

/** Compresses beside the main thread where there are cores for it. The bytes are the same in both cases. */
export function zstdRecords(cores: number): Pick<RecordCodec, "compress" | "close"> {
  const packer = cores >= THREAD_CORES_MIN ? createPacker() : createInlinePacker();
  return {
    compress: (records) => packer.pack("records", [records]),
    close: () => void packer.close(),
  };
}

async function registered(
  { CompressionTypes, CompressionCodecs }: Library,
  compression: KafkaCompression,
): Promise<number> {
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
      CompressionCodecs[CompressionTypes.Snappy] = codec as () => LibraryCodec;
      return CompressionTypes.Snappy;
    }
    case "lz4": {
      const Lz4 = (await installed("kafkajs-lz4")) as new () => { codec: () => LibraryCodec };
      CompressionCodecs[CompressionTypes.LZ4] = new Lz4().codec;
      return CompressionTypes.LZ4;
    }
  }
}

function zstd(): LibraryCodec {
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
