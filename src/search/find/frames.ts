import type { HeldPart, Holdings } from "../../core/holdings.ts";
import { decompress, decompressInto } from "../../core/zstd.ts";
import { frameContentSize } from "../../core/zstd-frame.ts";

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
  /** Frames, decompressed: first those of the cache, then the others, where neighbours come with one read. */
  read<Place extends FramePlace>(
    places: readonly Place[],
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly place: Place; readonly content: Buffer }>;
  /**
   * The same without a buffer for each frame: the content is put into `room`, which the next frame overwrites. Frames
   * for which `look` is true are kept, because they will be read next. Gives how many bytes were looked through.
   */
  scan<Place extends FramePlace>(
    places: readonly Place[],
    room: (bytes: number) => Uint8Array,
    look: (place: Place, content: Uint8Array) => boolean,
    signal: AbortSignal,
  ): Promise<number>;
}

/** Decompressed frames of recent queries: the next page of a query mostly needs the same ones. */
export interface FrameCache {
  find(part: HeldPart, offset: number): Buffer | undefined;
  keep(part: HeldPart, offset: number, content: Buffer): void;
  /** Drops the frames of every part that is not among these: it was replaced by an erasure, or pruned. */
  keepOnly(parts: readonly HeldPart[]): void;
}

export function createFrameCache(): FrameCache {
  const frames = new Map<string, { readonly key: string; readonly content: Buffer }>();
  const nameOf = ({ key }: HeldPart, offset: number) => `${key} ${offset}`;
  let held = 0;
  let current: readonly HeldPart[] = [];

  function drop(name: string): void {
    held -= frames.get(name)?.content.length ?? 0;
    frames.delete(name);
  }

  return {
    find: (part, offset) => frames.get(nameOf(part, offset))?.content,
    keep(part, offset, content) {
      drop(nameOf(part, offset));
      frames.set(nameOf(part, offset), { key: part.key, content });
      held += content.length;
      for (const oldest of frames.keys()) {
        if (held <= CACHE_BYTES_MAX) break;
        drop(oldest);
      }
    },
    keepOnly(parts) {
      if (parts === current) return;
      current = parts;
      const keys = new Set(parts.map(({ key }) => key));
      for (const [name, { key }] of frames) if (!keys.has(key)) drop(name);
    },
  };
}

export function createFrameReader(
  holdings: Holdings,
  parts: readonly HeldPart[],
  cache: FrameCache,
): FrameReader {
  const byNumber = new Map(parts.map((part) => [part.number, part]));
  cache.keepOnly(parts);

  function cached({ part: number, frameOffset }: FramePlace): Buffer | undefined {
    const part = byNumber.get(number);
    return part && cache.find(part, frameOffset);
  }

  function keep({ part, frameOffset }: FramePlace, content: Buffer): void {
    cache.keep(byNumber.get(part)!, frameOffset, content);
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

  function unpackInto(place: FramePlace, stored: Buffer, room: (bytes: number) => Uint8Array): Uint8Array {
    try {
      const size = frameContentSize(stored)!;
      const content = room(size);
      if (decompressInto(stored, content) === size) return content;
    } catch {
      // Said below.
    }
    throw unreadable(place);
  }

  /** Stored frames, where neighbours come with one read. */
  async function* storedFrames<Place extends FramePlace>(places: readonly Place[], signal: AbortSignal) {
    for (const run of runsOf(places)) {
      signal.throwIfAborted();
      const stored = await readRun(run);
      const start = run[0]!.frameOffset;
      for (const place of run) {
        const at = place.frameOffset - start;
        yield { place, stored: stored.subarray(at, at + place.frameBytes) };
      }
    }
  }

  const inOrder = <Place extends FramePlace>(places: readonly Place[]) =>
    places.toSorted((a, b) => a.part - b.part || a.frameOffset - b.frameOffset);

  return {
    async *read(places, signal) {
      const sorted = inOrder(places);
      const missing: typeof sorted = [];
      for (const place of sorted) {
        const content = cached(place);
        if (content === undefined) missing.push(place);
        else yield { place, content };
      }
      for await (const { place, stored } of storedFrames(missing, signal))
        yield { place, content: unpack(place, stored) };
    },
    async scan(places, room, look, signal) {
      let bytes = 0;
      for await (const { place, stored } of storedFrames(inOrder(places), signal)) {
        const content = unpackInto(place, stored, room);
        bytes += content.length;
        if (look(place, content)) keep(place, Buffer.from(content));
      }
      return bytes;
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
