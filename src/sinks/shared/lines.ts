import type { Batch } from "../../core/sink.ts";

const BREAK = Buffer.from("\n");

/**
 * The bodies of some records of a batch, each with a line break behind it, in as few pieces as memory allows. The
 * indexes ascend. Delivery has encoded neighbours side by side, so a whole batch is a handful of pieces.
 */
export function linesOf(batch: Batch, indexes: readonly number[]): readonly Uint8Array[] {
  const { stretches } = batch;
  if (stretches === undefined)
    return [Buffer.concat(indexes.flatMap((index) => [batch.records[index]!.body, BREAK]))];
  const pieces: Uint8Array[] = [];
  let at = 0;
  let first = 0;
  for (const { lines, from, to } of stretches) {
    const end = first + to - from;
    while (at < indexes.length && indexes[at]! < end) {
      const start = indexes[at]!;
      let next = start + 1;
      while (++at < indexes.length && indexes[at] === next && next < end) next++;
      pieces.push(lines.bytes(from + start - first, from + next - first));
    }
    first = end;
  }
  // Each piece is a turn of the compressor.
  return pieces.length > PIECES_MAX ? [Buffer.concat(pieces)] : pieces;
}

const PIECES_MAX = 32;
