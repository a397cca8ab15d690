import type { HeldPart, Holdings } from "../../core/holdings.ts";
import { decompress } from "../../core/zstd.ts";

/** The index and the data disagree: one of them is damaged. */
export class MismatchError extends Error {
  override readonly name = "MismatchError";
  readonly part: number;
  constructor(part: number, message: string) {
    super(message);
    this.part = part;
  }
}

export interface FramePlace {
  readonly part: number;
  readonly frameOffset: number;
  readonly frameBytes: number;
}

const CACHE_BYTES_MAX = 48_000_000;
const READ_BYTES_MAX = 8_000_000;
/** Frames that are this close in a file are read together. */
const GAP_BYTES_MAX = 65_536;

export interface FrameReader {
  /** Frames, decompressed, in the order of parts and offsets; neighbours come with one read. */
  read<Place extends FramePlace>(
    places: readonly Place[],
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly place: Place; readonly content: Buffer }>;
}

export function createFrameReader(holdings: Holdings, parts: readonly HeldPart[]): FrameReader {
  const byNumber = new Map(parts.map((part) => [part.number, part]));
  const cache = new Map<string, Buffer>();
  let cacheBytes = 0;
  const keyOf = ({ part, frameOffset }: FramePlace) => `${part} ${frameOffset}`;

  function keep(place: FramePlace, content: Buffer): void {
    cache.set(keyOf(place), content);
    cacheBytes += content.length;
    for (const [oldest, { length }] of cache) {
      if (cacheBytes <= CACHE_BYTES_MAX) break;
      cache.delete(oldest);
      cacheBytes -= length;
    }
  }

  async function readRun(run: readonly FramePlace[]): Promise<Buffer> {
    const [first, last] = [run[0]!, run.at(-1)!];
    const part = byNumber.get(first.part);
    const length = last.frameOffset + last.frameBytes - first.frameOffset;
    const stored = part && (await holdings.stored(part, first.frameOffset, length).catch(() => undefined));
    if (stored === undefined) throw unreadable(first);
    return stored;
  }

  function unreadable({ part }: FramePlace): MismatchError {
    return new MismatchError(part, `A frame of part ${part} of ${holdings.place} cannot be read.`);
  }

  function unpack(place: FramePlace, stored: Buffer): Buffer {
    try {
      const content = decompress(stored);
      keep(place, content);
      return content;
    } catch {
      throw unreadable(place);
    }
  }

  return {
    async *read(places, signal) {
      const sorted = places.toSorted((a, b) => a.part - b.part || a.frameOffset - b.frameOffset);
      const known = sorted.filter((place) => cache.has(keyOf(place)));
      for (const place of known) {
        const content = cache.get(keyOf(place));
        if (content !== undefined) yield { place, content };
      }
      const isKnown = new Set(known.map(keyOf));
      for (const run of runsOf(sorted.filter((place) => !isKnown.has(keyOf(place))))) {
        signal.throwIfAborted();
        const stored = await readRun(run);
        const start = run[0]!.frameOffset;
        for (const place of run) {
          const at = place.frameOffset - start;
          yield { place, content: unpack(place, stored.subarray(at, at + place.frameBytes)) };
        }
      }
    },
  };
}

function* runsOf<Place extends FramePlace>(sorted: readonly Place[]): Generator<Place[]> {
  let run: Place[] = [];
  for (const place of sorted) {
    const [first, last] = [run[0], run.at(-1)];
    const isNear =
      last !== undefined &&
      place.part === last.part &&
      place.frameOffset - (last.frameOffset + last.frameBytes) <= GAP_BYTES_MAX &&
      place.frameOffset + place.frameBytes - first!.frameOffset <= READ_BYTES_MAX;
    if (!isNear && run.length > 0) {
      yield run;
      run = [];
    }
    run.push(place);
  }
  if (run.length > 0) yield run;
}
