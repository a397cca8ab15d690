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

const FEW_EVENTS = 100;

/** Reads events from where the index says they are. Frames are read once for all rows of a batch. */
export function createFetcher(holdings: Holdings, frames: FrameReader) {
  function fromFrame(
    content: Buffer,
    rows: readonly FoundRow[],
    words: TextEngine | null,
    hits: Map<FoundRow, Hit>,
  ): void {
    const sorted = rows.toSorted((a, b) => a.start - b.start);
    const wanted = words?.candidates(content, sorted);
    // A slice keeps its whole frame in memory: few events of a frame are copied.
    const isFew = (wanted?.filter(Boolean).length ?? rows.length) < FEW_EVENTS;
    for (const [at, row] of sorted.entries()) {
      if (wanted !== undefined && !wanted[at]) continue;
      const bytes = content.subarray(row.start, row.start + row.length);
      if (hashOf(bytes) !== row.bytesHash)
        throw new MismatchError(
          row.part,
          `An event of part ${row.part} does not have the hash of the index.`,
        );
      hits.set(row, { ...row, bytes: isFew ? Buffer.from(bytes) : bytes });
    }
  }

  function fromPage(
    number: number,
    rows: readonly FoundRow[],
    words: TextEngine | null,
    hits: Map<FoundRow, Hit>,
  ): void {
    const page = holdings.page(number);
    if (page === undefined) throw new MovedError(`Page ${number} of the journal was trimmed.`);
    for (const row of rows) {
      const bytes = Buffer.from(page.event(row.row).bytes);
      if (words !== null && !words.mayContain(bytes)) continue;
      if (hashOf(bytes) !== row.bytesHash)
        throw new MismatchError(row.part, `An event of page ${number} does not have the hash of the index.`);
      hits.set(row, { ...row, bytes });
    }
  }

  return {
    /** The hits among the rows, in their order; rows without the words are left out. */
    async fetch(rows: readonly FoundRow[], words: TextEngine | null, signal: AbortSignal): Promise<Hit[]> {
      const hits = new Map<FoundRow, Hit>();
      const groups = groupsOf(rows);
      for (const { part, rows: own } of groups) if (part < 0) fromPage(-part, own, words, hits);
      const inFrames = groups.filter(({ part }) => part >= 0);
      for await (const { place, content } of frames.read(inFrames, signal))
        fromFrame(content, place.rows, words, hits);
      return rows.flatMap((row) => hits.get(row) ?? []);
    },
  };
}

interface Group extends FramePlace {
  readonly rows: FoundRow[];
}

/** Rows of one frame or page together. */
function groupsOf(rows: readonly FoundRow[]): Group[] {
  const groups = new Map<string, Group>();
  for (const row of rows) {
    const { part, frameOffset, frameBytes } = row;
    const key = `${part} ${frameOffset}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { part, frameOffset, frameBytes, rows: [row] });
    else group.rows.push(row);
  }
  return [...groups.values()];
}
