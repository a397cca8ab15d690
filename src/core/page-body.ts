import { hash } from "node:crypto";
import { type Allocate, allocateAnew, allocateBehind } from "./buffer-pool.ts";
import { type ScannedPage, STRIDE, scanLines, scanPage } from "./scanner.ts";
import { DAY_MS } from "./time.ts";
import { type CompressParts, decompress, decompressInto } from "./zstd.ts";
import { endOfFrame, frameContentSize } from "./zstd-frame.ts";

/*
 * The stored form of a page: zstd frames with one of two contents. The first byte of the content is the mark.
 *
 *   {   JSON lines: each event's exact bytes and a line break. The default. A file or object of zstd lines takes
 *       such frames as they are.
 *   [   The service's JSON array. For events with line breaks inside them or space between them, and for all
 *       pages of builds before the lines.
 */
export interface PageBody {
  readonly bytes: Buffer;
  readonly checksum: Buffer;
}

/** A page with at most so many neighbours of one organization and day gets a frame for each. */
const FRAMES_MAX = 8;

/**
 * Turns the page into lines where it can. `compress` may overwrite its last result with the next. `owners`: for each
 * event the number of its organization, where these are known. Events do not always name it.
 */
export function encodeBody(scanned: ScannedPage, compress: CompressParts, owners?: Uint16Array): PageBody {
  const bytes = compress(makeLines(scanned) ? partsOf(scanned, owners) : [scanned.bytes]);
  return { bytes, checksum: checksumOf(bytes) };
}

/** The lines of neighbours that go to one file. */
function partsOf(scanned: ScannedPage, owners?: Uint16Array): Uint8Array[] {
  const { bytes, columns } = scanned;
  let from = 0;
  return endsOfAlike(scanned, owners).map((to) => {
    const part = bytes.subarray(columns[from * STRIDE]!, columns[(to - 1) * STRIDE + 1]! + 1);
    from = to;
    return part;
  });
}

/** The ends of neighbours that go to one file; only the end of the page where these are many. */
function endsOfAlike(scanned: ScannedPage, owners?: Uint16Array): number[] {
  const ends: number[] = [];
  for (let from = 0; from < scanned.count; from = ends.at(-1)!) {
    if (ends.length === FRAMES_MAX) return [scanned.count];
    ends.push(alikeFrom(scanned, from, scanned.count, owners));
  }
  return ends;
}

/** The end of the neighbours from `from` on, `to` at most, that share its organization and its day in UTC. */
export function alikeFrom(
  { runs, timesMs }: ScannedPage,
  from: number,
  to: number,
  owners?: Uint16Array,
): number {
  const dayMs = Math.floor(timesMs[from]! / DAY_MS) * DAY_MS;
  // A time that cannot be read is NaN, and so on no day.
  const isAlike = (index: number) =>
    (owners === undefined ? runs[index] === 1 : owners[index] === owners[from]) &&
    timesMs[index]! >= dayMs &&
    timesMs[index]! < dayMs + DAY_MS;
  let index = from + 1;
  while (index < to && isAlike(index)) index++;
  return index;
}

/** The page of a stored body. */
export function decodeBody(body: Buffer): ScannedPage {
  return scanContent(decompress(body), allocateAnew);
}

/**
 * The same in the memory of `room`, which has at least the body's content size. Columns go behind the content while
 * there is space. Undefined: the body does not give its checksum.
 */
export function decodeBodyInto(
  { bytes, checksum }: PageBody,
  room: Uint8Array<ArrayBuffer>,
): ScannedPage | undefined {
  if (!checksumOf(bytes).equals(checksum)) return undefined;
  let filled = 0;
  for (let at = 0; at < bytes.length; ) {
    const end = endOfFrame(bytes, at);
    if (end === undefined) throw new Error("The bytes are not whole zstd frames.");
    filled += decompressInto(bytes.subarray(at, end), room.subarray(filled));
    at = end;
  }
  const content = Buffer.from(room.buffer, room.byteOffset, filled);
  return scanContent(content, allocateBehind(content));
}

/** The size of a body's content; undefined where a frame does not declare it. */
export function contentSizeOf(body: Buffer): number | undefined {
  let content = 0;
  for (let at = 0; at < body.length; ) {
    const end = endOfFrame(body, at);
    const size = end === undefined ? undefined : frameContentSize(body.subarray(at, end));
    if (end === undefined || size === undefined) return undefined;
    content += size;
    at = end;
  }
  return content;
}

function scanContent(content: Buffer, allocate: Allocate): ScannedPage {
  return content[0] === OBJECT ? scanLines(content, allocate) : scanPage(content, undefined, allocate);
}

const OBJECT = 0x7b;
const LINE_BREAK = 0x0a;

/**
 * Makes lines of a page whose events are side by side: the single byte that separates them becomes a line break.
 * The page is then no JSON array any more, and nothing reads it as one. False where this is not possible.
 */
export function makeLines(scanned: ScannedPage): boolean {
  const { bytes, columns, count, hasLineBreaks } = scanned;
  // Every reader asks for every few events of a page.
  if (scanned.areLines !== undefined) return scanned.areLines;
  scanned.areLines = !hasLineBreaks && areSideBySide(scanned);
  if (scanned.areLines)
    for (let index = 0; index < count; index++) bytes[columns[index * STRIDE + 1]!] = LINE_BREAK;
  return scanned.areLines;
}

function areSideBySide({ columns, count }: ScannedPage): boolean {
  for (let index = 1; index < count; index++)
    if (columns[index * STRIDE]! !== columns[(index - 1) * STRIDE + 1]! + 1) return false;
  return true;
}

/** The stored frames whose content is exactly these bytes of the lines; undefined where a frame has more. */
export function framesOf(body: Buffer, start: number, end: number): Buffer | undefined {
  let content = 0;
  let first: number | undefined;
  for (let at = 0; at < body.length && content < end; ) {
    if (content === start) first = at;
    const behind = endOfFrame(body, at);
    const size = behind === undefined ? undefined : frameContentSize(body.subarray(at, behind));
    if (behind === undefined || size === undefined) return undefined;
    content += size;
    at = behind;
    if (content === end && first !== undefined) return body.subarray(first, at);
  }
  return undefined;
}

/** The checksum of a page's stored bytes (R16). */
export function checksumOf(body: Uint8Array): Buffer {
  return Buffer.from(hash("sha256", body, "hex"), "hex").subarray(0, 16);
}
