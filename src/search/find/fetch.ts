import type { Holdings } from "../../core/holdings.ts";
import { hashOf } from "../columns.ts";
import { type FramePlace, type FrameReader, MismatchError } from "./frames.ts";
import type { FoundRow } from "./select.ts";
import { candidates, type Prefilter } from "./text.ts";

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
  function fromFrame(
    content: Buffer,
    rows: readonly FoundRow[],
    prefilter: Prefilter,
    hits: Map<FoundRow, Hit>,
  ): void {
    const sorted = rows.toSorted((a, b) => a.start - b.start);
    const wanted = prefilter === null ? null : candidates(content, sorted, prefilter);
    for (const [at, row] of sorted.entries()) {
      if (wanted !== null && !wanted[at]) continue;
      const bytes = content.subarray(row.start, row.start + row.length);
      if (hashOf(bytes) !== row.bytesHash)
        throw new MismatchError(
          row.part,
          `An event of part ${row.part} does not have the hash of the index.`,
        );
      hits.set(row, { ...row, bytes });
    }
  }

  function fromPage(
    number: number,
    rows: readonly FoundRow[],
    prefilter: Prefilter,
    hits: Map<FoundRow, Hit>,
  ): void {
    const page = holdings.page(number);
    if (page === undefined) throw new MovedError(`Page ${number} of the journal was trimmed.`);
    for (const row of rows) {
      const bytes = Buffer.from(page.event(row.row).bytes);
      if (prefilter !== null && !candidates(bytes, [{ start: 0, length: bytes.length }], prefilter)[0])
        continue;
      if (hashOf(bytes) !== row.bytesHash)
        throw new MismatchError(row.part, `An event of page ${number} does not have the hash of the index.`);
      hits.set(row, { ...row, bytes });
    }
  }

  return {
    /** The hits among the rows, in their order; rows that the prefilter rules out are left out. */
    async fetch(rows: readonly FoundRow[], prefilter: Prefilter, signal: AbortSignal): Promise<Hit[]> {
      const hits = new Map<FoundRow, Hit>();
      const groups = groupsOf(rows);
      for (const { part, rows: own } of groups) if (part < 0) fromPage(-part, own, prefilter, hits);
      const inFrames = groups.filter(({ part }) => part >= 0);
      for await (const { place, content } of frames.read(inFrames, signal))
        fromFrame(content, place.rows, prefilter, hits);
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
