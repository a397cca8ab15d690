import type { Packer, PackKind } from "../../core/packer.ts";
import { createResultMemory } from "../../core/result-memory.ts";
import { type Appender, type Piece, recordsOf } from "./batch.ts";
import { writeAll } from "./system.ts";

/**
 * Appends records compressed, as zstd frames or gzip members. A file of these is read like one that was
 * compressed whole, at every commit. Lines that the journal has as zstd frames are written as they are stored;
 * other records are compressed by the packer. Small neighbours share a frame.
 */
export function createPackedAppender(kind: PackKind, packer: Packer): Appender {
  const memory = createResultMemory();
  return {
    async append(file, target, signal) {
      let position = target.length;
      for (const part of outputsOf(target.pending)) {
        signal.throwIfAborted();
        const bytes = await bytesOf(part);
        try {
          await writeAll(file, bytes, position);
        } finally {
          memory.giveBack(bytes);
        }
        position += bytes.length;
      }
      return position - target.length;
    },
    content: ({ pending }) => Promise.all(outputsOf(pending).map(bytesOf)),
  };

  async function bytesOf(output: Output): Promise<Uint8Array> {
    return "frames" in output ? output.frames : packer.pack(kind, output.records, memory);
  }

  /** Frames to write as they are, and records to compress, in order. */
  function outputsOf(pieces: readonly Piece[]): Output[] {
    const outputs: Output[] = [];
    let records: Uint8Array[] = [];
    let bytes = 0;
    const flush = () => {
      if (records.length > 0) outputs.push({ records });
      records = [];
      bytes = 0;
    };
    for (const piece of pieces) {
      const frames = kind === "zstd" ? storedFrames(piece) : undefined;
      if (frames !== undefined) {
        flush();
        outputs.push({ frames });
        continue;
      }
      records.push(...recordsOf(piece));
      bytes += piece.part.size(piece.from, piece.to);
      if (bytes >= FRAME_BYTES_MAX) flush();
    }
    flush();
    return outputs;
  }
}

type Output = { readonly frames: Uint8Array } | { readonly records: readonly Uint8Array[] };

/** Smaller frames are compressed again with their neighbours, which saves most of their size. */
const FRAME_BYTES_MIN = 64_000;
const FRAME_BYTES_MAX = 4 << 20;

function storedFrames({ part, from, to }: Piece): Uint8Array | undefined {
  return part.size(from, to) < FRAME_BYTES_MIN ? undefined : part.frames?.(from, to);
}
