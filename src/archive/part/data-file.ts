import { createHash, type Hash } from "node:crypto";
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { type Compress, createFrameCompressor } from "../../core/zstd.ts";
import { createTree, HASH_BYTES } from "../log/tree.ts";
import { type FrameSizes, keyFrame, type RangeKey, seekTable } from "./frames.ts";
import { createEventHasher, type EventHasher, type NonceSource, noncesOf } from "./hashing.ts";
import { createIdentityList, type IdentitySummary } from "./identity-list.ts";

/*
 * A data file: ranges of organizations one after the other, then the seek table. A range is a key frame and
 * zstd frames of about 1 MB, each with whole events, so one organization is one ranged read and one event is too.
 * In a frame every event is its exact bytes and one line break behind them (A14).
 */

/** Part of a part's durable plan: what is closed again after a crash has the same frames. */
export interface Codec {
  readonly level: number;
  readonly frameBytes: number;
}
export const CODEC: Codec = { level: 3, frameBytes: 1_000_000 };

/** The facts of a range for its manifest line. */
export interface RangeFacts {
  readonly events: number;
  readonly offset: number;
  readonly stored_bytes: number;
  readonly stored_sha256: string;
  readonly raw_bytes: number;
  readonly raw_sha256: string;
  readonly events_root: string;
  readonly key_bytes: number;
  readonly frames: [number, number, number][];
  readonly breaks: [number, number, number][];
  readonly ids_sha256: string;
  readonly held: number;
  readonly erased: [number, string][];
}

export interface DataFileWriter {
  readonly bytes: number;
  begin(key: RangeKey): void;
  /** The identity is 16 bytes; further versions of an event have the same one. */
  event(slice: Uint8Array, identity: Buffer): void;
  /** In place of an event that was erased: an empty line, with the leaf that it had. */
  erased(leaf: Uint8Array): void;
  end(): Promise<RangeFacts>;
  /** A whole range of another file as it is; gives its new offset. */
  copy(range: Buffer, sizes: readonly FrameSizes[]): number;
  /** Durable when it returns. */
  finish(): { readonly bytes: number; readonly sha256: string };
  /** Closes the file as it is; nothing to do after `finish`. */
  abort(): void;
}

const LINE_BREAK = 0x0a;

/** Memory for frames. One for many files: each would leave megabytes behind until the next garbage collection. */
export interface FrameMemory {
  readonly compress: Compress;
  raw: Buffer;
}

export function createFrameMemory(codec: Codec): FrameMemory {
  return {
    compress: createFrameCompressor({ compressionLevel: codec.level, checksumFlag: true }),
    raw: Buffer.allocUnsafeSlow(codec.frameBytes),
  };
}

/** One file at a time can use a frame memory. */
export function createDataFile(
  path: string,
  codec: Codec,
  memory: FrameMemory = createFrameMemory(codec),
): DataFileWriter {
  const fd = openSync(path, "w", 0o600);
  let isOpen = true;
  const whole = createHash("sha256");
  const frames: FrameSizes[] = [];
  const identities = createIdentityList();
  let bytes = 0;
  let range: OpenRange | undefined;

  function write(stored: Buffer, raw: number): void {
    for (let at = 0; at < stored.length; ) at += writeSync(fd, stored, at);
    whole.update(stored);
    range?.stored.update(stored);
    frames.push({ stored: stored.length, raw });
    bytes += stored.length;
  }

  function flush(open: OpenRange): void {
    if (open.used === 0) return;
    const raw = memory.raw.subarray(0, open.used);
    open.raw.update(raw);
    const stored = memory.compress(raw);
    write(stored, raw.length);
    open.frames.push([stored.length, raw.length, open.events - open.framed]);
    open.framed = open.events;
    open.rawBytes += raw.length;
    open.used = 0;
  }

  function line(open: OpenRange, slice: Uint8Array): void {
    const length = slice.length + 1;
    if (open.used > 0 && open.used + length > codec.frameBytes) flush(open);
    const end = open.used + length;
    if (memory.raw.length < end) memory.raw = grown(memory.raw, open.used, end);
    memory.raw.set(slice, open.used);
    memory.raw[end - 1] = LINE_BREAK;
    if (slice.includes(LINE_BREAK)) open.breaks.push([open.events, open.rawBytes + open.used, slice.length]);
    open.used += length;
    open.events++;
  }

  return {
    get bytes() {
      return bytes;
    },
    begin(key) {
      range = openRange(bytes, key);
      identities.clear();
      const stored = keyFrame(key);
      range.keyBytes = stored.length;
      write(stored, 0);
    },
    event(slice, identity) {
      const open = range!;
      open.tree.append(open.hasher.leaf(open.events, slice));
      identities.push(identity);
      line(open, slice);
    },
    erased(leaf) {
      const open = range!;
      open.tree.append(leaf);
      open.erased.push([open.events, Buffer.from(leaf).toString("hex")]);
      line(open, new Uint8Array(0));
    },
    async end() {
      const open = range!;
      flush(open);
      range = undefined;
      return factsOf(open, await identities.summary(), bytes);
    },
    copy(stored, sizes) {
      const offset = bytes;
      let at = 0;
      for (const size of sizes) {
        write(stored.subarray(at, at + size.stored), size.raw);
        at += size.stored;
      }
      return offset;
    },
    finish() {
      write(seekTable(frames), 0);
      fsyncSync(fd);
      closeSync(fd);
      isOpen = false;
      return { bytes, sha256: whole.digest("hex") };
    },
    abort() {
      if (isOpen) closeSync(fd);
      isOpen = false;
    },
  };
}

interface OpenRange {
  readonly offset: number;
  readonly stored: Hash;
  readonly raw: Hash;
  readonly tree: ReturnType<typeof createTree>;
  readonly hasher: EventHasher;
  readonly frames: [number, number, number][];
  readonly breaks: [number, number, number][];
  readonly erased: [number, string][];
  keyBytes: number;
  used: number;
  events: number;
  framed: number;
  rawBytes: number;
}

function openRange(offset: number, key: RangeKey): OpenRange {
  return {
    offset,
    stored: createHash("sha256"),
    raw: createHash("sha256"),
    tree: createTree(),
    hasher: createEventHasher(nonceSource(key)),
    frames: [],
    breaks: [],
    erased: [],
    keyBytes: 0,
    used: 0,
    events: 0,
    framed: 0,
    rawBytes: 0,
  };
}

export function nonceSource(key: RangeKey): NonceSource {
  if (key.kind === "secret") return noncesOf(key.secret);
  return (index) => key.events.toString("latin1", index * HASH_BYTES, (index + 1) * HASH_BYTES);
}

function factsOf(open: OpenRange, { sha256, held }: IdentitySummary, end: number): RangeFacts {
  return {
    events: open.events,
    offset: open.offset,
    stored_bytes: end - open.offset,
    stored_sha256: open.stored.digest("hex"),
    raw_bytes: open.rawBytes,
    raw_sha256: open.raw.digest("hex"),
    events_root: open.tree.root().toString("hex"),
    key_bytes: open.keyBytes,
    frames: open.frames,
    breaks: open.breaks,
    ids_sha256: sha256,
    held,
    erased: open.erased,
  };
}

function grown(buffer: Buffer, used: number, size: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(size * 2);
  buffer.copy(larger, 0, 0, used);
  return larger;
}
