import type { HeldPart, Holdings } from "../../core/holdings.ts";
import { hashOf } from "../columns.ts";
import type { FoundRow } from "./select.ts";
import { candidates, type Prefilter } from "./text.ts";

/** An event that was found, with its bytes as they are in the data file or the journal. */
export interface Hit extends FoundRow {
  readonly bytes: Buffer;
}

/** The index and the data disagree about an event: one of them is damaged. */
export class MismatchError extends Error {
  override readonly name = "MismatchError";
  readonly part: number;
  constructor(part: number, message: string) {
    super(message);
    this.part = part;
  }
}

/** A page of the journal was trimmed since the snapshot: its events are in a closed part by now. */
export class MovedError extends Error {
  override readonly name = "MovedError";
}

const CACHE_BYTES_MAX = 48_000_000;

/** Reads events from where the index says they are. Frames are read once for all rows of a batch. */
export function createFetcher(holdings: Holdings, parts: readonly HeldPart[]) {
  const byNumber = new Map(parts.map((part) => [part.number, part]));
  const cache = new Map<string, Buffer>();
  let cacheBytes = 0;

  async function frameOf({ part, frameOffset, frameBytes }: FoundRow): Promise<Buffer> {
    const key = `${part} ${frameOffset}`;
    const known = cache.get(key);
    if (known !== undefined) return known;
    const held = byNumber.get(part);
    const content = held && (await holdings.frame(held, frameOffset, frameBytes).catch(() => undefined));
    if (content === undefined)
      throw new MismatchError(part, `A frame of part ${part} of ${holdings.place} cannot be read.`);
    cache.set(key, content);
    cacheBytes += content.length;
    for (const [oldest, { length }] of cache) {
      if (cacheBytes <= CACHE_BYTES_MAX) break;
      cache.delete(oldest);
      cacheBytes -= length;
    }
    return content;
  }

  async function fromFrame(
    rows: readonly FoundRow[],
    prefilter: Prefilter,
    hits: Map<FoundRow, Hit>,
  ): Promise<void> {
    const content = await frameOf(rows[0]!);
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
      for (const group of groupsOf(rows)) {
        signal.throwIfAborted();
        const { part } = group[0]!;
        if (part < 0) fromPage(-part, group, prefilter, hits);
        else await fromFrame(group, prefilter, hits);
      }
      return rows.flatMap((row) => hits.get(row) ?? []);
    },
  };
}

/** Rows of one frame or page together, frames in the order of the file. */
function groupsOf(rows: readonly FoundRow[]): FoundRow[][] {
  const groups = new Map<string, FoundRow[]>();
  for (const row of rows) {
    const key = `${row.part} ${row.frameOffset}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [row]);
    else group.push(row);
  }
  return [...groups.values()].sort(([a], [b]) => a!.part - b!.part || a!.frameOffset - b!.frameOffset);
}
