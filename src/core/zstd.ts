import { createRequire } from "node:module";
import zlib from "node:zlib";
import { endOfFrame } from "./zstd-frame.ts";

/**
 * Zstandard: from Node itself where it has it (22.15 and newer), from the optional package zstd-napi elsewhere. Both
 * write the same frame format, so that files move between Nodes.
 */
export interface Zstd {
  /** Compresses one frame that contains the size of its content. Each result is a buffer of its own. */
  createCompressor(parameters?: ZstdParameters): Compress;
  /** The same frames. The next call may overwrite a result. */
  createFrameCompressor(parameters?: ZstdParameters): Compress;
  /**
   * For pages of megabytes: a frame for each part, side by side. The next call may overwrite a result of up to
   * PAGE_BYTES; a larger one is the caller's.
   */
  createPageCompressor(parameters: ZstdParameters): CompressParts;
  /** The content of one or more whole frames; throws for bytes that are anything else. */
  decompress(bytes: Uint8Array): Buffer;
  /** Puts the content of one frame into memory of the caller; throws where it does not fit. Gives its length. */
  decompressInto(frame: Uint8Array, room: Uint8Array): number;
}

export interface ZstdParameters {
  readonly compressionLevel?: number;
  readonly windowLog?: number;
  readonly hashLog?: number;
  readonly checksumFlag?: boolean;
}

export type Compress = (bytes: Uint8Array) => Buffer;
export type CompressParts = (parts: readonly Uint8Array[]) => Buffer;

/** The part of `node:zlib` that newer Nodes have. */
interface NodeZstd {
  zstdCompressSync(bytes: Uint8Array, options: object): Buffer;
  zstdDecompressSync(bytes: Uint8Array, options: object): Buffer;
}

const OUTPUT_CHUNK_BYTES = 256 * 1024;
/** Memory for results. Buffers of other sizes would be garbage that is collected late. */
const FRAME_BYTES = 4 << 20;
export const PAGE_BYTES = 16 << 20;

export function nodeZstd({ zstdCompressSync, zstdDecompressSync }: NodeZstd): Zstd {
  const constants = zlib.constants as unknown as Readonly<Record<string, number>>;
  function createCompressor(parameters: ZstdParameters = {}): Compress {
    const params = Object.fromEntries(
      Object.entries(parameters).map(([name, value]) => [constants[`ZSTD_c_${name}`]!, Number(value)]),
    );
    const options = { params, chunkSize: OUTPUT_CHUNK_BYTES };
    return (bytes) => zstdCompressSync(bytes, { ...options, pledgedSrcSize: bytes.length });
  }
  return {
    createCompressor,
    createFrameCompressor: createCompressor,
    createPageCompressor(parameters) {
      const compress = createCompressor(parameters);
      return (parts) => joined(parts.map(compress));
    },
    decompress: (bytes) =>
      decompressFrames(bytes, (frame) => zstdDecompressSync(frame, { chunkSize: OUTPUT_CHUNK_BYTES })),
    decompressInto(frame, room) {
      const content = zstdDecompressSync(frame, { chunkSize: OUTPUT_CHUNK_BYTES });
      room.set(content);
      return content.length;
    },
  };
}

export function packageZstd(): Zstd {
  const require = createRequire(import.meta.url);
  const { Decompressor } = require("zstd-napi") as typeof import("zstd-napi");
  const binding = require("zstd-napi/binding.js") as typeof import("zstd-napi/binding.js");
  const decompressor = new Decompressor();
  const context = new binding.DCtx();

  function contextOf(parameters: ZstdParameters) {
    const context = new binding.CCtx();
    for (const [name, value] of Object.entries(parameters))
      context.setParameter(binding.CParameter[name as keyof ZstdParameters], Number(value));
    return context;
  }

  /** Results share one buffer of this size; the system gives memory to the part that is written to. */
  function compressWith(context: InstanceType<typeof binding.CCtx>, keptBytes: number): CompressParts {
    let kept: Buffer | undefined;
    return (parts) => {
      const bound = parts.reduce((sum, { length }) => sum + binding.compressBound(length), 0);
      if (bound <= keptBytes) kept ??= Buffer.allocUnsafeSlow(keptBytes);
      const buffer = bound <= keptBytes ? kept! : Buffer.allocUnsafeSlow(bound);
      let filled = 0;
      for (const part of parts) filled += context.compress2(buffer.subarray(filled), part);
      return buffer.subarray(0, filled);
    };
  }

  function createFrameCompressor(parameters: ZstdParameters = {}): Compress {
    const compress = compressWith(contextOf(parameters), FRAME_BYTES);
    return (bytes) => compress([bytes]);
  }

  return {
    createCompressor(parameters) {
      const compress = createFrameCompressor(parameters);
      return (bytes) => Buffer.from(compress(bytes));
    },
    createFrameCompressor,
    createPageCompressor(parameters) {
      const context = contextOf(parameters);
      // Searches fewer places, which on large pages costs hardly any size while literals stay compressed. The
      // binding has no name for that parameter, ZSTD_c_literalCompressionMode.
      context.setParameter(binding.CParameter.targetLength, 4);
      context.setParameter(1002 as never, 1);
      return compressWith(context, PAGE_BYTES);
    },
    decompress: (bytes) => decompressFrames(bytes, (frame) => decompressor.decompress(frame)),
    decompressInto: (frame, room) => context.decompress(room, frame),
  };
}

export const {
  createCompressor,
  createFrameCompressor,
  createPageCompressor,
  decompress,
  decompressInto,
}: Zstd = load();

function load(): Zstd {
  if ("zstdCompressSync" in zlib) return nodeZstd(zlib as unknown as NodeZstd);
  try {
    return packageZstd();
  } catch (cause) {
    throw new Error(
      `This Node.js has no zstd, and the package zstd-napi that replaces it is not installed (${(cause as Error).message}): use Node.js 22.15 or newer, or install again where a C++ compiler and Python are present.`,
      { cause },
    );
  }
}

/** Frame by frame: Node 22 does not notice a missing end, and Node 22 and 24 ignore bytes behind the first frame. */
function decompressFrames(bytes: Uint8Array, decompressOne: (frame: Buffer) => Buffer): Buffer {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const contents: Buffer[] = [];
  for (let at = 0; at < whole.length || at === 0; ) {
    const end = endOfFrame(whole, at);
    if (end === undefined) throw new Error("The bytes are not whole zstd frames.");
    contents.push(decompressOne(whole.subarray(at, end)));
    at = end;
  }
  return joined(contents);
}

function joined(parts: readonly Buffer[]): Buffer {
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
