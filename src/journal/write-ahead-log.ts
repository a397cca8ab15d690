import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";

/*
 * Reads a write-ahead log as SQLite does when it opens one. A header of 32 bytes has two salts; each frame has
 * a header of 24 bytes with the same salts and a checksum over everything up to its end. Frames are valid up to
 * the first whose salts or checksum do not fit. Frames with other salts are left from an earlier use of the
 * file. A frame that does not fit, followed by a later transaction with the current salts, is damage: SQLite would
 * ignore every transaction from there on without a word. In the last transaction the same is a write that did not
 * finish: a power failure leaves any part of it. A running process changes the log while it is read, so only a finding that stays counts.
 */
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;

export interface LogFinding {
  /** Frames that count. */
  readonly frames: number;
  /** Frames with the current salts behind the first that does not fit; SQLite ignores them. */
  readonly ignored: number;
  readonly problem: string | null;
}

export function checkLog(file: string): LogFinding {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size < HEADER_BYTES + FRAME_HEADER_BYTES) return { frames: 0, ignored: 0, problem: null };
  const handle = openSync(file, "r");
  try {
    let found = checkFrames(handle, size);
    for (let look = 1; look < LOOKS && found.problem !== null; look++) {
      const before = found.problem;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_MS);
      found = checkFrames(handle, fstatSync(handle).size);
      if (found.problem !== before) found = { ...found, problem: null };
    }
    return found;
  } finally {
    closeSync(handle);
  }
}

const LOOKS = 3;
const LOOK_MS = 100;

function checkFrames(handle: number, size: number): LogFinding {
  const header = read(handle, 0, HEADER_BYTES);
  const pageBytes = header.readUInt32BE(8);
  const isBigEndian = (header.readUInt32BE(0) & 1) === 1;
  const isKnown =
    (header.readUInt32BE(0) & ~1) >>> 0 === MAGIC &&
    [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536].includes(pageBytes);
  let sums = isKnown ? checksum(header.subarray(0, 24), isBigEndian, [0, 0]) : null;
  if (sums === null || !fits(header, 24, sums))
    return { frames: 0, ignored: 0, problem: "its header is damaged, so none of its transactions count" };
  const salts = header.subarray(16, 24);
  const frameBytes = FRAME_HEADER_BYTES + pageBytes;
  let frames = 0;
  let firstBad: number | undefined;
  let ignored = 0;
  /** Commits behind the bad frame that belong to later transactions. */
  let laterCommits = 0;
  for (let at = HEADER_BYTES, number = 1; at + frameBytes <= size; at += frameBytes, number++) {
    const frameHeader = read(handle, at, FRAME_HEADER_BYTES);
    const isCurrent = frameHeader.subarray(8, 16).equals(salts);
    if (firstBad !== undefined) {
      if (isCurrent) ignored++;
      if (isCurrent && isCommit(frameHeader)) laterCommits++;
      continue;
    }
    const page = read(handle, at + FRAME_HEADER_BYTES, pageBytes);
    const next = checksum(page, isBigEndian, checksum(frameHeader.subarray(0, 8), isBigEndian, sums));
    if (isCurrent && fits(frameHeader, 16, next)) {
      sums = next;
      frames = number;
      continue;
    }
    firstBad = number;
    // The next commit is that of the bad frame's own transaction, unless the bad frame is that commit.
    laterCommits = wasCommit(frameHeader, page, isBigEndian, sums, isCurrent) ? 0 : -1;
  }
  if (laterCommits <= 0) return { frames, ignored, problem: null };
  return {
    frames,
    ignored,
    problem: `frame ${firstBad} is damaged, so ${ignored} later frames do not count`,
  };
}

function read(handle: number, position: number, length: number): Buffer {
  const buffer = Buffer.alloc(length);
  readSync(handle, buffer, 0, length, position);
  return buffer;
}

/** The last frame of a transaction has the size of the database. */
function isCommit(frameHeader: Buffer): boolean {
  return frameHeader.readUInt32BE(4) !== 0;
}

/**
 * The same of a frame that does not fit, whose size may be the damaged part. Its page and its checksum allow just
 * one page number and one size: where one of them is what it says, the other was written so too.
 */
function wasCommit(
  frameHeader: Buffer,
  page: Buffer,
  isBigEndian: boolean,
  before: Sums,
  isCurrent: boolean,
): boolean {
  const after = [frameHeader.readUInt32BE(16), frameHeader.readUInt32BE(20)] as const;
  const [first, second] = checksumBefore(page, isBigEndian, after);
  const word = wordsOf(frameHeader, isBigEndian);
  const number = (first - before[0] - before[1]) >>> 0;
  const size = (second - before[1] - first) >>> 0;
  if (number === word(0) || size === word(4)) return size !== 0;
  return isCurrent && isCommit(frameHeader);
}

type Sums = readonly [number, number];

function fits(header: Buffer, at: number, [first, second]: Sums): boolean {
  return header.readUInt32BE(at) === first && header.readUInt32BE(at + 4) === second;
}

/** SQLite's own: two sums over pairs of 32-bit words, in the byte order that the header names. */
function checksum(bytes: Buffer, isBigEndian: boolean, [before, beforeSecond]: Sums): Sums {
  let first = before;
  let second = beforeSecond;
  const word = wordsOf(bytes, isBigEndian);
  for (let at = 0; at < bytes.length; at += 8) {
    first = (first + word(at) + second) >>> 0;
    second = (second + word(at + 4) + first) >>> 0;
  }
  return [first, second];
}

/** The sums with which `checksum` would give these. */
function checksumBefore(bytes: Buffer, isBigEndian: boolean, [after, afterSecond]: Sums): Sums {
  let first = after;
  let second = afterSecond;
  const word = wordsOf(bytes, isBigEndian);
  for (let at = bytes.length - 8; at >= 0; at -= 8) {
    second = (second - word(at + 4) - first) >>> 0;
    first = (first - word(at) - second) >>> 0;
  }
  return [first, second];
}

function wordsOf(bytes: Buffer, isBigEndian: boolean): (at: number) => number {
  return isBigEndian ? (at) => bytes.readUInt32BE(at) : (at) => bytes.readUInt32LE(at);
}
