import type {
  ArchivedEvent,
  ArchivedLine,
  ArchivedPart,
  ArchiveReader,
  EventPlace,
} from "../../core/archive-reader.ts";
import { decompress } from "../../core/zstd.ts";
import { currentParts } from "../log/current-parts.ts";
import type { PartFiles } from "../log/leaf.ts";
import type { Line } from "../part/manifest.ts";
import { framesOf } from "../part/range.ts";
import type { ArchiveStore } from "../store/store.ts";
import { proveAt } from "./prove.ts";
import { type ReadLog, readEntries, readLog } from "./read.ts";

/** Reads what an archive's log names. It trusts the store; `verify` is what checks it. */
export function createArchiveReader(store: ArchiveStore): ArchiveReader {
  let log: ReadLog | undefined;
  let files = new Map<number, PartFiles>();
  let lineCache: { sha256: string; lines: Map<number, Line> } | undefined;

  async function readParts(): Promise<ArchivedPart[]> {
    log = await readLog(store);
    const parts = currentParts(log.leaves).flatMap(({ leaf, files: now }) =>
      now === undefined ? [] : [{ leaf, now }],
    );
    files = new Map(parts.map(({ leaf, now }) => [leaf.index, now]));
    return parts.map(({ leaf, now }) => ({
      index: leaf.index,
      kind: leaf.kind,
      day: leaf.day,
      part: leaf.part,
      sha256: now.data_sha256,
      lines: now.lines,
      events: now.events,
      rawBytes: now.raw_bytes,
    }));
  }

  async function filesOf(part: number): Promise<PartFiles | undefined> {
    if (!files.has(part)) await readParts();
    return files.get(part);
  }

  /** The lines of the part that was asked for last stay in memory. */
  async function linesOf(now: PartFiles): Promise<Map<number, Line>> {
    if (lineCache?.sha256 !== now.manifest_sha256) {
      const entries = await readEntries(store, now);
      const lines = new Map(
        entries.flatMap((entry, number) => ("line" in entry ? [[number, entry.line] as const] : [])),
      );
      lineCache = { sha256: now.manifest_sha256, lines };
    }
    return lineCache.lines;
  }

  return {
    place: store.place,
    parts: readParts,
    async lines(part) {
      const now = await filesOf(part.index);
      return now === undefined ? [] : [...(await linesOf(now))].map(([number, line]) => lineOf(number, line));
    },
    async *events(part, { number }) {
      const now = await filesOf(part.index);
      const line = now && (await linesOf(now)).get(number);
      if (now === undefined || line === undefined) return;
      yield* eventsOf(store, now, line, { part: part.index, line: number });
    },
    async read(place) {
      const now = await filesOf(place.part);
      const frame = now && (await store.read(now.data, { from: place.frameFrom, length: place.frameBytes }));
      if (frame?.length !== place.frameBytes) return undefined;
      return cut(frame, place);
    },
    async prove(place) {
      const now = await filesOf(place.part);
      if (now === undefined || log === undefined) return undefined;
      const entries = await readEntries(store, now);
      const entry = entries[place.line];
      if (entry === undefined || "gone" in entry || place.event >= entry.line.events) return undefined;
      return proveAt(store, log, now, entries, place.line, place.event);
    },
  };
}

function lineOf(number: number, line: Line): ArchivedLine {
  const { organization, accounts, events, erased, first, last, state, missing } = line;
  return { number, organization, accounts, events, erased: erased.length, first, last, state, missing };
}

async function* eventsOf(
  store: ArchiveStore,
  { data }: PartFiles,
  line: Line,
  place: Pick<EventPlace, "part" | "line">,
): AsyncIterable<ArchivedEvent> {
  for await (const { from, stored, content, slices } of framesOf(store, data, line))
    for (const { index, at, length } of slices) {
      if (length === null) continue;
      const where = { ...place, event: index, frameFrom: from, frameBytes: stored, at, length };
      yield { place: where, bytes: content.subarray(at, at + length) };
    }
}

/** A frame that does not decompress is of a file that was rewritten since. */
function cut(frame: Buffer, { at, length }: EventPlace): Buffer | undefined {
  try {
    const content = decompress(frame);
    return at + length <= content.length ? content.subarray(at, at + length) : undefined;
  } catch {
    return undefined;
  }
}
