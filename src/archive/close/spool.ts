import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import type { JournalEvent } from "../../core/event.ts";
import { mergeRuns } from "./merge-runs.ts";
import { createColumns } from "./spool-columns.ts";

/*
 * Sorts the events of a few parts in bounded memory (A5), as an external merge sort does:
 *
 *   add     events gather in a buffer of 8 MB; when it is full, they are written to a temporary file in their order,
 *           as one run
 *   groups  the runs are merged while their events are taken: each run is read from its start to its end, in blocks
 *
 * About 55 bytes for each event stay in memory. The order is group, time in nanoseconds, identity, then arrival,
 * so closing the same plan again gives the same order.
 */

export interface Spool {
  readonly count: number;
  add(group: number, event: JournalEvent, isChanged: boolean): void;
  /** The events of each group in order. The next group ends this one. */
  groups(): Iterable<{ readonly group: number; readonly events: Iterable<SpooledEvent> }>;
  close(): void;
}

/** Valid until the next event is taken. */
export interface SpooledEvent {
  readonly slice: Buffer;
  readonly identity: Buffer;
  /** The timestamp as served; empty where there is none. */
  readonly timestamp: Buffer;
  readonly isChanged: boolean;
}

const RUN_BYTES = 8_000_000;
/** More would take long to sort at once. */
const RUN_EVENTS_MAX = 16_384;
/** Of one run, and of all runs together. */
const BLOCK_BYTES = 262_144;
const BLOCKS_BYTES = 16_000_000;
const BLOCK_BYTES_MIN = 8192;

export function createSpool(path: string, runBytes: number = RUN_BYTES): Spool {
  const fd = openSync(path, "w+", 0o600);
  // Nothing in it outlives the process: the plan makes it again.
  unlinkSync(path);
  const columns = createColumns();
  let buffer: Buffer | undefined;
  /** Sorted events on their way to the file. */
  let stage = Buffer.allocUnsafeSlow(Math.min(BLOCK_BYTES, runBytes));
  /** The rows of each run in their order. */
  const runs: Uint32Array[] = [];
  let [used, firstRow, written] = [0, 0, 0];

  /** Writes the events of the buffer as one run, in their order. */
  function flush(): void {
    if (buffer === undefined || columns.count === firstRow) return;
    let at = 0;
    const rows = columns.sorted(firstRow);
    for (const row of rows) {
      const { offset, length, timestampLength } = columns.place(row);
      const size = length + timestampLength;
      if (at + size > stage.length) {
        write(stage.subarray(0, at));
        at = 0;
        if (size > stage.length) stage = Buffer.allocUnsafeSlow(size);
      }
      buffer.copy(stage, at, offset, offset + size);
      columns.move(row, written + at, runs.length);
      at += size;
    }
    write(stage.subarray(0, at));
    runs.push(rows);
    firstRow = columns.count;
    used = 0;
  }

  function write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, written + at);
    written += bytes.length;
  }

  return {
    get count() {
      return columns.count;
    },
    add(group, event, isChanged) {
      const { bytes, timestamp } = event;
      const timestampLength = Buffer.byteLength(timestamp);
      const length = bytes.length + timestampLength;
      buffer ??= Buffer.allocUnsafeSlow(runBytes);
      if (used + length > buffer.length || columns.count - firstRow === RUN_EVENTS_MAX) flush();
      if (length > buffer.length) buffer = Buffer.allocUnsafeSlow(length);
      columns.add(group, event, { length: bytes.length, timestampLength, offset: used }, isChanged);
      buffer.set(bytes, used);
      buffer.write(timestamp, used + bytes.length);
      used += length;
    },
    *groups() {
      flush();
      buffer = undefined;
      const blockBytes = Math.min(
        BLOCK_BYTES,
        Math.max(BLOCK_BYTES_MIN, Math.floor(BLOCKS_BYTES / runs.length)),
      );
      const alone = { bytes: Buffer.alloc(0) };
      const readers = runs.map(() => createReader(fd, written, blockBytes, alone));
      const rows = mergeRuns(runs, columns.compare);
      let next = rows.next();
      const isOf = (group: number) => !next.done && columns.group(next.value) === group;
      const eventsOf = function* (group: number) {
        for (; isOf(group); next = rows.next()) yield eventOf(next.value!, readers);
      };
      while (!next.done) {
        const group = columns.group(next.value);
        yield { group, events: eventsOf(group) };
        // Those that were not taken.
        while (isOf(group)) next = rows.next();
      }
    },
    close: () => closeSync(fd),
  };

  function eventOf(row: number, readers: readonly Reader[]): SpooledEvent {
    const { offset, length, timestampLength } = columns.place(row);
    const bytes = readers[columns.run(row)]!(offset, length + timestampLength);
    return {
      slice: bytes.subarray(0, length),
      identity: columns.identity(row),
      timestamp: bytes.subarray(length),
      isChanged: columns.isChanged(row),
    };
  }
}

type Reader = (offset: number, length: number) => Buffer;

/**
 * Reads one run in blocks. The next block overwrites the last one. Very many runs have small blocks. An event that is
 * larger than a block is read alone, into memory that all readers share: each run would otherwise keep its own.
 */
function createReader(fd: number, size: number, blockBytes: number, alone: { bytes: Buffer }): Reader {
  let block = Buffer.alloc(0);
  let [start, filled] = [0, 0];
  return (offset, length) => {
    if (length > blockBytes) {
      if (alone.bytes.length < length) alone.bytes = Buffer.allocUnsafeSlow(length);
      read(fd, alone.bytes, offset, length);
      return alone.bytes.subarray(0, length);
    }
    if (offset < start || offset + length > start + filled) {
      if (block.length === 0) block = Buffer.allocUnsafeSlow(blockBytes);
      filled = Math.min(blockBytes, size - offset);
      start = offset;
      read(fd, block, start, filled);
    }
    return block.subarray(offset - start, offset - start + length);
  };
}

function read(fd: number, bytes: Buffer, offset: number, length: number): void {
  for (let at = 0; at < length; ) {
    const got = readSync(fd, bytes, at, length - at, offset + at);
    if (got === 0) throw new Error("The temporary file of closing is shorter than what was written to it.");
    at += got;
  }
}
