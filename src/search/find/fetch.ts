import type { Holdings } from "../../core/holdings.ts";
import { hashOf } from "../columns.ts";
import { type FramePlace, type FrameReader, MismatchError } from "./frames.ts";
import type { FoundRow } from "./select.ts";
import type { TextEngine } from "./text-engine.ts";

/** An event that was found, with its bytes as they are in the data file or the journal. */
export interface Hit extends FoundRow {
  readonly bytes: Buffer;
}

/** A page of the journal was trimmed since the snapshot: its events are in a closed part by now. */
export class MovedError extends Error {
  override readonly name = "MovedError";
}

/** Reads events from where the index says they are. Frames are read once for all rows of a batch. */
export function createFetcher(holdings: Holdings, frames: FrameReader) {
  function fromFrame(content: Buffer, group: Group, words: TextEngine | null, hits: Hits): void {
    const sorted = group.rows.toSorted((a, b) => a.row.start - b.row.start);
    const wanted = words?.candidates(
      content,
      sorted.map(({ row }) => row),
    );
    // A slice keeps its whole frame in memory: a few events of many frames are copied.
    const isFew = (wanted?.filter(Boolean).length ?? group.rows.length) < FEW_EVENTS;
    for (const [index, { row, at }] of sorted.entries()) {
      if (wanted !== undefined && !wanted[index]) continue;
      const bytes = content.subarray(row.start, row.start + row.length);
      if (hashOf(bytes) !== row.bytesHash)
        throw new MismatchError(
          row.part,
          `An event of part ${row.part} does not have the hash of the index.`,
        );
      hits[at] = { ...row, bytes: isFew ? Buffer.from(bytes) : bytes };
    }
  }

  function fromPage({ part, rows }: Group, words: TextEngine | null, hits: Hits): void {
    const page = holdings.page(-part);
    if (page === undefined) throw new MovedError(`Page ${-part} of the journal was trimmed.`);
    for (const { row, at } of rows) {
      const bytes = Buffer.from(page.event(row.row).bytes);
      if (words !== null && !words.mayContain(bytes)) continue;
      if (hashOf(bytes) !== row.bytesHash)
        throw new MismatchError(part, `An event of page ${-part} does not have the hash of the index.`);
      hits[at] = { ...row, bytes };
    }
  }

  return {
    /** The hits among the rows, in their order; rows without the words are left out. */
    async fetch(
      rows: readonly FoundRow[],
      words: TextEngine | null,
      signal: AbortSignal,
    ): Promise<readonly Hit[]> {
      const hits: Hits = new Array(rows.length);
      const groups = groupsOf(rows);
      for (const group of groups) if (group.part < 0) fromPage(group, words, hits);
      const inFrames = groups.filter(({ part }) => part >= 0);
      for await (const { place, content } of frames.read(inFrames, signal))
        fromFrame(content, place, words, hits);
      return hits.filter((hit) => hit !== undefined);
    },
  };
}

/** With as many or more of one frame its buffer is kept instead. */
const FEW_EVENTS = 32;

/** By the number of the row in the batch. */
type Hits = (Hit | undefined)[];

interface Group extends FramePlace {
  readonly rows: { readonly row: FoundRow; readonly at: number }[];
}

/** Rows of one frame or page together. */
function groupsOf(rows: readonly FoundRow[]): Group[] {
  const groups: Group[] = [];
  const byPart = new Map<number, Map<number, Group>>();
  for (const [at, row] of rows.entries()) {
    const { part, frameOffset, frameBytes } = row;
    const byOffset = byPart.get(part) ?? new Map<number, Group>();
    byPart.set(part, byOffset);
    let group = byOffset.get(frameOffset);
    if (group === undefined) {
      group = { part, frameOffset, frameBytes, rows: [] };
      byOffset.set(frameOffset, group);
      groups.push(group);
    }
    group.rows.push({ row, at });
  }
  return groups;
}
