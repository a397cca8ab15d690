import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import type { JournalEvent } from "../../core/event.ts";

/*
 * Sorts the events of a few parts in bounded memory (A5): their bytes go to a temporary file in the order of
 * arrival, and 45 bytes for each event stay in memory. The order is group, time in nanoseconds, identity, then
 * arrival, so that closing the same plan again gives the same order.
 */

export interface Spool {
  readonly count: number;
  add(group: number, event: JournalEvent, isChanged: boolean): void;
  /** The events of each group in order. The slice is valid until the next one is taken. */
  groups(): Iterable<{ readonly group: number; readonly events: Iterable<SpooledEvent> }>;
  close(): void;
}

export interface SpooledEvent {
  readonly slice: Uint8Array;
  readonly identity: Uint8Array;
  readonly timestamp: string;
  readonly isChanged: boolean;
}

const IDENTITY_BYTES = 16;
const WRITE_BYTES = 4_000_000;
const BLOCK_BYTES = 131_072;

export function createSpool(path: string): Spool {
  const fd = openSync(path, "w+", 0o600);
  // Nothing in it outlives the process: the plan makes it again.
  unlinkSync(path);
  const columns = createColumns();
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let written = 0;

  function flush(): void {
    const bytes = Buffer.concat(pending, pendingBytes);
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, written + at);
    written += bytes.length;
    pending = [];
    pendingBytes = 0;
  }

  return {
    get count() {
      return columns.count;
    },
    add(group, event, isChanged) {
      columns.add(group, event, written + pendingBytes, isChanged);
      const text = Buffer.from(event.timestamp);
      // The journal's page may be gone when this is written.
      pending.push(Buffer.from(event.bytes), text);
      pendingBytes += event.size + text.length;
      if (pendingBytes >= WRITE_BYTES) flush();
    },
    *groups() {
      flush();
      const order = columns.sorted();
      const read = createReader(fd, written);
      let at = 0;
      while (at < order.length) {
        const group = columns.group(order[at]!);
        let end = at;
        while (end < order.length && columns.group(order[end]!) === group) end++;
        yield { group, events: eventsOf(columns, order.subarray(at, end), read) };
        at = end;
      }
    },
    close: () => closeSync(fd),
  };
}

function* eventsOf(columns: Columns, rows: Uint32Array, read: Reader): Iterable<SpooledEvent> {
  for (const row of rows) {
    const { offset, length, timestampLength } = columns.place(row);
    const bytes = read(offset, length + timestampLength);
    yield {
      slice: bytes.subarray(0, length),
      identity: columns.identity(row),
      timestamp: bytes.toString("latin1", length),
      isChanged: columns.isChanged(row),
    };
  }
}

type Columns = ReturnType<typeof createColumns>;

function createColumns() {
  let capacity = 4096;
  let count = 0;
  let groups = new Uint32Array(capacity);
  let times = new Float64Array(capacity);
  let nanoseconds = new Uint32Array(capacity);
  let identities = Buffer.alloc(capacity * IDENTITY_BYTES);
  let offsets = new Float64Array(capacity);
  let lengths = new Uint32Array(capacity);
  let timestampLengths = new Uint16Array(capacity);
  let changed = new Uint8Array(capacity);

  function grow(): void {
    capacity *= 2;
    groups = larger(groups, new Uint32Array(capacity));
    times = larger(times, new Float64Array(capacity));
    nanoseconds = larger(nanoseconds, new Uint32Array(capacity));
    identities = larger(identities, Buffer.alloc(capacity * IDENTITY_BYTES));
    offsets = larger(offsets, new Float64Array(capacity));
    lengths = larger(lengths, new Uint32Array(capacity));
    timestampLengths = larger(timestampLengths, new Uint16Array(capacity));
    changed = larger(changed, new Uint8Array(capacity));
  }

  const identity = (row: number) => identities.subarray(row * IDENTITY_BYTES, (row + 1) * IDENTITY_BYTES);
  const compare = (a: number, b: number) =>
    groups[a]! - groups[b]! ||
    times[a]! - times[b]! ||
    nanoseconds[a]! - nanoseconds[b]! ||
    Buffer.compare(identity(a), identity(b)) ||
    a - b;

  return {
    get count() {
      return count;
    },
    add(group: number, event: JournalEvent, offset: number, isChanged: boolean): void {
      if (count === capacity) grow();
      groups[count] = group;
      times[count] = event.timestampMs;
      nanoseconds[count] = nanosecondsOf(event.timestamp);
      identities.write(event.identity, count * IDENTITY_BYTES, "hex");
      offsets[count] = offset;
      lengths[count] = event.size;
      timestampLengths[count] = Buffer.byteLength(event.timestamp);
      changed[count] = isChanged ? 1 : 0;
      count++;
    },
    group: (row: number) => groups[row]!,
    identity,
    isChanged: (row: number) => changed[row] === 1,
    place: (row: number) => ({
      offset: offsets[row]!,
      length: lengths[row]!,
      timestampLength: timestampLengths[row]!,
    }),
    sorted(): Uint32Array {
      const order = Uint32Array.from({ length: count }, (_, row) => row);
      return order.sort(compare);
    },
  };
}

function larger<Values extends Uint8Array | Uint16Array | Uint32Array | Float64Array>(
  old: Values,
  next: Values,
): Values {
  next.set(old as never);
  return next;
}

/** The digits of a timestamp's fraction behind its milliseconds. */
export function nanosecondsOf(timestamp: string): number {
  const digits = /\.\d{3}(\d{1,6})/.exec(timestamp)?.[1];
  return digits === undefined ? 0 : Number(digits.padEnd(6, "0"));
}

type Reader = (offset: number, length: number) => Buffer;

/** Reads ahead while neighbours are asked for, and exactly what is asked for while they are not. */
function createReader(fd: number, size: number): Reader {
  let block = Buffer.alloc(0);
  let start = 0;
  let hits = 2;
  return (offset, length) => {
    if (offset >= start && offset + length <= start + block.length) {
      hits++;
      return block.subarray(offset - start, offset - start + length);
    }
    const ahead = Math.max(length, hits >= 2 ? BLOCK_BYTES : length * 2);
    block = Buffer.allocUnsafeSlow(Math.min(ahead, size - offset));
    for (let at = 0; at < block.length; ) {
      const got = readSync(fd, block, at, block.length - at, offset + at);
      if (got === 0) throw new Error("The temporary file of closing is shorter than what was written to it.");
      at += got;
    }
    start = offset;
    hits = 0;
    return block.subarray(0, length);
  };
}
