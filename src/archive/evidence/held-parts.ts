import { createHash } from "node:crypto";
import type { HeldFrame, HeldPart } from "../../core/holdings.ts";
import { decompress } from "../../core/zstd.ts";
import { currentParts } from "../log/current-parts.ts";
import { type LogLeaf, parseLeaf } from "../log/leaf.ts";
import { type Line, parseManifest } from "../part/manifest.ts";
import type { ArchiveStore } from "../store/store.ts";

/** The parts of a log as search reads them. Entries that were parsed before are not parsed again. */
export function createPartList(origin: string): (entries: readonly Buffer[]) => readonly HeldPart[] {
  let leaves: LogLeaf[] = [];
  let last: Buffer | undefined;
  let parts: readonly HeldPart[] = [];
  return (entries) => {
    // The log only grows; another entry at the same place is of another archive.
    if (last !== undefined && !entries[leaves.length - 1]?.equals(last)) leaves = [];
    if (leaves.length === entries.length && leaves.length > 0) return parts;
    for (let index = leaves.length; index < entries.length; index++)
      leaves.push(parseLeaf(entries[index]!, origin, index));
    last = entries.at(-1);
    parts = partsOf(leaves);
    return parts;
  };
}

function partsOf(leaves: readonly LogLeaf[]): HeldPart[] {
  return currentParts(leaves).flatMap(({ leaf, files }) =>
    files === undefined || files.events === 0
      ? []
      : [
          {
            number: leaf.index,
            key: files.manifest_sha256,
            kind: leaf.kind,
            day: leaf.day,
            events: files.events,
            data: files.data,
            manifest: files.manifest,
            storedBytes: files.data_bytes,
            rawBytes: files.raw_bytes,
          },
        ],
  );
}

/** Reads a part from its first to its last frame. Throws where the data file is not the one of the manifest. */
export async function* heldFrames(
  store: ArchiveStore,
  part: HeldPart,
  signal: AbortSignal,
): AsyncGenerator<HeldFrame> {
  const bytes = await store.read(part.manifest);
  if (bytes === undefined || createHash("sha256").update(bytes).digest("hex") !== part.key)
    throw new Error(`${store.place}/${part.manifest} is missing or damaged: run \`archive verify\`.`);
  for (const entry of parseManifest(bytes)) {
    if ("gone" in entry || entry.line.events === 0) continue;
    yield* lineFrames(store, part, entry.line, signal);
  }
}

async function* lineFrames(
  store: ArchiveStore,
  part: HeldPart,
  line: Line,
  signal: AbortSignal,
): AsyncGenerator<HeldFrame> {
  const digest = createHash("sha256");
  const pieces = [line.key_bytes, ...line.frames.map(([stored]) => stored)];
  let offset = line.offset;
  // The whole range is checked before any of it is used.
  for (const length of pieces) {
    signal.throwIfAborted();
    digest.update((await store.read(part.data, { from: offset, length })) ?? Buffer.alloc(0));
    offset += length;
  }
  const damaged = () =>
    new Error(
      `${store.place}/${part.data} is missing or damaged at ${line.organization}: run \`archive verify\`.`,
    );
  if (digest.digest("hex") !== line.stored_sha256) throw damaged();
  offset = line.offset + line.key_bytes;
  let row = 0;
  for (const [stored, , events] of line.frames) {
    signal.throwIfAborted();
    const frame = await store.read(part.data, { from: offset, length: stored });
    // It may have been removed since.
    if (frame?.length !== stored) throw damaged();
    const content = decompress(frame);
    yield {
      organization: line.organization,
      offset,
      storedBytes: stored,
      content,
      events,
      slices: slicesOf(content, line, row),
    };
    offset += stored;
    row += events;
  }
}

const LINE_BREAK = 0x0a;

function slicesOf(content: Buffer, line: Line, firstRow: number): HeldFrame["slices"] {
  const breaks = new Map(line.breaks.map(([index, , length]) => [index, length]));
  const erased = new Set(line.erased.map(([index]) => index));
  const slices: { row: number; start: number; length: number }[] = [];
  for (let at = 0, row = firstRow; at < content.length; row++) {
    const length = breaks.get(row) ?? content.indexOf(LINE_BREAK, at) - at;
    if (!erased.has(row)) slices.push({ row, start: at, length });
    at += length + 1;
  }
  return slices;
}

export async function storedFrames(
  store: ArchiveStore,
  data: string,
  offset: number,
  length: number,
): Promise<Buffer | undefined> {
  const bytes = await store.read(data, { from: offset, length });
  return bytes?.length === length ? bytes : undefined;
}
